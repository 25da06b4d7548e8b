//! The journal in the admin API: its lines, verification and proofs.

use serde_json::{Value, json};

use crate::admin_api::AdminApi;
use crate::audit::until_signed;
use crate::fixture::{ADA, NOBODY};
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Service, Site, assert_has, eventually};
use crate::transcript::{check_api, transcripts};

/// A name that is code in a page and a formula in a spreadsheet.
const HOSTILE: &str = "=HYPERLINK(\"x\",\"<img src=x onerror=alert(1)>\")";

/// Events as `audit show --json` has them.
fn without_kind(events: &[Value]) -> Vec<Value> {
    let plain = |event: &Value| {
        let mut event = event.clone();
        let kind = event.as_object_mut().and_then(|event| event.remove("kind"));
        let is_action = event["actor"].is_string();
        assert_eq!(kind, Some(json!(if is_action { "admin" } else { "request" })), "{event}");
        event
    };
    events.iter().map(plain).collect()
}

fn look_up_often(service: &Service, token: &str, count: usize) {
    let mut connection = service.connect();
    for number in 0..count {
        let url = if number % 3 == 0 { NOBODY } else { ADA };
        connection.ask(&Request::lookup(PHONE, profile_body(url)).token(token));
    }
}

#[test]
fn pages_have_every_line_once_while_more_are_written() {
    let (service, token) = Service::with_people();
    let auditor = AdminApi::with_role(&service, "auditor");
    look_up_often(&service, &token, 40);
    let expected = service.site.json(&["audit", "show"]);
    let (mut shown, mut path) = (Vec::new(), "/audit?limit=7".to_owned());
    loop {
        let page = auditor.get(&path);
        assert_eq!(page.status, 200, "{}", page.shown());
        let page = page.json();
        shown.extend(page["events"].as_array().expect("events").clone());
        look_up_often(&service, &token, 3);
        let Some(next) = page["next"].as_str() else { break };
        assert_eq!(page["events"].as_array().map(Vec::len), Some(7));
        path = format!("/audit?limit=7&before={next}");
    }
    assert_eq!(Value::from(without_kind(&shown)), expected);
}

transcripts! {
    fn filters_choose_lines_by_what_they_say() { check_api(&Service::with_people(), "privacy", "api_filters") }
    fn nonsense_in_a_query_is_refused_with_what_to_do_and_without_requests_answers_are_empty() {
        check_api(&(Site::empty().serve(), String::new()), "admin", "api_audit")
    }
}

#[test]
fn the_csv_file_is_what_the_command_writes_also_if_it_is_long() {
    let site = Site::with_people();
    let token = site.ok(&["token", "create", HOSTILE]);
    let service = site.serve();
    let auditor = AdminApi::with_role(&service, "auditor");
    // More than are read at once.
    look_up_often(&service, &token, 2_100);
    let expected = service.site.run(&["audit", "show", "--csv"]).stdout;
    let file = auditor.download("/audit?format=csv");
    assert_eq!(file.status, 200, "{}", file.body);
    assert_eq!(
        (file.header("content-type"), file.header("content-disposition")),
        (Some("text/csv; charset=utf-8"), Some("attachment; filename=\"audit.csv\""))
    );
    assert!(
        file.body == expected,
        "the file has {} lines, the command wrote {}",
        file.body.lines().count(),
        expected.lines().count()
    );
    assert!(
        file.body.contains("\"'=HYPERLINK(\"\"x\"\",\"\"<img src=x onerror=alert(1)>\"\")\""),
        "a formula is marked"
    );
    let hits = auditor.download("/audit?format=csv&outcome=hit&since=1h");
    assert_eq!(hits.body.lines().count(), 1 + 1_400);
}

#[test]
fn a_summary_has_a_row_for_each_recipient() {
    let site = Site::with_people();
    let (token, other) = (site.token(&[]), site.ok(&["token", "create", HOSTILE]));
    let service = site.serve();
    let privacy = AdminApi::with_role(&service, "privacy");
    service.look_up(PHONE, &token, ADA);
    service.look_up(PHONE, &other, NOBODY);
    let summary = privacy.get("/audit/summary?since=30d").json();
    let expected = service.site.json(&["audit", "show", "--by", "recipient"]);
    assert_eq!(summary["recipients"], expected);
    assert_eq!(summary["recipients"][0]["tokenName"], HOSTILE, "JSON has names as they are");
    assert_eq!(privacy.get("/audit/summary?until=2020-01-01").json(), json!({ "recipients": [] }));
}

