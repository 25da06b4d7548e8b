//! Malformed and unusual import files: every row is accepted, or rejected with its line and reason.

use std::io::Write;

use serde_json::json;

use crate::audit::fault_library;
use crate::fixture::many;
use crate::service::{Site, assert_has};

/// Imports rows of `phone,email,observedAt,confidence`. Returns for each the reason for its rejection, or `None`.
fn fates(rows: &[&str]) -> Vec<Option<String>> {
    let site = Site::empty();
    let lines: String = rows
        .iter()
        .enumerate()
        .map(|(number, row)| format!("https://linkedin.com/in/hostile-quell-{number},{row}\n"))
        .collect();
    let csv = format!("profileUrl,phone,email,observedAt,confidence\n{lines}");
    let output = site.run_with(
        &["import", "-", "--source", "crm", "--max-rejects", "100%", "--json", "--rejects", "rejects.csv"],
        csv,
        &[],
    );
    assert_eq!(output.code, 0, "{output:?}");
    let mut fates = vec![None; rows.len()];
    if let Ok(mut rejects) = csv::ReaderBuilder::new().flexible(true).from_path(site.path("rejects.csv")) {
        for reject in rejects.records() {
            let reject = reject.expect("a row");
            let line: usize = reject[0].parse().expect("a line");
            fates[line - 2] = Some(reject[2].to_owned());
        }
    }
    let kept = fates.iter().filter(|fate| fate.is_none()).count() as u64;
    assert_eq!(output.json()["profilesNew"], kept);
    fates
}

#[test]
fn numbers_addresses_dates_and_confidences_in_every_odd_spelling() {
    let cases = [
        ("+1 (415) 555-0100,,,", None),
        ("+１４１５５５５０１００,,,", None),
        ("001 415 555 0100,,,", Some("phone_region_needed")),
        ("0014155550100,,,", Some("phone_region_needed")),
        ("4155550100,,,", Some("phone_region_needed")),
        ("tel:+14155550100,,,", Some("phone_letters")),
        ("1.41556E+10,,,", Some("spreadsheet_notation")),
        ("+1-800-FLOWERS,,,", Some("phone_letters")),
        ("+14155550100 ext 5,,,", Some("phone_extension")),
        ("+14155550100;ext=5,,,", Some("phone_extension")),
        ("+14155550100~5,,,", Some("invalid_phone")),
        ("+49 30 12345 / 12346,,,", Some("phone_several")),
        ("+49 30 12345 - 12346,,,", Some("phone_several")),
        ("+4930123456/7/8,,,", Some("phone_several")),
        ("+49 30 12345 [2],,,", Some("phone_several")),
        ("+49 171 1234567 / 8,,,", Some("phone_several")),
        ("+49 30/1234567,,,", None),
        ("+49 30 12345-67,,,", None),
        ("+1 415 - 555 - 0100,,,", None),
        ("'+14155550100,,,", None),
        ("'14155550100,,,", Some("spreadsheet_notation")),
        ("=+14155550100,,,", Some("spreadsheet_notation")),
        ("+493012345678.0,,,", Some("spreadsheet_notation")),
        ("+49.30.12345678,,,", None),
        ("+14155550100,,9999-12-31,", None),
        ("+999999999999999,,,", Some("invalid_phone")),
        (",ü@example.com,,", None),
        (",mailto:a@example.com,,", Some("email_not_bare")),
        (",A <a@example.com>,,", Some("email_not_bare")),
        (",a@example.com;b@example.com,,", Some("email_not_bare")),
        (",a@example,,", Some("invalid_email_domain")),
        (",a@[127.0.0.1],,", Some("invalid_email_domain")),
        (",a b@example.com,,", Some("invalid_email")),
        ("+14155550100,,2026-05-01,", None),
        ("+14155550100,,2026-05-01T10:00:00+02:00,", None),
        ("+14155550100,,01/05/2026,", Some("date_format_needed")),
        ("+14155550100,,1 May 2026,", Some("invalid_date")),
        ("+14155550100,,2026-02-30,", Some("invalid_date")),
        ("+14155550100,,20260501,", Some("invalid_date")),
        ("+14155550100,,46143,", Some("spreadsheet_notation")),
        ("+14155550100,,, 50 ", None),
        ("+14155550100,,,50.5", Some("invalid_confidence")),
        ("+14155550100,,,-1", Some("invalid_confidence")),
        ("+14155550100,,,high", Some("invalid_confidence")),
        ("+14155550100", None),
        ("+14155550100,,,,one too many", Some("too_many_fields")),
        ("\"+1 415\n555 0100\",,,", Some("invalid_phone")),
        (",,,", Some("no_detail")),
    ];
    let rows: Vec<&str> = cases.iter().map(|(row, _)| *row).collect();
    // The row with a line break moves the following lines by one; it is the last but one that is kept.
    let (before, after) = rows.split_at(rows.len() - 2);
    let found = [fates(before), fates(&after[..1]), fates(&after[1..])].concat();
    for ((row, expected), found) in cases.iter().zip(found) {
        assert_eq!(found.as_deref(), *expected, "{row:?}");
    }
}

