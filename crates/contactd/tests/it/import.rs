//! Imports: every row accounted for, all or nothing.

use serde_json::json;

use crate::fixture::{ADA, ADA_PHONE, EVE, PEOPLE, many};
use crate::parquet;
use crate::service::{Site, assert_has};
use crate::transcript::{check, check_with_people, transcripts};

fn import(site: &Site, csv: impl AsRef<[u8]>, flags: &[&str]) -> (i32, serde_json::Value) {
    let output = site.run_with(&[&["import", "-", "--source", "crm", "--json"], flags].concat(), csv, &[]);
    let report = if output.stdout.is_empty() { output.stderr.clone().into() } else { output.json() };
    (output.code, report)
}

transcripts! {
    fn a_file_that_cannot_be_read_says_what_to_do_and_every_row_is_accounted_for() { check(&Site::empty(), "import") }
    fn every_input_has_its_own_rejects_file_and_none_is_written_to_an_input() { check(&Site::empty(), "inputs") }
    fn a_replaced_source_keeps_only_what_the_new_file_contains() { check_with_people("replaced") }
    fn more_than_twenty_values_of_a_kind_for_one_profile_are_refused_in_the_order_of_the_file() { check(&Site::empty(), "crowd") }
    fn rows_of_a_person_are_combined_in_the_order_of_the_file_wherever_they_are() { check(&Site::empty(), "combined") }
}

#[test]
fn a_killed_import_leaves_the_old_data_or_the_new_data() {
    let site = Site::with_people();
    let file = site.file("large.csv", many("kill-quell", 20_000));
    let (mut before, mut after) = (0, 0);
    for round in 0..5 {
        let mut child = site.spawn(&["import", &file, "--source", &format!("kill-{round}")]);
        std::thread::sleep(std::time::Duration::from_millis(60 + 150 * round));
        let _ = child.kill();
        let _ = child.wait();
        let stats = site.json(&["stats"]);
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
            [20_000, 20_000] => after += 1,
            other => panic!("a mix of old and new data: {other:?}"),
        }
        assert!(site.run(&["doctor"]).stdout.contains("ok    store"));
    }
    assert!(before > 0, "every import finished before its kill ({after} finished)");
    site.ok(&["import", &file, "--source", "kill-last"]);
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
    let stats = site.json(&["stats"]);
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
    let report = site.json(&["import", &files[0], &files[1], "--source", "crm"]);
    assert_has(&report, json!({ "rows": 12, "detailsNew": 11 }));
    for cut in [10, gzip.len() / 2, gzip.len() - 4] {
        let broken = site.file(one, &gzip[..cut]);
        site.run(&["import", &broken, "--source", "broken"]).mentions(1, "cannot be read");
    }
    let stats = site.json(&["stats"]);
    assert!(!stats.to_string().contains("broken"), "{stats}");
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
    assert_eq!(site.json(&["stats"])["profiles"], 0);
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
    assert_eq!(site.json(&["stats"])["profiles"], 0);
}

#[test]
fn parquet_means_the_same_as_csv_and_null_is_empty() {
    let site = Site::empty();
    let columns = [
        ("profileUrl", vec![ADA, EVE, "https://linkedin.com/company/x"]),
        ("phone", vec![ADA_PHONE, "", ADA_PHONE]),
        ("email", vec!["", "eve@example.com", ""]),
        ("observedAt", vec!["2026-05-01", "", ""]),
        ("confidence", vec!["90", "", "1"]),
    ];
    let file = parquet::file(parquet::plain(), &columns);
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
        site.run_with(&["import", "-", "--source", "broken"], &file[..cut], &[]).mentions(1, "Parquet");
    }
}

#[test]
fn rejected_rows_are_beside_the_data_directory_if_the_working_directory_cannot_be_written_to() {
    let site = Site::embedded();
    let mut import = site.command();
    import.args(["import", "-", "--source", "crm", "--max-rejects", "100%"]).current_dir("/proc");
    let rows = site.file("rows.csv", format!("profileUrl,phone\n{ADA},{ADA_PHONE}\n{EVE},call me\n"));
    let output = import.stdin(std::fs::File::open(rows).expect("opens")).output().expect("runs");
    let kept = site.place("stdin.rejects.csv");
    crate::service::Output::from(output)
        .mentions(0, format!("the rejected rows are in {kept}; correct them there"));
    assert!(std::fs::read_to_string(kept).expect("written").contains("call me"));
}

#[test]
fn a_source_that_is_nearly_called_like_a_known_one_is_asked_about() {
    let site = Site::with_people();
    let again = |source: &str, flags: &[&str]| {
        site.run_with(&[&["import", "-", "--source", source], flags].concat(), PEOPLE, &[])
    };
    again("crn", &["--dry-run"]).mentions(0, "contactd: source crn is new; did you mean crm?\n");
    again("CRM", &[]).mentions(0, "source CRM is new; did you mean crm? Then undo this (contactd imports undo 2) and import again with --source crm\n");
    assert!(!again("partner", &[]).stderr.contains("did you mean"));
    assert!(!again("crm", &[]).stderr.contains("did you mean"));
}
