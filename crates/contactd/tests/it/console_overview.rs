//! The overview, usage, retention and health in the admin API.

use serde_json::{Value, json};

use crate::admin_api::AdminApi;
use crate::cluster;
use crate::fixture::{ADA, NOBODY};
use crate::service::{PHONE, Site, assert_has, eventually};

/// A source that is code in a page.
const HOSTILE: &str = "<script>alert(1)</script>";

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

#[test]
fn the_overview_says_how_the_service_does_to_every_role() {
    let site = Site::with_people();
    site.import(HOSTILE, "profileUrl,phone\nhttps://www.linkedin.com/in/extra-quell,+14155550133\n");
    let token = site.ok(&["token", "create", "ends soon", "--expires", "3d"]);
    let service = site.serve();
    let api = AdminApi::with_role(&service, "privacy");
    let before = api.get("/overview").json();
    assert_has(&before, json!({ "latency": null, "lastBackup": null, "nodes": [] }));
    service.look_up(PHONE, &token, ADA);
    service.look_up(PHONE, &token, NOBODY);
    service.look_up(PHONE, &token, "nonsense");
    service.site.ok(&["suppress", NOBODY]);
    let mut overview = Value::Null;
    eventually("the lookups are indexed", || {
        overview = api.get("/overview").json();
        overview["lookups"][29]["refused"] == 1
    });
    let days = overview["lookups"].as_array().expect("days");
    assert_eq!(days.len(), 30);
    let counts = |day: &Value| [day["hits"].clone(), day["misses"].clone(), day["refused"].clone()];
    assert_eq!(counts(&days[29]), [json!(1), json!(1), json!(1)]);
    assert!(days[..29].iter().all(|day| counts(day) == [json!(0), json!(0), json!(0)]), "{overview}");
    assert!(days.windows(2).all(|two| text(&two[0]["day"]) < text(&two[1]["day"])), "{overview}");
    let latency = &overview["latency"];
    assert!(
        latency["p50Micros"].as_u64() > Some(0)
            && latency["p99Micros"].as_u64() >= latency["p50Micros"].as_u64()
    );
    assert_eq!(overview["held"]["details"][0], json!({ "source": HOSTILE, "kind": "phone", "count": 1 }));
    assert_eq!(overview["suppressions"], 1);
    assert_eq!(overview["tokensEnding"][0]["name"], "ends soon");
    assert!(overview["tokensEnding"][0]["endsAt"].is_string(), "{overview}");
    let import = &overview["lastImport"];
    assert_has(import, json!({ "id": 2, "source": HOSTILE, "rows": 1 }));
    let findings = overview["findings"].as_array().expect("findings");
    let tokens = findings.iter().find(|finding| finding["check"] == "tokens").expect("a finding");
    assert_has(tokens, json!({ "verdict": "warn", "advice": "contactd token rotate ID" }));
    for role in ["admin", "operator", "auditor"] {
        assert_eq!(AdminApi::with_role(&service, role).get("/overview").status, 200, "{role}");
    }
}

