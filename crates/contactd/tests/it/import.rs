//! Imports: every row accounted for, all or nothing.

use crate::fixture::{ADA, ADA_PHONE, EVE, PEOPLE};
use crate::service::{EMAIL, PHONE, Service, Site};

fn import(site: &Site, csv: impl AsRef<[u8]>, flags: &[&str]) -> (i32, serde_json::Value) {
    let output = site.run_with(&[&["import", "-", "--source", "crm", "--json"], flags].concat(), csv, &[]);
    let report = if output.stdout.is_empty() { output.stderr.clone().into() } else { output.json() };
    (output.code, report)
}

#[test]
fn a_running_service_serves_what_was_imported_when_the_command_returns() {
    let site = Site::empty();
    let token = site.token(&[]);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    service.site.ok_with_input(&["import", "-", "--source", "crm"], PEOPLE);
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
}

#[test]
fn the_same_file_twice_changes_nothing() {
    let site = Site::empty();
    let (_, first) = import(&site, PEOPLE, &[]);
    assert_eq!(
        (&first["rows"], &first["profilesNew"], &first["detailsNew"]),
        (&7.into(), &5.into(), &11.into())
    );
    let (_, second) = import(&site, PEOPLE, &[]);
    assert_eq!(
        (&second["detailsUnchanged"], &second["detailsNew"], &second["detailsChanged"]),
        (&11.into(), &0.into(), &0.into())
    );
}

#[test]
fn a_newer_row_updates_a_detail_and_changes_which_one_is_best() {
    let (service, token) = Service::with_people();
    let row = format!("profileUrl,phone,confidence,observedAt\n{ADA},+14155550124,95,2026-07-01\n");
    let (code, report) = import(&service.site, row, &[]);
    assert_eq!((code, &report["detailsChanged"], &report["profilesChanged"]), (0, &1.into(), &1.into()));
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], "+14155550124");
}

#[test]
fn rejected_rows_are_kept_unchanged_with_line_column_and_reason() {
    let site = Site::empty();
    let csv = format!(
        "profileUrl,phone,email,note\n{ADA},{ADA_PHONE},,\"a, \"\"quoted\"\"\nnote\"\nhttps://linkedin.com/company/x,+14155550100,,\n\
         {EVE},555-0100,,keep me\n{EVE},,not an address,\n{EVE},,,\n{EVE},+14155550101,,,extra\n"
    );
    let rejects = site.path("rejects.csv");
    let (code, report) =
        import(&site, csv, &["--rejects", rejects.to_str().expect("UTF-8"), "--max-rejects", "90%"]);
    assert_eq!(code, 0, "{report}");
    assert_eq!(
        (&report["rows"], &report["rejected"], &report["detailsNew"]),
        (&6.into(), &5.into(), &1.into())
    );
    assert_eq!(
        report["rejectedByReason"],
        serde_json::json!({"invalid_email": 1, "no_detail": 1, "not_person": 1, "phone_region_needed": 1, "too_many_fields": 1})
    );
    assert_eq!(
        report["examples"][0],
        serde_json::json!({"file": "standard input", "line": 4, "column": "profileUrl", "reason": "not_person"})
    );
    let kept = std::fs::read_to_string(rejects).expect("a rejects file");
    assert_eq!(
        kept,
        format!(
            "rejectedLine,rejectedColumn,rejectedReason,profileUrl,phone,email,note\n\
             4,profileUrl,not_person,https://linkedin.com/company/x,+14155550100,,\n\
             5,phone,phone_region_needed,{EVE},555-0100,,keep me\n\
             6,email,invalid_email,{EVE},,not an address,\n\
             7,phone,no_detail,{EVE},,,\n\
             8,row,too_many_fields,{EVE},+14155550101,,,extra\n"
        )
    );
}

