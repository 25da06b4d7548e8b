//! The files in `fixtures/messy/`: what people really export, each with its expected report.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::service::{Output, Site};

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy");

/// The messy files, in order.
fn inputs() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(DIR).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|file| {
        let name = name(file);
        name.starts_with(|c: char| c.is_ascii_digit()) && !name.ends_with(".args") && !name.ends_with(".json")
    });
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name().expect("a name").to_string_lossy().into_owned()
}

/// What belongs to a messy file: its flags, its report, or its correction.
fn beside(file: &Path, ending: &str) -> Option<String> {
    let name = name(file);
    let stem = name.split('.').next().expect("a stem");
    std::fs::read_to_string(Path::new(DIR).join(format!("{stem}.{ending}"))).ok()
}

fn import(site: &Site, input: &str, flags: &str) -> Output {
    let flags: Vec<&str> = flags.lines().collect();
    site.run(&[&["import", input, "--json", "--max-rejects", "100%"], &flags[..]].concat())
}

/// What a command did: its exit code, its report or its error, and the rejects file that it wrote.
fn outcome(site: &Site, input: &str, output: &Output) -> Value {
    if output.code != 0 {
        return json!({"exit": output.code, "error": output.stderr.trim_end()});
    }
    let mut outcome = json!({"exit": 0, "report": output.json()});
    if let Some((_, kept)) = rejects(site, input) {
        outcome["rejects"] = kept.lines().collect();
    }
    outcome
}

/// The rejects file of an input.
fn rejects(site: &Site, input: &str) -> Option<(String, String)> {
    ["csv", "jsonl"].iter().find_map(|ending| {
        let name = format!("{input}.rejects.{ending}");
        let bytes = std::fs::read(site.path(&name)).ok()?;
        Some((name, String::from_utf8_lossy(&bytes).into_owned()))
    })
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[test]
fn every_messy_file_has_the_expected_report_and_its_corrected_rejects_load() {
    let files = inputs();
    assert!(files.len() >= 25, "{}", files.len());
    let mut corrected = 0;
    for file in files {
        let input = name(&file);
        let flags = beside(&file, "args").unwrap_or_default();
        let site = Site::empty();
        site.file(&input, std::fs::read(&file).expect("reads"));
        let output = import(&site, &input, &flags);
        let expected = beside(&file, "report.json").unwrap_or_else(|| panic!("{input} has no report"));
        let outcome = outcome(&site, &input, &output);
        assert_eq!(outcome, parsed(&expected), "{input}: {outcome:#}");
        let Some(again) = beside(&file, "again.json").map(|text| parsed(&text)) else { continue };

        // Correct the rejects file and import it: everything is loaded, and nothing that was loaded before changes.
        let (rejects_file, mut kept) = rejects(&site, &input).expect("a rejects file");
        for change in again["replace"].as_array().expect("a list") {
            let (from, to) = (change[0].as_str().expect("a text"), change[1].as_str().expect("a text"));
            assert!(kept.contains(from), "{input}: {from} is not in {kept}");
            kept = kept.replace(from, to);
        }
        site.file(&rejects_file, &kept);
        let output = import(&site, &rejects_file, &flags);
        let report = output.json();
        assert_eq!((output.code, &report), (0, &again["report"]), "{input}: {report:#}");
        for (field, count) in [("rejected", 0), ("detailsChanged", 0), ("detailsWithdrawn", 0)] {
            assert_eq!(report[field], count, "{input}: {field}");
        }
        assert!(!report["columnsNotUsed"].to_string().contains("rejected"), "{input}");
        corrected += 1;
    }
    assert!(corrected >= 10, "{corrected}");
}
