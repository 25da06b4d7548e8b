//! Undoing imports, and replacing a source by mistake.

use crate::erase::files_with;
use crate::fixture::{ADA, ADA_PHONE, PEOPLE};
use crate::service::{PHONE, Service, Site};
use crate::transcript::{check, check_with_people, transcripts};

/// A file of one row for each of these people, each with its own number and address.
fn rows(people: impl Iterator<Item = u32>) -> String {
    let mut rows = "profileUrl,phone,email,confidence,basis\n".to_owned();
    for n in people {
        rows += &format!(
            "https://linkedin.com/in/quell-{n},+1415555{:04},p{n}@example.com,50,consent\n",
            100 + n % 100
        );
    }
    rows
}

transcripts! {
    fn undoing_a_large_replacement_gives_the_same_export_byte_for_byte() { check(&Site::empty(), "large_undo") }
    fn what_was_removed_since_stays_gone_and_the_rest_comes_back_while_serving() { check_with_people("removed_since") }
    fn the_newest_import_of_a_source_is_undone_first_and_as_long_as_it_is_kept() { check(&Site::empty(), "undo") }
    fn a_file_of_one_row_does_not_replace_a_large_source_by_mistake() { check(&Site::empty(), "one_row") }
}

#[test]
fn somebody_who_was_erased_since_is_nowhere_after_an_undo() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let changed = PEOPLE.replace(",90,", ",70,").replace("+14155550124,ada.old@example.com", "+14155550199,");
    site.ok_with_input(&["import", "-", "--source", "crm", "--replace-source"], &changed);
    let kept = site.json(&["stats"])["keptForUndo"]["details"].clone();
    assert_eq!(kept, 4, "two are changed, two are withdrawn");
    assert!(
        site.ok(&["stats"]).contains("kept for undo 4 details, about 0.0 MiB"),
        "{}",
        site.ok(&["stats"])
    );
    let report = site.json(&["subject", ADA]);
    let held = report["held"].as_array().expect("a list");
    let kept = held.iter().filter(|held| held["keptForUndoUntil"].is_string()).count();
    assert_eq!((held.len(), kept), (9, 4), "what is kept counts as held: {report}");
    assert!(site.ok(&["subject", ADA]).contains("former, kept for undo until 20"));
    assert!(site.ok(&["subject", ADA, "--html"]).contains("it is a former entry"));
    site.ok(&["erase", ADA]);
    let traces = [ADA_PHONE, "+14155550124", "+14155550199", "ada.old@example.com", "ada@example.com"];
    assert_eq!(files_with(&site.data(), &traces), [""; 0]);
    site.ok(&["imports", "undo", "2"]);
    assert_eq!(files_with(&site.data(), &traces), [""; 0]);
    assert_eq!(site.json(&["subject", ADA])["held"], serde_json::json!([]));
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(site.json(&["stats"])["keptForUndo"]["details"], 0);
}

#[test]
fn whoever_is_erased_while_an_import_reads_leaves_nothing() {
    use std::io::Write;
    let site = Site::empty();
    // So that pages are split when the rows below come in between.
    site.import("old", rows((0..8_000).step_by(2)));
    let mut import = site.command();
    import.args(["import", "-", "--source", "crm"]).stdin(std::process::Stdio::piped());
    import.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut import = import.spawn().expect("starts");
    let mut stdin = import.stdin.take().expect("a pipe");
    let all: Vec<u32> = (1..8_000).step_by(2).collect();
    stdin.write_all(rows(all.iter().copied()).as_bytes()).expect("writes");
    // The import has checked who has opted out before it read the first row, and it has not written anything yet.
    let erased: Vec<u32> = all.iter().copied().step_by(97).collect();
    let urls: Vec<String> = erased.iter().map(|n| format!("https://linkedin.com/in/quell-{n}")).collect();
    for url in &urls {
        site.ok(&["erase", url]);
    }
    drop(stdin);
    assert!(import.wait().expect("ends").success());
    let traces: Vec<String> = erased.iter().map(|n| format!("p{n}@example.com")).collect();
    let traces: Vec<&str> = traces.iter().map(String::as_str).collect();
    assert_eq!(files_with(&site.data(), &traces), [""; 0]);
    assert_eq!(site.ok(&["export"]).lines().count(), 8_000 - erased.len());
}