#[test]
fn nothing_is_loaded_if_too_many_rows_are_rejected() {
    let site = Site::empty();
    let csv = format!("profileUrl,phone\n{ADA},{ADA_PHONE}\nx,+14155550100\n");
    let output = site.run_with(&["import", "-", "--source", "crm"], &csv, &[]);
    assert_eq!(output.code, 1);
    assert!(
        output.stderr.contains("nothing was loaded") && output.stderr.contains("stdin.rejects.csv"),
        "{}",
        output.stderr
    );
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
    assert_eq!(import(&site, &csv, &["--max-rejects", "1"]).0, 0);
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 1);
}

#[test]
fn a_dry_run_reports_the_same_and_changes_nothing() {
    let site = Site::empty();
    let (code, report) = import(&site, PEOPLE, &["--dry-run"]);
    assert_eq!((code, &report["detailsNew"], &report["committed"]), (0, &11.into(), &false.into()));
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

#[test]
fn other_headers_a_bom_and_crlf_are_read() {
    let site = Site::empty();
    let csv = format!("\u{FEFF}LinkedIn URL,Mobile,E-Mail\r\n{ADA},(415) 555-0123,ADA@example.com\r\n");
    let flags = [
        "--map",
        "profileUrl=LinkedIn URL",
        "--map",
        "phone=Mobile",
        "--map",
        "email=E-Mail",
        "--region",
        "US",
    ];
    let (code, report) = import(&site, csv, &flags);
    assert_eq!((code, &report["detailsNew"]), (0, &2.into()), "{report}");
    let token = site.token(&[]);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], "ADA@example.com");
}

#[test]
fn a_file_that_cannot_be_read_says_what_to_do() {
    let site = Site::empty();
    for (csv, flags, hint) in [
        ("", &["--source", "crm"][..], "the file is empty"),
        ("url,phone\n", &["--source", "crm"], "--map profileUrl"),
        ("profileUrl,name\n", &["--source", "crm"], "--map phone"),
        ("profileUrl,phone\n", &[], "--source NAME"),
        ("profileUrl,phone,phone\n", &["--source", "crm"], "two columns"),
        ("profileUrl,phone\n", &["--source", "crm", "--map", "email=Mail"], "no column has that header"),
        ("profileUrl;phone\n", &["--source", "crm", "--delimiter", ","], "semicolons"),
        ("profileUrl\tphone\n", &["--source", "crm", "--delimiter", ","], "tabs"),
        ("[{\"profileUrl\":\"x\"}]\n", &["--source", "crm"], "JSON array"),
    ] {
        let output = site.run_with(&[&["import", "-"], flags].concat(), csv, &[]);
        assert_eq!(output.code, 1, "{csv:?}");
        assert!(output.stderr.contains(hint), "{csv:?}: {}", output.stderr);
    }
    for (bytes, hint) in [
        (&b"\x1F\x8B\x08\0\0"[..], "cannot be read"),
        (b"\xFF\xFEp\0r\0", "the columns are pr"),
        (b"PK\x03\x04", "archive"),
    ] {
        let output = site.run_with(&["import", "-", "--source", "crm"], bytes, &[]);
        assert!(output.code == 1 && output.stderr.contains(hint), "{hint}: {}", output.stderr);
    }
    let missing = site.run(&["import", "nowhere.csv", "--source", "crm"]);
    assert!(missing.stderr.contains("cannot read nowhere.csv"), "{}", missing.stderr);
}

#[test]
fn a_header_alone_is_an_import_of_nothing() {
    let (code, report) = import(&Site::empty(), "profileUrl,phone\n", &[]);
    assert_eq!((code, &report["rows"]), (0, &0.into()));
}