#[test]
fn a_thousand_columns_and_a_field_of_ten_megabytes_are_accepted() {
    let site = Site::empty();
    let names: String = (0..1_000).map(|number| format!(",column{number}")).collect();
    let note = "x".repeat(10 << 20);
    let csv = format!(
        "profileUrl,phone{names}\nhttps://linkedin.com/in/wide-quell,+14155550100,\"{note}\"\n\
         https://linkedin.com/in/long-quell,{note},\n"
    );
    let output = site.run_with(&["import", "-", "--source", "crm", "--max-rejects", "1", "--json"], csv, &[]);
    assert_eq!(
        (output.code, &output.json()["profilesNew"], &output.json()["rejected"]),
        (0, &1.into(), &1.into())
    );
}

#[test]
fn a_file_that_only_looks_compressed_is_refused_and_a_decompression_bomb_is_bounded() {
    let site = Site::empty();
    let plain =
        site.file("plain.csv.gz", "profileUrl,phone\nhttps://linkedin.com/in/plain-quell,+14155550100\n");
    assert_eq!(site.run(&["import", &plain, "--source", "crm"]).code, 0, "the name does not matter");
    for (name, bytes) in
        [("garbage.gz", &b"\x1F\x8B\x08garbage garbage"[..]), ("garbage.zst", b"\x28\xB5\x2F\xFDgarbage")]
    {
        let file = site.file(name, bytes);
        site.run(&["import", &file, "--source", "crm"]).mentions(1, "cannot be read");
    }
    let mut bomb = zstd::Encoder::new(Vec::new(), 1).expect("packs");
    bomb.write_all(b"profileUrl,phone\n").expect("packs");
    for _ in 0..1_024 {
        bomb.write_all(&[b'x'; 1 << 20]).expect("packs");
    }
    let bomb = site.file("bomb.zst", bomb.finish().expect("packs"));
    site.run(&["import", &bomb, "--source", "crm"]).mentions(1, "longer than 16 MiB");
}

#[test]
fn utf_16_is_recognised_and_read() {
    let text = "profileUrl,phone\nhttps://linkedin.com/in/wide-quell,+14155550100\n";
    let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for bytes in [[b"\xFF\xFE", &little[..]].concat(), [b"\xFE\xFF", &big[..]].concat(), little, big] {
        let report = Site::empty().run_with(&["import", "-", "--source", "crm", "--json"], bytes, &[]).json();
        assert_eq!(report["detailsNew"], 1, "{report}");
    }
}

#[test]
fn a_person_may_have_hundreds_of_details_up_to_a_limit() {
    let site = Site::empty();
    let line = |from: usize, to: usize| {
        let emails: Vec<String> = (from..to).map(|n| format!("\"q{n}@example.com\"")).collect();
        let line = |emails: &[String]| {
            format!(
                "{{\"profileUrl\":\"https://linkedin.com/in/many-quell\",\"emails\":[{}]}}\n",
                emails.join(",")
            )
        };
        emails.chunks(1_000).map(line).collect::<String>()
    };
    let import = ["import", "-", "--source", "crm", "--json"];
    let report = site.run_with(&import, line(0, 300), &[]).json();
    assert_eq!(report["detailsNew"], 300, "{report}");
    let before = site.ok(&["export"]);
    assert_eq!(before.matches("@example.com").count(), 300);
    site.ok_with_input(&import, line(300, 1_000));
    let full = site.run_with(&import, line(1_000, 40_000), &[]);
    assert_eq!((full.code, &full.json()["rejected"]), (1, &39.into()), "{full:?}");
    assert_eq!(full.json()["profilesRefused"][0]["reason"], "too_many_details");
    assert_eq!(site.json(&["stats"])["details"][0]["count"], 1_000);
}

#[test]
fn two_people_with_the_same_hash_are_kept_apart_when_a_source_is_replaced() {
    let site = Site::empty();
    // Their slugs have the same 47 bits of hash, so that their rows are mixed.
    let csv = "profileUrl,phone,email\n\
        https://linkedin.com/in/quell-1620615,+14155550101,\n\
        https://linkedin.com/in/quell-8174454,+14155550102,\n\
        https://linkedin.com/in/quell-1620615,,one@example.com\n";
    site.ok_with_input(&["import", "-", "--source", "crm"], csv);
    let before = site.ok(&["export"]);
    let again = ["import", "-", "--source", "crm", "--replace-source", "--json"];
    let report = site.run_with(&again, csv, &[]).json();
    assert_has(&report, json!({ "detailsWithdrawn": 0, "detailsUnchanged": 3 }));
    assert_eq!(site.ok(&["export"]), before);
}