#[test]
fn usage_is_counted_by_day_and_by_token_and_its_file_is_what_the_command_writes() {
    let site = Site::with_people();
    let (token, other) = (site.token(&[]), site.ok(&["token", "create", "=1+1"]));
    let service = site.serve();
    let operator = AdminApi::with_role(&service, "operator");
    service.look_up(PHONE, &token, ADA);
    service.look_up(PHONE, &token, NOBODY);
    service.look_up(PHONE, &other, NOBODY);
    let days = operator.get("/usage?since=7d").json();
    let days = days["days"].as_array().expect("days");
    assert_eq!(days.len(), 7);
    assert_eq!((&days[6]["hits"], &days[6]["misses"], &days[0]["misses"]), (&json!(1), &json!(2), &json!(0)));
    assert_eq!(operator.get("/usage").json()["days"].as_array().map(Vec::len), Some(30));
    let february = operator.get("/usage?since=2024-02-01&until=2024-03-01&by=day").json();
    let february = february["days"].as_array().expect("days");
    assert_eq!(
        (february.len(), &february[0], &february[28]["day"]),
        (29, &json!({ "day": "2024-02-01", "hits": 0, "misses": 0, "refused": 0 }), &json!("2024-02-29"))
    );
    let tokens = operator.get("/usage?by=token&since=1d").json();
    let counts: Vec<_> = tokens["tokens"]
        .as_array()
        .expect("tokens")
        .iter()
        .map(|row| {
            (text(&row["tokenName"]), row["hits"].as_u64(), row["misses"].as_u64(), row["refused"].as_u64())
        })
        .collect();
    assert_eq!(counts, [("test", Some(1), Some(1), Some(0)), ("=1+1", Some(0), Some(1), Some(0))]);
    let file = operator.get("/usage?format=csv");
    assert_eq!(file.header("content-disposition"), Some("attachment; filename=\"usage.csv\""));
    assert_eq!(file.body, service.site.run(&["usage", "--csv"]).stdout);
    assert!(file.body.contains(",'=1+1,"), "{}", file.body);
}

#[test]
fn retention_follows_the_settings_and_a_sweep_is_a_job() {
    let site = Site::empty();
    site.ok_with_input(
        &["import", "-", "--source", "hr", "--max-age", "365d"],
        "profileUrl,email,observedAt\nhttps://www.linkedin.com/in/new-quell,new@example.com,2026-11-01\n",
    );
    site.import_people();
    let service = site.serve_with(&[], "[audit]\nkeep = \"90d\"\n[retention]\nsweep_every = \"12h\"\n");
    let operator = AdminApi::with_role(&service, "operator");
    let retention = operator.get("/retention").json();
    assert_has(&retention, json!({ "undo": "7d", "auditKeep": "90d", "sweepEvery": "12h" }));
    assert_eq!(retention["sources"], service.site.json(&["retention"]));
    let crm = &retention["sources"][0];
    assert_has(crm, json!({ "source": "crm", "due": 1, "maxAge": null }));
    let tried = operator.job("/retention/sweep", &json!({ "dryRun": true }));
    assert_has(&tried, json!({ "input": { "dryRun": true }, "result": { "expired": 1, "tooOld": 0 } }));
    let done = operator.job("/retention/sweep", &json!({ "dryRun": false }));
    assert_has(&done, json!({ "kind": "sweep", "state": "done" }));
    assert_eq!(done["result"], json!({ "expired": 1, "tooOld": 0 }));
    assert_eq!(operator.get("/retention").json()["sources"][0]["due"], 0);
    let shown = service.site.json(&["audit", "show", "--operation", "sweep"]);
    assert_has(&shown[0], json!({ "via": "admin API" }));
    assert!(shown[0]["actor"].as_str().is_some_and(|actor| actor.starts_with("operator (adm_")), "{shown}");
    // What a reload changes.
    service.site.file("serve.toml", "[retention]\nsweep_every = \"5m\"\n");
    service.signal(rustix::process::Signal::HUP);
    eventually("the new settings are in force", || operator.get("/retention").json()["sweepEvery"] == "5m");
    assert_ne!(operator.get("/retention").json()["auditKeep"], "90d");
    let wrong = operator.post("/retention/sweep", &json!({ "dry_run": true }));
    assert_eq!((wrong.status, wrong.code().as_str()), (400, "invalid_request"));
}

#[test]
fn without_a_journal_the_console_says_that_nothing_is_on_record() {
    let service = Site::with_people().serve_with(&["--audit-sync", "off"], "");
    let operator = AdminApi::with_role(&service, "operator");
    let overview = operator.get("/overview").json();
    assert_eq!(overview["journal"]["state"], "off", "{overview}");
    for shown in [overview, operator.get("/health").json()] {
        let findings = shown["findings"].as_array().expect("findings");
        let is_it = |finding: &&Value| finding["check"] == "journal" && finding["verdict"] == "warn";
        let off = findings.iter().find(is_it).expect("a finding");
        assert!(text(&off["message"]).starts_with("the journal is off: nothing"), "{off}");
    }
}