#[test]
fn nothing_is_loaded_if_one_of_several_files_is_bad() {
    let site = Site::empty();
    let (good, bad) = (site.file("good.csv", PEOPLE), site.file("bad.csv", "nothing,useful\n1,2\n"));
    assert_eq!(site.run(&["import", &good, &bad, "--source", "crm"]).code, 1);
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

#[test]
fn a_killed_import_leaves_the_old_data_or_the_new_data() {
    let site = Site::with_people();
    let rows: String = (0..60_000)
        .map(|n| {
            format!(
                "https://www.linkedin.com/in/kill-quell-{n:06x},+1415555{:04},k{n}@example.com\n",
                100 + n % 100
            )
        })
        .collect();
    let file = site.file("large.csv", format!("profileUrl,phone,email\n{rows}"));
    let (mut before, mut after) = (0, 0);
    for round in 0..8 {
        let mut child = site.spawn(&["import", &file, "--source", &format!("kill-{round}")]);
        std::thread::sleep(std::time::Duration::from_millis(60 + 230 * round));
        let _ = child.kill();
        let _ = child.wait();
        let stats = site.run(&["stats", "--json"]).json();
        let source = format!("kill-{round}");
        let counts: Vec<u64> = stats["details"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|count| count["source"] == source.as_str())
            .filter_map(|count| count["count"].as_u64())
            .collect();
        match counts.as_slice() {
            [] => before += 1,
            [60_000, 60_000] => after += 1,
            other => panic!("a mix of old and new data: {other:?}"),
        }
        assert!(site.run(&["doctor"]).stdout.contains("ok    store"));
    }
    assert!(before > 0, "every import finished before its kill ({after} finished)");
    site.ok(&["import", &file, "--source", "kill-last"]);
}

#[test]
fn a_file_that_never_ends_its_row_is_refused_within_bounded_memory() {
    let site = Site::empty();
    for (start, what) in [("", "a header"), ("profileUrl,phone\n\"", "a quoted field")] {
        let endless = format!("{start}{}", "x".repeat(40 << 20));
        let output = site.run_with(&["import", "-", "--source", "crm"], endless, &[]);
        assert_eq!(output.code, 1, "{what}");
        assert!(output.stderr.contains("longer than 16 MiB"), "{what}: {}", output.stderr);
    }
}

#[test]
fn bytes_that_are_not_utf8_and_nul_bytes_reject_only_their_row() {
    let site = Site::empty();
    let csv = [
        b"profileUrl,phone\nhttps://linkedin.com/in/ada-\xFFquell,+14155550101\n".as_slice(),
        b"https://linkedin.com/in/ada\0quell,+14155550102\nhttps://linkedin.com/in/ada-quell,+14155550103\n",
    ];
    let (code, report) = import(&site, csv.concat(), &["--max-rejects", "2"]);
    assert_eq!((code, &report["detailsNew"]), (0, &1.into()), "{report}");
    assert_eq!(report["rejectedByReason"], serde_json::json!({"control_char": 1, "not_utf8": 1}));
}

#[test]
fn a_quote_that_is_never_closed_is_reported_and_nothing_is_loaded() {
    let site = Site::empty();
    let csv = format!(
        "profileUrl,phone,note\r\n{EVE},+14155550101,ok\r\n{ADA},{ADA_PHONE},\"oops\r\n{EVE},+14155550102,fine\r\n"
    );
    let output = site.run_with(&["import", "-", "--source", "crm"], csv, &[]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("a quote is opened on line"), "{}", output.stderr);
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

#[test]
fn lines_are_counted_as_an_editor_counts_them() {
    let site = Site::empty();
    for (end, blank) in [("\n", ""), ("\r\n", ""), ("\n", "\n\n"), ("\r\n", "\r\n")] {
        let csv = format!(
            "profileUrl,phone,note{end}{blank}x,+14155550100,\"two{end}lines\"{end}{blank}y,+14155550100,{end}"
        );
        let (_, report) = import(&site, csv, &["--max-rejects", "100%", "--dry-run"]);
        let lines: Vec<_> =
            report["examples"].as_array().expect("a list").iter().map(|e| e["line"].as_u64()).collect();
        let skipped = blank.matches('\n').count() as u64;
        assert_eq!(lines, [Some(2 + skipped), Some(4 + 2 * skipped)], "{end:?} {blank:?}");
    }
}

#[test]
fn every_input_has_its_own_rejects_file_and_none_is_written_to_an_input() {
    let site = Site::empty();
    let first = site.file("one.csv", "profileUrl,phone\nbad1,+14155550101\n");
    let second = site.file("two.csv", "email,profileUrl\nq@example.com,bad2\n");
    let output = site.run(&["import", "one.csv", "two.csv", "--source", "crm", "--max-rejects", "100%"]);
    assert_eq!(output.code, 0, "{output:?}");
    let kept = |name: &str| std::fs::read_to_string(site.path(name)).expect("a rejects file");
    let (one, two) = (
        "rejectedLine,rejectedColumn,rejectedReason,profileUrl,phone\n2,profileUrl,not_a_url,bad1,+14155550101\n",
        "rejectedLine,rejectedColumn,rejectedReason,email,profileUrl\n2,profileUrl,not_a_url,q@example.com,bad2\n",
    );
    assert_eq!((kept("one.csv.rejects.csv").as_str(), kept("two.csv.rejects.csv").as_str()), (one, two));
    let chosen = ["--rejects", "both.csv", "--max-rejects", "100%"];
    site.ok(&[&["import", "one.csv", "two.csv", "--source", "crm"], &chosen[..]].concat());
    assert_eq!((kept("both.csv").as_str(), kept("both.2.csv").as_str()), (one, two));
    let refused = site.run(&[
        "import",
        &first,
        &second,
        "--source",
        "crm",
        "--rejects",
        "two.csv",
        "--max-rejects",
        "100%",
    ]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("is one of the files"), "{}", refused.stderr);
    assert!(std::fs::read_to_string(second).expect("still there").starts_with("email,"));
}

/// An import that has read all people and waits for more, because its file is a pipe.
fn waiting_import(site: &Site) -> (std::process::Child, std::fs::File) {
    let pipe = site.path("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0)
        .expect("a pipe");
    let child = site.spawn(&["import", pipe.to_str().expect("UTF-8"), "--source", "crm"]);
    let mut feed = std::fs::OpenOptions::new().write(true).open(&pipe).expect("opens");
    std::io::Write::write_all(&mut feed, PEOPLE.as_bytes()).expect("feeds");
    (child, feed)
}

#[test]
fn a_person_who_opts_out_during_an_import_is_not_imported() {
    let site = Site::empty();
    let (mut child, feed) = waiting_import(&site);
    until_ctrl_c_is_handled(&child);
    site.ok(&["suppress", ADA]);
    drop(feed);
    assert!(child.wait().expect("ends").success());
    let stats = site.run(&["stats", "--json"]).json();
    let newest = &stats["newestImport"];
    assert_eq!(
        (&stats["profiles"], &newest["suppressed"], &newest["detailsNew"]),
        (&4.into(), &6.into(), &5.into()),
        "{stats}"
    );
}

/// The people of [`PEOPLE`], with every detail of a person on one line.
const PEOPLE_JSON: &str = r#"
{"profileUrl":"https://www.linkedin.com/in/ada-quell-1a2b3c","confidence":80,"observedAt":"2026-06-01","basis":"consent","phones":[{"value":"+14155550123","confidence":90,"observedAt":"2026-05-01"},"+14155550124",{"value":"+14155550125","label":"work","confidence":100}],"emails":[{"value":"ada@example.com","confidence":"90","observedAt":"2026-05-01"},{"value":"ada.old@example.com"},{"value":"ada@work.example.com","label":"work","confidence":100}]}

{"profileUrl":"https://www.linkedin.com/in/eve-nuvel-2b3c4d","email":"Eve.Nuvel@example.org","phone":null}
{"profileUrl":"https://www.linkedin.com/in/una-vastor-3c4d5e","phone":"(415) 555-0177","email":"una@work.example.com","phoneLabel":"work","emailLabel":"work","region":"US"}
{"profileUrl":"https://www.linkedin.com/in/old-ebrix-4d5e6f","phone":"+14155550188","expiresAt":"2020-01-01"}
{"profileUrl":"https://www.xing.com/profile/Mira_Quellbach2","phones":["+44 20 7946 0123"]}
"#;

#[test]
fn json_lines_mean_the_same_as_csv_flat_or_nested() {
    let site = Site::empty();
    let (code, first) = import(&site, PEOPLE, &[]);
    assert_eq!((code, &first["detailsNew"]), (0, &11.into()));
    let (code, second) = import(&site, format!("\u{FEFF}{}", PEOPLE_JSON.trim_start()), &[]);
    assert_eq!((code, &second["rows"], &second["detailsUnchanged"]), (0, &5.into(), &11.into()), "{second}");
}

#[test]
fn compressed_files_are_read_directly_and_broken_ones_are_reported() {
    let site = Site::empty();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, PEOPLE.as_bytes()).expect("packs");
    let gzip = gzip.finish().expect("packs");
    let zstd = zstd::encode_all(PEOPLE_JSON.as_bytes(), 1).expect("packs");
    let (files, one) = ([site.file("people.gz", &gzip), site.file("people", &zstd)], "people.csv");
    let report = site.run(&["import", &files[0], &files[1], "--source", "crm", "--json"]).json();
    assert_eq!((&report["rows"], &report["detailsNew"]), (&12.into(), &11.into()), "{report}");
    for cut in [10, gzip.len() / 2, gzip.len() - 4] {
        let broken = site.file(one, &gzip[..cut]);
        let output = site.run(&["import", &broken, "--source", "broken"]);
        assert_eq!(output.code, 1, "cut at {cut}");
        assert!(output.stderr.contains("cannot be read"), "{}", output.stderr);
    }
    let stats = site.run(&["stats", "--json"]).json();
    assert!(!stats.to_string().contains("broken"), "{stats}");
}

#[test]
fn a_rejected_json_line_is_kept_unchanged() {
    let site = Site::empty();
    let lines =
        format!("{{\"profileUrl\":\"{ADA}\",\"phone\":\"{ADA_PHONE}\"}}\n{{\"profileUrl\":\n\n[1, 2]\n");
    let (code, report) = import(&site, lines, &["--max-rejects", "2"]);
    assert_eq!((code, &report["detailsNew"], &report["rejected"]), (0, &1.into(), &2.into()), "{report}");
    let kept = std::fs::read_to_string(site.path("stdin.rejects.jsonl")).expect("a rejects file");
    assert_eq!(
        kept,
        "{\"rejectedLine\":2,\"rejectedColumn\":\"row\",\"rejectedReason\":\"not_json\",\"profileUrl\":\n\
         {\"rejectedLine\":4,\"rejectedColumn\":\"row\",\"rejectedReason\":\"not_object\",\"rejectedRow\":\"[1, 2]\"}\n"
    );
}

#[test]
fn a_replaced_source_keeps_only_what_the_new_file_contains() {
    let (service, token) = Service::with_people();
    service.site.ok(&["put", EVE, "--phone", "+14155550166", "--source", "hand"]);
    let rows = format!("profileUrl,phone\n{ADA},+14155550124\n{EVE},+14155550166\n");
    let dry = import(&service.site, &rows, &["--replace-source", "--dry-run"]).1;
    let (code, report) = import(&service.site, &rows, &["--replace-source"]);
    assert_eq!(code, 0);
    for report in [dry, report] {
        assert_eq!(
            (&report["detailsWithdrawn"], &report["detailsNew"], &report["detailsChanged"]),
            (&10.into(), &1.into(), &1.into()),
            "{report}"
        );
    }
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], "+14155550124");
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 404);
    assert_eq!(service.look_up(PHONE, &token, EVE).json()["phoneNumber"], "+14155550166");
    let stats = service.site.run(&["stats", "--json"]).json();
    assert_eq!(stats["profiles"], 2, "{stats}");
}