#[test]
fn a_source_is_replaced_by_its_own_rows_and_not_by_an_empty_file() {
    let site = Site::empty();
    let row = "https://linkedin.com/in/ada-quell,+14155550101";
    site.ok_with_input(&["import", "-", "--source", "crm"], format!("profileUrl,phone\n{row}\n"));
    let replace = ["import", "-", "--source", "crm", "--replace-source"];
    site.ok_with_input(
        &replace,
        "profileUrl,phone,source\nhttps://linkedin.com/in/bo-quell,+14155550102,hr\n",
    );
    let empty = site.run_with(&replace, "profileUrl,phone\n", &[]);
    assert!(empty.code == 1 && empty.stderr.contains("--allow-empty"), "{empty:?}");
    assert_eq!(site.json(&["stats"])["profiles"], 2);
    site.ok_with_input(&[&replace[..], &["--allow-empty"]].concat(), "profileUrl,phone\n");
    assert_eq!(site.json(&["stats"])["profiles"], 1);
}

#[test]
fn a_full_disk_is_reported_and_nothing_is_changed() {
    let site = Site::empty();
    let large = site.file("large.csv", many("full-quell", 60_000));
    let few = site.file("few.csv", "profileUrl,phone\nhttps://linkedin.com/in/few-quell,+14155550101\n");
    // No file of the databases may have more than 4 MiB: the engine is told the same as on a disk without room.
    let library = fault_library(&site).display().to_string();
    let room = site.file("room", "db-room 4194304");
    let run = |args: &[&str]| {
        site.run_with(args, "", &[("LD_PRELOAD", library.as_str()), ("FAULTS", room.as_str())])
    };
    assert_eq!(run(&["import", &few, "--source", "base"]).code, 0);
    let before = run(&["export"]).stdout;
    let refused = run(&["import", &large, "--source", "large"]);
    let told = "the disk is full; make room and run it again";
    assert!(refused.code == 1 && refused.stderr.contains(told), "{refused:?}");
    assert_eq!(run(&["export"]).stdout, before);
    let healthy = run(&["doctor"]);
    assert_eq!(healthy.code, 0, "{healthy:?}");
    assert_eq!(run(&["import", &few, "--source", "after"]).code, 0);
}

/// An import of standard input, run in the site's directory.
fn importing_stdin(site: &Site) -> std::process::Command {
    let mut import = std::process::Command::new(env!("CARGO_BIN_EXE_contactd"));
    import.args(["import", "-", "--source", "crm", "--data"]).arg(site.data()).current_dir(site.path(""));
    import
}

#[test]
fn carriage_return_line_ends_are_refused_and_blank_lines_before_the_header_are_accepted() {
    let site = Site::empty();
    let old = site.file("old.csv", "profileUrl,phone,email\rhttps://linkedin.com/in/a-quell,+14155550101,\r");
    site.run(&["import", &old, "--source", "crm"]).mentions(1, "carriage returns");
    let end = site.file(
        "end.csv",
        "\r\n\r\nprofileUrl,phone\r\nhttps://linkedin.com/in/a-quell,+14155550101\n\u{1}the end\nhttps://linkedin.com/in/b-quell,+14155550102\n",
    );
    let told = site.json(&["import", &end, "--source", "crm", "--max-rejects", "50%"]);
    assert_has(&told, json!({ "rows": 3, "profilesNew": 2 }));
}

#[test]
fn a_format_is_recognised_even_if_the_input_arrives_slowly() {
    use std::io::Write;
    let site = Site::empty();
    let packed =
        zstd::encode_all("profileUrl,phone\nhttps://linkedin.com/in/a-quell,+14155550101\n".as_bytes(), 1);
    let packed = packed.expect("packs");
    // A skippable frame comes first, as parallel compressors write it.
    let packed = [&[0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 7, 7][..], &packed].concat();
    let mut child = importing_stdin(&site).stdin(std::process::Stdio::piped()).spawn().expect("starts");
    let mut input = child.stdin.take().expect("a pipe");
    for piece in [&packed[..1], &packed[1..3], &packed[3..]] {
        input.write_all(piece).expect("writes");
        input.flush().expect("flushes");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    drop(input);
    assert!(child.wait().expect("ends").success());
    assert_eq!(site.json(&["stats"])["profiles"], 1);
}
