//! People and opt-outs, through the admin API.

use serde_json::{Value, json};

use crate::admin_api::{AdminApi, BASE};
use crate::audit::Faulty;
use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, NOBODY};
use crate::http::Request;
use crate::service::{EMAIL, PHONE, Service, Site, assert_has, eventually};
use crate::transcript::{check_api, transcripts};
use crate::waiting::Elsewhere;

const SHARED: &str = "desk@example.com";

/// Twelve people who have the same address, each with a number of their own.
fn with_shared_address() -> (Service, String) {
    let site = Site::empty();
    let rows: String =
        (10..22).map(|n| format!("https://www.linkedin.com/in/quell-{n},+141555501{n},{SHARED}\n")).collect();
    site.import("crm", format!("profileUrl,phone,email\n{rows}"));
    let token = site.token(&[]);
    (site.serve(), token)
}

transcripts! {
    fn a_search_shows_what_is_held_who_received_it_and_who_shares_it_and_is_on_record() {
        check_api(&Service::with_people(), "privacy", "api_search")
    }
    fn more_than_ten_people_are_opted_out_only_if_their_number_is_confirmed() {
        check_api(&with_shared_address(), "privacy", "api_people")
    }
    fn an_erasure_does_what_was_seen_or_nothing() { check_api(&with_shared_address(), "privacy", "api_erase") }
    fn a_correction_is_given_out_and_a_removal_takes_it_back() { check_api(&Service::with_people(), "privacy", "api_correct") }
    fn a_correction_replaces_the_wrong_entry_and_nothing_else() { check_api(&Service::with_people(), "privacy", "api_replace") }
}

#[test]
fn of_an_address_that_twelve_people_have_a_search_shows_all_and_a_report_only_the_address() {
    let (service, token) = with_shared_address();
    let privacy = AdminApi::with_role(&service, "privacy");
    let first = "https://www.linkedin.com/in/quell-10";
    assert_eq!(service.look_up(PHONE, &token, first).status, 200);
    let found = privacy.post("/people/search", &json!({ "q": SHARED })).json();
    let count = |of: &Value| of.as_array().map(Vec::len);
    assert_eq!(
        (count(&found["profiles"]), count(&found["held"]), count(&found["shared"])),
        (Some(12), Some(24), Some(0))
    );
    assert_eq!(count(&found["recipients"]), Some(1), "who received a number of one of them");
    let report = privacy.post("/people/report", &json!({ "q": SHARED })).json();
    assert_eq!(report["isAboutTheValueOnly"], true);
    let values: Vec<&Value> =
        report["held"].as_array().expect("details").iter().map(|held| &held["value"]).collect();
    assert_eq!(values, [&json!(SHARED); 12]);
    assert_eq!(
        (&report["recipients"], &report["disclosures"]),
        (&json!([]), &json!([])),
        "the number is not what was asked about"
    );
    assert!(report.get("shared").is_none(), "a report for the person names nobody else");
}

