//! The files in `fixtures/messy/`: what people really export, each with its expected report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::admin_api::AdminApi;
use crate::console_imports::upload_request;
use crate::http::Request;
use crate::service::{Output, Service, Site};

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
    assert!(files.len() >= 80, "{}", files.len());
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

/// The values of a flag in a file of flags.
fn values<'a>(flags: &'a str, flag: &str) -> Vec<&'a str> {
    let lines: Vec<&str> = flags.lines().collect();
    lines.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1]).collect()
}

/// The expected report, if the file can be imported; and its flags.
fn expected(file: &Path) -> (Option<Value>, String) {
    let outcome = parsed(&beside(file, "report.json").expect("a report"));
    let report = outcome.get("report").cloned();
    (report, beside(file, "args").unwrap_or_default())
}

/// What the console asks for a check with the same columns and settings.
fn asked(upload: &Value, flags: &str) -> Value {
    let mut mapping = Map::new();
    for map in values(flags, "--map") {
        let (field, header) = map.split_once('=').expect("a mapping");
        let headers = mapping.entry(field).or_insert_with(|| json!([]));
        headers.as_array_mut().expect("a list").push(json!(header));
    }
    for column in upload["columns"].as_array().expect("a list") {
        if let Some(field) = column["field"].as_str().filter(|field| !mapping.contains_key(*field)) {
            mapping.insert(field.to_owned(), column["name"].clone());
        }
    }
    let mut asked = json!({
        "upload": upload["id"], "mapping": mapping, "dryRun": true, "maxRejects": "100%",
        "requireBasis": flags.contains("--require-basis"),
    });
    for (field, flag) in [
        ("source", "--source"),
        ("region", "--region"),
        ("dateFormat", "--date-format"),
        ("encoding", "--encoding"),
        ("sheet", "--sheet"),
    ] {
        if let Some(value) = values(flags, flag).first() {
            asked[field] = json!(value);
        }
    }
    asked
}

#[test]
fn the_console_finds_the_same_in_every_messy_file() {
    let service = Site::empty().serve();
    let operator = AdminApi::with_role(&service, "admin");
    let (mut checked, mut refused) = (0, 0);
    for file in inputs() {
        let (report, flags) = expected(&file);
        // The console detects what separates columns, and replaces sources in another test.
        if flags.contains("--delimiter") || flags.contains("--replace-source") {
            continue;
        }
        let input = name(&file);
        let sent = operator.send(upload_request(&input, std::fs::read(&file).expect("reads")));
        if sent.status != 201 {
            assert!(report.is_none(), "{input}: {}", sent.shown());
            refused += 1;
            continue;
        }
        let (sheet, encoding) = (values(&flags, "--sheet"), values(&flags, "--encoding"));
        let id = sent.json()["id"].as_str().expect("an id").to_owned();
        let seen = operator.get(&format!(
            "/uploads/{id}?sheet={}&encoding={}",
            sheet.first().unwrap_or(&"").replace(' ', "%20"),
            encoding.first().unwrap_or(&"")
        ));
        let Some(report) = report else {
            let started = match seen.status {
                200 => operator.post("/imports", &asked(&seen.json(), &flags)).status,
                status => status,
            };
            assert!(started >= 400, "{input}: {started}");
            refused += 1;
            continue;
        };
        let job = operator.job("/imports", &asked(&seen.json(), &flags));
        for field in [
            "rows",
            "rejected",
            "partlyRejected",
            "rejectedByReason",
            "detailsNew",
            "examples",
            "warnings",
            "inputs",
        ] {
            assert_eq!(job["result"][field], report[field], "{input}: {field} in {job:#}");
        }
        checked += 1;
        operator.send(Request::new("DELETE", &format!("{}/uploads/{id}", crate::admin_api::BASE)));
    }
    assert!(checked >= 50 && refused >= 12, "{checked} {refused}");
}

