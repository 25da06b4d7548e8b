//! Malformed and unusual import files: every row is accepted, or rejected with its line and reason.

use std::io::Write;

use crate::audit::fault_library;
use crate::fixture::many;
use crate::service::Site;
use crate::transcript::{check, transcripts};

transcripts! {
    fn numbers_addresses_dates_and_confidences_in_every_odd_spelling() { check(&Site::empty(), "odd") }
    fn a_source_is_replaced_by_its_own_rows_and_not_by_an_empty_file() { check(&Site::empty(), "replaced_by_its_own") }
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
    run(&["import", &large, "--source", "large"])
        .mentions(1, "the disk of the data directory on this machine is full: make room there");
    assert_eq!(run(&["export"]).stdout, before);
    assert_eq!(run(&["doctor"]).code, 0);
    assert_eq!(run(&["import", &few, "--source", "after"]).code, 0);
}

#[test]
fn a_format_is_recognised_even_if_the_input_arrives_slowly() {
    let site = Site::empty();
    let packed =
        zstd::encode_all("profileUrl,phone\nhttps://linkedin.com/in/a-quell,+14155550101\n".as_bytes(), 1);
    let packed = packed.expect("packs");
    // A skippable frame comes first, as parallel compressors write it.
    let packed = [&[0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 7, 7][..], &packed].concat();
    let mut import = site.command();
    import.args(["import", "-", "--source", "crm"]).stdin(std::process::Stdio::piped());
    let mut child = import.spawn().expect("starts");
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