#[test]
fn people_are_found_by_parts_of_their_names_and_it_is_on_record_with_whom_it_showed() {
    let site = Site::empty();
    let rows = |slugs: &[&str]| -> String {
        slugs.iter().map(|slug| format!("https://www.linkedin.com/in/{slug},{slug}@example.com\n")).collect()
    };
    let many: Vec<String> = (100..160).map(|number| format!("nuvel-{number}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let people = rows(&["ada-quell-1a2b3c", "quell-bo", "kaethe-mueller"]) + &rows(&many);
    let escaped = "https://www.linkedin.com/in/k%C3%A4the-m%C3%BCller,kaethe@example.com\n";
    site.import("crm", format!("profileUrl,email\n{people}{escaped}"));
    let service = site.serve();
    for role in ["admin", "privacy"] {
        let api = AdminApi::with_role(&service, role);
        let find = |name: &str| api.post("/people/find", &json!({ "name": name, "ticket": "DSR-9" })).json();
        assert_eq!(find("Quell ADA"), json!({ "profiles": [ADA_CANONICAL], "isComplete": true }));
        let mueller =
            ["https://linkedin.com/in/k%C3%A4the-m%C3%BCller", "https://linkedin.com/in/kaethe-mueller"];
        assert_eq!(find("Käthe Müller"), json!({ "profiles": mueller, "isComplete": true }));
        assert_eq!(find("nobody"), json!({ "profiles": [], "isComplete": true }));
        let some = find("nuvel");
        assert_eq!(
            (some["profiles"].as_array().map(Vec::len), &some["isComplete"]),
            (Some(50), &json!(false))
        );
        let short = api.post("/people/find", &json!({ "name": "q." }));
        let message =
            "This is too short. Type at least two letters or digits of the name in the profile URL.";
        short.refuses(400, "invalid_request", message);
        let about = service.site.events(&["--profile", ADA, "--actor", role]);
        let entries: Vec<_> =
            about.iter().map(|entry| (&entry["operation"], &entry["counts"], &entry["ticket"])).collect();
        assert_eq!(entries, [(&json!("subject search"), &json!({ "profiles": 1 }), &json!("DSR-9"))]);
        assert_eq!(service.site.events(&["--actor", role, "--operation", "subject search"]).len(), 4);
    }
}

#[test]
fn opt_outs_work_while_the_journal_cannot_be_written_and_nobody_is_shown() {
    let faulty = Faulty::start("os");
    let privacy = AdminApi::with_role(&faulty.service, "privacy");
    faulty.fail("read-only");
    let refused = json!({ "status": "not_on_record",
        "message": "This cannot be put on record now, because the journal cannot be written, so nothing personal is shown. Opt-outs \
                    work. Ask the operator to look at the log of the server." });
    for (path, body) in [
        ("/people/search", json!({ "q": ADA })),
        ("/people/find", json!({ "name": "ada quell" })),
        ("/people/report", json!({ "q": ADA_EMAIL })),
        ("/people/erase", json!({ "q": ADA, "dryRun": true })),
    ] {
        privacy.post(path, &body).shows(503, &refused);
    }
    let out = privacy.post("/people/opt-out", &json!({ "q": ADA_EMAIL, "person": true, "ticket": "T-5" }));
    let expected = json!({ "changed": 2, "already": 0, "onFile": null, "inForce": true, "isOnRecord": false, "holders": [] });
    out.shows(200, &expected);
    let listed = privacy.ended(&privacy.post_text("/opt-outs/list", &format!("{EVE}\n")));
    assert_has(
        &listed,
        json!({ "state": "done", "result": { "changed": 1, "inForce": true, "isOnRecord": false, "read": 1, "already": 0, "notOnFile": null, "rejected": [], "moreRejected": 0, "holders": [], "moreHolders": 0 } }),
    );
    faulty.fail("ok");
    eventually("people are shown again", || {
        privacy.post("/people/search", &json!({ "q": ADA })).status == 200
    });
    assert_eq!(faulty.service.look_up(PHONE, &faulty.token, ADA).status, 404);
    eventually("the lines follow by themselves", || {
        let entries = faulty.service.site.events(&["--actor", "privacy"]);
        entries.iter().filter(|entry| entry["operation"] == "suppress").count() == 3
    });
}

#[test]
fn an_erasure_that_has_to_wait_is_a_job_and_the_opt_out_is_in_force_at_once() {
    let (service, token) = Service::with_people();
    let privacy = AdminApi::with_role(&service, "privacy");
    let erasing = Elsewhere::on(&service.site).while_importing(vec![], || {
        let erasing = privacy.post("/people/erase", &json!({ "q": ADA, "confirmed": 1, "ticket": "T-6" }));
        assert_eq!(erasing.status, 202, "{}", erasing.shown());
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 404, "in force while it waits");
        let job = erasing.json();
        assert_has(&job, json!({ "kind": "erase", "state": "running", "result": null }));
        assert_eq!(job["input"], json!({ "values": false, "ticket": "T-6" }), "it names nobody");
        let path = format!("/jobs/{}", job["id"].as_str().expect("an id"));
        eventually("it says why it waits", || {
            privacy.get(&path).json()["progress"]["phase"]
                == "waiting for another command that writes to the store"
        });
        let other = AdminApi::with_role(&service, "admin");
        assert_eq!(other.get(&path).status, 404, "a job is shown to whoever started it");
        let stopped = privacy.send(Request::new("POST", &format!("{BASE}{path}/cancel")));
        let completed = "This cannot be stopped: once it has begun, it is completed.";
        stopped.refuses(409, "conflict", completed);
        erasing
    });
    let ended = privacy.ended(&erasing);
    assert_has(
        &ended,
        json!({ "state": "done", "result": { "profiles": [{ "profileUrl": ADA_CANONICAL, "details": 6 }], "sharedWith": [], "inForce": true, "isOnRecord": true } }),
    );
    assert!(!service.site.ok(&["export"]).contains("ada-quell"));
    let room = service.data().join("console").join("jobs");
    let kept = std::fs::read_dir(&room).map(Iterator::count).unwrap_or_default();
    assert_eq!(kept, 0, "nothing of it is on disk");
}

#[test]
fn the_report_is_also_a_page_that_runs_nothing() {
    let site = Site::empty();
    let hostile = "<script>alert(1)</script>";
    let row = format!("profileUrl,phone,source\n{ADA},{ADA_PHONE},{hostile}\n");
    site.ok_with_input(&["import", "-"], row);
    let token = site.ok(&["token", "create", "<img src=x>"]);
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let privacy = AdminApi::with_role(&service, "privacy");
    let asked =
        Request::lookup(&format!("{BASE}/people/report"), json!({ "q": ADA, "ticket": "T-8" }).to_string());
    let page = privacy.send(asked.clone().header("Accept", "text/html"));
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("content-disposition"), Some("attachment; filename=\"access-report-T-8.html\""));
    assert_eq!(
        page.header("content-security-policy"),
        Some("default-src 'none'; style-src 'unsafe-inline'; sandbox")
    );
    assert!(page.body.contains("What we hold about you") && page.body.contains(ADA_PHONE), "{}", page.body);
    assert!(!page.body.contains("<script") && !page.body.contains("<img"), "{}", page.body);
    for accept in ["application/json", "*/*", "application/json, text/html"] {
        let report = privacy.send(asked.clone().header("Accept", accept));
        assert_eq!(report.header("content-type"), Some("application/json"), "{accept}");
        let report = report.json();
        assert_has(&report, json!({ "/held/0/source": hostile, "/recipients/0/token": "<img src=x>" }));
        assert_eq!(
            (report["disclosures"].as_array().map(Vec::len), &report["isAboutTheValueOnly"]),
            (Some(1), &json!(false))
        );
        assert!(report["generatedAt"].is_string() && report["disclosures"][0]["requestId"].is_string());
    }
}