#[test]
fn enrich_reads_and_writes_the_same_rows_for_the_same_people() {
    let (service, token) = Service::with(&[], "");
    let site = &service.site;
    let url = format!("http://{}", service.public);
    let mut enriched = 0;
    for file in inputs() {
        let (Some(report), flags) = expected(&file) else { continue };
        let input = name(&file);
        let stem = input.split('.').next().expect("a stem");
        site.file(&input, std::fs::read(&file).expect("reads"));
        // Each file is a source of its own.
        let flags =
            flags.replace("--source\ncrm", &format!("--source\n{stem}")).replace("--replace-source\n", "");
        assert_eq!(import(site, &input, &flags).code, 0, "{input}");
        let held: BTreeSet<String> = site
            .ok(&["export", "--source", stem])
            .lines()
            .map(|line| parsed(line)["profileUrl"].as_str().expect("a URL").to_owned())
            .collect();

        let output = format!("out-{input}");
        let mut args = vec!["enrich", &input, &output, "--url", &url, "--token", &token, "--json"];
        let column = values(&flags, "--map").into_iter().find_map(|map| map.strip_prefix("profileUrl="));
        args.extend(["--column", column.unwrap_or("profileUrl")]);
        for flag in ["--sheet", "--encoding", "--delimiter"] {
            args.extend(values(&flags, flag).into_iter().flat_map(|value| [flag, value]));
        }
        let done = site.run(&args);
        let has_notes_beside = input.starts_with("58-");
        let loses_bytes =
            report["rejectedByReason"]["not_utf8"].is_u64() && report["inputs"][0]["encoding"] != "UTF-8";
        if has_notes_beside
            || loses_bytes
            || report["rejectedByReason"].as_object().expect("reasons").keys().any(|reason| {
                ["too_many_fields", "not_json", "not_object", "duplicate_field"].contains(&reason.as_str())
            })
        {
            // It cannot say where the added columns would be, or write what is there.
            assert_eq!(done.code, 1, "{input}: {done:?}");
            continue;
        }
        assert_eq!((done.code, &done.json()["rows"]), (0, &report["rows"]), "{input}: {done:?}");

        // The same format, encoding, delimiter and rows; and everybody who was loaded is found.
        let again = import(site, &output, &[&flags, "--dry-run\n"].concat()).json();
        let (read, before) = (&again["inputs"][0], &report["inputs"][0]);
        for field in ["format", "encoding", "delimiter"] {
            assert_eq!(read[field], before[field], "{input}: {field}");
        }
        assert_eq!(again["rows"], report["rows"], "{input}");
        let lines = format!("{output}.jsonl");
        if before["format"] != "jsonl" {
            let args: Vec<&str> =
                args.iter().map(|arg| if *arg == output { lines.as_str() } else { arg }).collect();
            assert_eq!(site.run(&args).code, 0, "{input}");
        } else {
            std::fs::copy(site.path(&output), site.path(&lines)).expect("copies");
        }
        let bytes = std::fs::read(site.path(&lines)).expect("reads");
        let found: BTreeSet<String> = utf_8(&bytes)
            .lines()
            .map(parsed)
            .filter(|row| row["phoneNumberStatus"] == "ok" || row.to_string().contains("Status\":\"ok\""))
            .map(|row| row["canonicalUrl"].as_str().expect("a URL").to_owned())
            .collect();
        let missing: Vec<&String> = held.difference(&found).collect();
        let has_work_only = flags.contains(":work") || input.starts_with("26-");
        assert!(missing.is_empty() || has_work_only, "{input}: {missing:?} of {held:?} in {found:?}");
        enriched += 1;
    }
    assert!(enriched >= 45, "{enriched}");
}

/// A text in UTF-8, or in little-endian UTF-16 without a mark.
fn utf_8(bytes: &[u8]) -> String {
    if bytes.get(1) != Some(&0) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (units, _) = bytes.as_chunks::<2>();
    String::from_utf16_lossy(&units.iter().map(|unit| u16::from_le_bytes(*unit)).collect::<Vec<_>>())
}