#[test]
fn rows_of_a_person_are_combined_in_the_order_of_the_file_wherever_they_are() {
    let site = Site::empty();
    let rows: String = (0..5_000)
        .map(|n| format!("https://linkedin.com/in/order-quell-{},+14155550100,{}\n", n % 700, n / 700))
        .collect();
    let (code, report) = import(&site, format!("profileUrl,phone,confidence\n{rows}"), &[]);
    // If a file contains a detail twice, the last one is used, and the detail does not count as changed.
    assert_eq!((code, &report["detailsNew"], &report["detailsUnchanged"]), (0, &700.into(), &4_300.into()));
    let again: String = (0..700)
        .map(|n| format!("https://linkedin.com/in/order-quell-{n},+14155550100,{}\n", (4_999 - n) / 700))
        .collect();
    let (_, report) = import(&site, format!("profileUrl,phone,confidence\n{again}"), &[]);
    assert_eq!(report["detailsUnchanged"], 700, "{report}");
}

/// Waits until an import is far enough to handle SIGINT itself, which it does before it reads.
fn until_ctrl_c_is_handled(child: &std::process::Child) {
    let status = format!("/proc/{}/status", child.id());
    crate::service::eventually("it handles SIGINT", || {
        let status = std::fs::read_to_string(&status).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
        u64::from_str_radix(caught.trim(), 16).expect("hexadecimal") & (1 << (2 - 1)) != 0
    });
}