#[test]
fn a_verification_is_a_job_and_what_it_found_is_remembered() {
    let (service, token) = Service::with_people();
    look_up_often(&service, &token, 5);
    let auditor = AdminApi::with_role(&service, "auditor");
    let journal = || auditor.get("/overview").json()["journal"].clone();
    let before = journal();
    assert_has(&before, json!({ "state": "unchecked", "comparedAt": null }));
    let job = auditor.job("/audit/verify", &json!({ "roots": [] }));
    let result = &job["result"];
    assert_eq!(
        (&job["kind"], &job["state"], &result["state"]),
        (&json!("verify"), &json!("done"), &json!("whole")),
        "{job}"
    );
    assert_has(result, json!({ "faults": [], "/nodes/0/isRootGiven": false }));
    assert_eq!(job["progress"]["unit"], "lines", "{job}");
    let after = journal();
    assert_has(&after, json!({ "state": "whole", "message": null }));
    assert!(after["comparedAt"].is_string() && after["lines"].as_u64() >= Some(5), "{after}");

    // With what was noted down.
    let mut heads = Value::Null;
    eventually("something is signed", || {
        heads = auditor.get("/audit/head").json();
        heads["heads"][0]["line"].as_u64() >= Some(5)
    });
    let roots = auditor.get("/audit/root").json();
    let key = roots["roots"][0]["key"].as_str().expect("a key");
    assert_eq!((key, &roots["roots"][0]["isCurrent"]), (&*service.site.ok(&["audit", "root"]), &json!(true)));
    let head = heads["heads"][0]["head"].as_str().expect("a head");
    let job = auditor.job("/audit/verify", &json!({ "roots": [key], "head": format!(" {head} ") }));
    let node = &job["result"]["nodes"][0];
    assert_has(node, json!({ "state": "whole", "root": key, "isRootGiven": true }));
    assert!(node["signedTo"]["line"].is_u64() && node["signedTo"]["time"].is_string(), "{job}");

    // With a root that is not the journal's.
    let job = auditor.job("/audit/verify", &json!({ "roots": ["ab".repeat(32)] }));
    assert_has(&job, json!({ "state": "done", "/result/state": "broken" }));
    // With a head that was mistyped.
    let line = head.split(':').next().expect("a number");
    let mistyped = format!("{line}:{}", "0".repeat(32));
    let job = auditor.job("/audit/verify", &json!({ "head": mistyped }));
    assert_has(&job, json!({ "state": "done", "/result/state": "broken" }));
    assert_eq!(journal()["state"], "whole", "what was given is the business of who gave it");
    // The command says it too.
    service.site.ok(&["audit", "verify"]);
    assert_eq!(journal()["state"], "whole");
}

#[test]
fn a_journal_that_somebody_changed_is_a_result_that_everybody_sees() {
    let (service, token) = Service::with_people();
    look_up_often(&service, &token, 12);
    let auditor = AdminApi::with_role(&service, "auditor");
    until_signed(&service.site);
    let file = service.data().join("audit/000000000001.jsonl");
    let good = std::fs::read_to_string(&file).expect("reads");
    let edited = good.replacen("\"hit\"", "\"miss\"", 1);
    let line =
        1 + good.lines().zip(edited.lines()).position(|(good, edited)| good != edited).expect("edited");
    std::fs::write(&file, edited).expect("writes");
    let job = auditor.job("/audit/verify", &json!({}));
    let result = &job["result"];
    assert_eq!((&job["state"], &result["state"]), (&json!("done"), &json!("broken")), "{job}");
    assert_eq!(result["nodes"][0]["state"], "broken", "{job}");
    assert_has(result, json!({ "/faults/0/file": "000000000001.jsonl", "/faults/0/line": line }));
    let overview = auditor.get("/overview").json();
    assert_eq!(overview["journal"]["state"], "broken", "{overview}");
    let message = overview["journal"]["message"].as_str().expect("a message");
    assert!(message.starts_with(&format!("000000000001.jsonl, line {line}: ")), "{message}");
    let finding = overview["findings"]
        .as_array()
        .and_then(|all| all.iter().find(|finding| finding["check"] == "journal"));
    assert_eq!(finding.map(|finding| &finding["verdict"]), Some(&json!("fail")), "{overview}");
}

#[test]
fn a_proof_made_by_the_api_is_accepted_by_the_command() {
    let (service, token) = Service::with_people();
    look_up_often(&service, &token, 20);
    let auditor = AdminApi::with_role(&service, "auditor");
    until_signed(&service.site);
    let job = auditor.job("/audit/proof", &json!({ "since": "2026-01-01", "until": "2099-01-01" }));
    assert_has(&job, json!({ "kind": "proof", "state": "done", "hasFile": true }));
    let path = format!("/jobs/{}/file", job["id"].as_str().expect("an id"));
    let file = auditor.download(&path);
    assert_eq!(
        file.header("content-disposition"),
        Some("attachment; filename=\"proof-of-the-journal.jsonl\"")
    );
    assert_eq!(job["result"]["bytes"], file.body.len());
    let (site, root) = (&service.site, service.site.ok(&["audit", "root"]));
    let proof = site.file("proof.jsonl", &file.body);
    site.ok(&["audit", "verify", "--proof", &proof, "--root", &root]);
    let forged = site.file("forged.jsonl", file.body.replacen("\"hit\"", "\"miss\"", 1));
    assert_eq!(site.run(&["audit", "verify", "--proof", &forged, "--root", &root]).code, 1);
    let other = AdminApi::with_role(&service, "admin");
    assert_eq!(other.get(&path).status, 404, "jobs of others are not there");
}