#[test]
fn a_list_is_opted_out_by_a_job_and_says_what_it_could_not_read() {
    let (service, token) = Service::with_people();
    let privacy = AdminApi::with_role(&service, "privacy");
    let list = format!("# opt-outs of May\n{ADA_EMAIL}\n\nsomebody\n{NOBODY}\n415 555 0123\n");
    let started = privacy.post_text("/opt-outs/list?ticket=T-7", &list);
    let ended = privacy.ended(&started);
    assert_has(
        &ended,
        json!({ "kind": "optOuts", "state": "done", "input": { "ticket": "T-7", "person": false } }),
    );
    assert_eq!(
        ended["result"],
        json!({ "changed": 2, "inForce": true, "isOnRecord": true, "read": 4, "already": 0, "notOnFile": 1,
            "rejected": [
                { "line": 4, "reason": "This profile URL cannot be used (not_a_url)." },
                { "line": 6, "reason": "This phone number cannot be read (phone_region_needed); write it with + and its country code." },
            ],
            "moreRejected": 0, "holders": [{ "profileUrl": ADA_CANONICAL, "stillDisclosed": 3 }], "moreHolders": 0 })
    );
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], "ada.old@example.com", "the other one");
    let whole =
        privacy.ended(&privacy.post_text("/opt-outs/list?person=true", &format!("{ADA_EMAIL}\n{NOBODY}\n")));
    assert_has(
        &whole,
        json!({ "state": "done", "/result/changed": 1, "/result/already": 2, "/result/holders": [], "/result/notOnFile": 1 }),
    );
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 404, "and so is everything else of theirs");
    for (body, message) in [
        ("", "The list is empty. Send one profile URL, e-mail address or phone number on each line."),
        (
            "# nobody\n",
            "The list is empty. Send one profile URL, e-mail address or phone number on each line.",
        ),
        ("a\0d\0a\0", "The list is not text; save it as UTF-8 text, CSV or .xlsx."),
    ] {
        let refused = privacy.post_text("/opt-outs/list", body);
        refused.refuses(400, "invalid_request", message);
    }
    let wrong = privacy.post("/opt-outs/list", &json!({ "q": ADA }));
    assert_eq!((wrong.status, wrong.code().as_str()), (415, "unsupported_media_type"));
    let none = privacy.ended(&privacy.post_text("/opt-outs/list", "somebody\n"));
    assert_has(&none, json!({ "state": "done", "/result/changed": 0 }));
}

#[test]
fn a_list_of_any_kind_of_file_is_looked_at_before_it_is_opted_out() {
    let (service, token) = Service::with_people();
    let privacy = AdminApi::with_role(&service, "privacy");
    let send = |path: &str, file: &[u8]| {
        let request = Request::new("POST", &format!("{BASE}{path}"));
        privacy.send(request.header("Content-Type", "application/octet-stream").body(file))
    };
    let check = |file: &[u8]| send("/opt-outs/list/check", file).json();
    let csv = format!("Nr;K\u{e4}ufer;E-Mail privat\r\n1;a;{ADA_EMAIL}\r\n2;b;\r\n");
    let windows_1252: Vec<u8> = csv.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
    assert_eq!(
        check(&windows_1252),
        json!({ "named": 1, "columns": ["E-Mail privat"], "otherSheets": [], "moreRejected": 0,
            "rejected": [{ "line": 3, "reason": "This row names nobody." }] })
    );
    let fixture = |name: &str| {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy/");
        std::fs::read(format!("{dir}{name}")).expect("reads")
    };
    assert_has(&check(&fixture("68-three-phones.xlsx")), json!({ "named": 6, "rejected": [] }));
    let none = send("/opt-outs/list/check", &fixture("77-hidden-first-sheet.xlsx")).json();
    assert_eq!((&none["named"], &none["otherSheets"]), (&json!(2), &json!(["Listen"])));
    let refused = send("/opt-outs/list/check", &fixture("60-macros.xlsx"));
    refused.refuses(400, "invalid_request", "The workbook has macros; save it as .xlsx without macros.");
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 200, "a check changes nothing");

    let done = privacy.ended(&send("/opt-outs/list", &windows_1252));
    assert_has(&done, json!({ "state": "done", "/result/changed": 1 }));
    let done = privacy.ended(&send("/opt-outs/list", &fixture("68-three-phones.xlsx")));
    assert_has(&done, json!({ "state": "done", "/result/changed": 6 }));
}