#[test]
fn ctrl_c_stops_an_import_and_nothing_is_changed() {
    let site = Site::empty();
    let (mut child, feed) = waiting_import(&site);
    until_ctrl_c_is_handled(&child);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("tells it");
    // It ends although the input is still open.
    assert_eq!(child.wait().expect("ends").code(), Some(1));
    drop(feed);
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

#[test]
fn ctrl_c_stops_an_import_that_is_busy_reading() {
    let site = Site::empty();
    let (mut child, mut feed) = waiting_import(&site);
    // There is always one more row to read.
    let rows: String =
        (0..1_000).map(|n| format!("https://linkedin.com/in/busy-quell-{n},+14155550100\n")).collect();
    let feeding =
        std::thread::spawn(move || while std::io::Write::write_all(&mut feed, rows.as_bytes()).is_ok() {});
    until_ctrl_c_is_handled(&child);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("tells it");
    crate::service::eventually("it ends", || child.try_wait().expect("asks").is_some());
    assert_eq!(child.wait().expect("ends").code(), Some(1));
    feeding.join().expect("ends with the pipe's reader");
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

/// A Parquet file with these text columns, where an empty text is null, and a column of numbers.
fn parquet(names: &[&str], rows: &[&[&str]], confidence: &[i32]) -> Vec<u8> {
    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    let columns: String = names.iter().map(|name| format!("optional binary {name} (UTF8); ")).collect();
    let schema = format!("message people {{ {columns} required int32 confidence; }}");
    let schema = parquet::schema::parser::parse_message_type(&schema).expect("a schema");
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer =
        SerializedFileWriter::new(Vec::new(), schema.into(), properties.into()).expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for column in 0..names.len() {
        let texts: Vec<&str> = rows.iter().map(|row| row[column]).collect();
        let levels: Vec<i16> = texts.iter().map(|text| i16::from(!text.is_empty())).collect();
        let values: Vec<ByteArray> =
            texts.iter().filter(|text| !text.is_empty()).map(|text| ByteArray::from(*text)).collect();
        let mut writer = group.next_column().expect("a column").expect("one more");
        writer.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).expect("writes");
        writer.close().expect("closes");
    }
    let mut last = group.next_column().expect("a column").expect("one more");
    last.typed::<Int32Type>().write_batch(confidence, None, None).expect("writes");
    last.close().expect("closes");
    group.close().expect("closes");
    writer.into_inner().expect("finishes")
}

#[test]
fn parquet_means_the_same_as_csv_and_null_is_empty() {
    let site = Site::empty();
    let names = ["profileUrl", "phone", "email", "observedAt"];
    let rows: [&[&str]; 3] = [
        &[ADA, ADA_PHONE, "", "2026-05-01"],
        &[EVE, "", "eve@example.com", ""],
        &["https://linkedin.com/company/x", ADA_PHONE, "", ""],
    ];
    let file = parquet(&names, &rows, &[90, 50, 1]);
    for flags in [&["--max-rejects", "1"][..], &["--max-rejects", "1", "--format", "parquet"]] {
        let (code, report) = import(&site, &file, flags);
        assert_eq!((code, &report["rows"], &report["rejected"]), (0, &3.into(), &1.into()), "{report}");
        assert_eq!(report["examples"][0]["line"], 3);
    }
    let csv = format!(
        "profileUrl,phone,email,confidence,observedAt\n{ADA},{ADA_PHONE},,90,2026-05-01\n{EVE},,eve@example.com,,\n"
    );
    let (_, report) = import(&site, csv, &[]);
    assert_eq!(report["detailsUnchanged"], 2, "{report}");
    let kept = std::fs::read_to_string(site.path("stdin.rejects.csv")).expect("a rejects file");
    assert!(kept.contains("\n3,profileUrl,not_person,https://linkedin.com/company/x,"), "{kept}");
    for cut in [4, file.len() / 2, file.len() - 4] {
        let output = site.run_with(&["import", "-", "--source", "broken"], &file[..cut], &[]);
        assert!(output.code == 1 && output.stderr.contains("Parquet"), "cut at {cut}: {}", output.stderr);
    }
}

#[test]
fn a_source_with_more_than_1000_details_of_one_profile_is_refused_for_that_profile() {
    let site = Site::empty();
    let rows = |people: std::ops::Range<u32>| -> String {
        people.map(|n| format!("https://linkedin.com/in/crowd-quell,p{n}@example.com\n")).collect()
    };
    let file =
        format!("profileUrl,email\n{}https://linkedin.com/in/bo-quell,bo@example.com\n", rows(0..1_001));
    let report =
        site.run_with(&["import", "-", "--source", "crm", "--json", "--max-rejects", "100%"], &file, &[]);
    let json = report.json();
    assert_eq!(
        (&json["committed"], &json["detailsNew"], &json["rejected"], &json["rejectedByReason"]),
        (&true.into(), &1.into(), &1_001.into(), &serde_json::json!({ "too_many_details": 1_001 }))
    );
    assert_eq!(
        json["profilesRefused"],
        serde_json::json!([{ "profileUrl": "https://linkedin.com/in/crowd-quell", "source": "crm",
            "reason": "too_many_details" }])
    );
    let said = site.run_with(&["import", "-", "--source", "crm", "--max-rejects", "100%"], &file, &[]);
    assert!(
        said.stdout.contains(
            "  https://linkedin.com/in/crowd-quell: crm would have more than 1000 details of this one profile, so none of them was \
             loaded\n"
        ),
        "{said:?}"
    );
    // Nothing at all is loaded if that is more than --max-rejects allows.
    let refused = site.run_with(&["import", "-", "--source", "hr"], &file, &[]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert_eq!(site.ok(&["export"]).lines().count(), 1);
    // A thousand are accepted, and any number of rows that say the same.
    site.ok_with_input(&["import", "-", "--source", "crm"], format!("profileUrl,email\n{}", rows(0..1_000)));
    site.ok_with_input(
        &["import", "-", "--source", "crm"],
        format!("profileUrl,email\n{}", rows(7..8).repeat(50_000)),
    );
    let put = site.run(&[
        "put",
        "https://linkedin.com/in/crowd-quell",
        "--email",
        "one-more@example.com",
        "--source",
        "crm",
    ]);
    assert_eq!(
        (put.code, &*put.stderr),
        (
            1,
            "contactd: the source already has 1000 details for this profile, which is the most; nothing was changed\n"
        )
    );
}