#[test]
fn the_overview_is_shown_also_if_the_journal_cannot_be_read() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let (audit, away) = (service.data().join("audit"), service.data().join("audit-away"));
    std::fs::rename(&audit, &away).expect("renames");
    std::fs::write(&audit, "not a directory").expect("writes");
    let (overview, usage) = (operator.get("/overview"), operator.get("/usage"));
    std::fs::remove_file(&audit).expect("removes");
    std::fs::rename(&away, &audit).expect("renames");
    assert_eq!(overview.status, 200, "{}", overview.shown());
    let overview = overview.json();
    let findings = overview["findings"].as_array().expect("findings");
    let is_it = |finding: &Value| {
        finding["verdict"] == "fail" && text(&finding["message"]).starts_with("the journal cannot be read: ")
    };
    assert!(findings.iter().any(is_it), "{overview}");
    assert_eq!(usage.status, 503, "{}", usage.shown());
}

#[test]
fn the_system_page_has_what_the_doctor_finds() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    assert_eq!(operator.get("/nodes").json(), json!({ "nodes": [] }));
    let health = operator.get("/health").json();
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    let checks: Vec<&str> =
        health["findings"].as_array().expect("findings").iter().map(|found| text(&found["check"])).collect();
    assert_eq!(checks, ["clock", "permissions", "disk", "store", "tokens", "journal"]);
    let doctor = service.site.json(&["doctor"]);
    for finding in health["findings"]
        .as_array()
        .expect("findings")
        .iter()
        .filter(|found| found["check"] != "clock" && found["check"] != "journal")
    {
        assert!(
            doctor.as_array().is_some_and(|doctor| doctor.contains(finding)),
            "{finding} is not in {doctor}"
        );
    }
    assert_eq!(health["findings"][4]["verdict"], "warn", "{health}");
}

#[test]
fn in_a_cluster_one_node_shows_all_nodes_and_verifies_what_they_shipped() {
    let (nodes, token) = cluster::nodes(&["a", "b"], "");
    let admin = AdminApi::with_role(&nodes[0], "admin");
    assert_eq!(nodes[1].look_up(PHONE, &token, ADA).status, 200);
    let listed = admin.get("/nodes").json();
    let listed = listed["nodes"].as_array().expect("nodes");
    let states: Vec<_> = listed.iter().map(|node| (text(&node["name"]), text(&node["state"]))).collect();
    assert_eq!(states, [("a", "serving"), ("b", "serving")]);
    assert!(
        listed.iter().all(|node| text(&node["lease"]).ends_with(" s") && node["behind"].is_u64()),
        "{listed:?}"
    );
    let mut overview = Value::Null;
    eventually("the lookup on the other node is counted", || {
        overview = admin.get("/overview").json();
        overview["lookups"][29]["hits"] == 1
    });
    assert_eq!(overview["nodes"].as_array().map(Vec::len), Some(2), "{overview}");
    let job = admin.job("/audit/verify", &json!({}));
    assert_has(&job, json!({ "state": "done", "/result/state": "whole" }));
    let verified = job["result"]["nodes"].as_array().expect("nodes");
    let names: Vec<&str> = verified.iter().map(|node| text(&node["name"])).collect();
    assert!(names.contains(&"this node") && names.contains(&"b, as shipped"), "{names:?}");
    // The other node's console says it too.
    let other = AdminApi::with_role(&nodes[1], "auditor");
    assert_eq!(other.get("/overview").json()["journal"]["state"], "whole");
    let roots = other.get("/audit/root").json();
    let of: Vec<&str> =
        roots["roots"].as_array().expect("roots").iter().map(|root| text(&root["node"])).collect();
    assert!(of.contains(&"a") && of.contains(&"b"), "{roots}");
}
