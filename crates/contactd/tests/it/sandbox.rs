//! Tokens of the sandbox: made-up answers of every kind, in which nobody is.

use serde_json::{Value, json};

use crate::audit::Faulty;
use crate::batch::{batch, item, results};
use crate::fixture::{ADA, ADA_PHONE, MIRA, NOBODY};
use crate::http::{Reply, Request, profile_body};
use crate::service::{EMAIL, PHONE, Site, assert_has, eventually};

const HEADER: &str = "x-contactd-sandbox";

/// The end of a profile's URL, and what the sandbox answers: the status, its code and `Retry-After`.
const ANSWERS: [(&str, u16, &str, Option<u64>); 15] = [
    ("in/sandbox-hit", 200, "(none)", None),
    ("in/sandbox-hit-ada-1a2b3c", 200, "(none)", None),
    ("in/SANDBOX-HIT-ZO%C3%8B/?trk=x", 200, "(none)", None),
    ("profile/sandbox-hit_7", 200, "(none)", None),
    ("in/sandbox-miss-1", 404, "contact_not_found", None),
    ("in/sandbox-rate-1", 429, "rate_limited", Some(1)),
    ("profile/sandbox-rate", 429, "rate_limited", Some(1)),
    ("in/sandbox-quota-1", 429, "quota_exceeded", Some(0)),
    ("in/sandbox-busy-1", 503, "service_unavailable", Some(1)),
    ("in/sandbox-error-1", 500, "(none)", None),
    ("in/sandbox", 404, "contact_not_found", None),
    ("in/my-sandbox-hit", 404, "contact_not_found", None),
    ("profile/Sandbox-Hit", 404, "contact_not_found", None),
    ("in/nobody-dornwett-5e6f70", 404, "contact_not_found", None),
    ("company/sandbox-hit", 400, "invalid_profile_url", None),
];

fn url(end: &str) -> String {
    let host = if end.starts_with("profile/") { "www.xing.com" } else { "de.linkedin.com" };
    format!("https://{host}/{end}")
}

fn lookup(operation: &str, token: &str, url: &str) -> Request {
    Request::lookup(operation, profile_body(url)).token(token)
}

fn seconds(reply: &Reply) -> Option<u64> {
    reply.header("retry-after").map(|seconds| seconds.parse().expect("seconds"))
}

/// Whether somebody waits this long: zero in the table is the rest of the day.
fn is_wait(expected: Option<u64>, found: Option<u64>) -> bool {
    match (expected, found) {
        (Some(0), Some(rest)) => (1..=86_400).contains(&rest),
        (expected, found) => expected == found,
    }
}

/// What was found, without the name of the field.
fn value(body: &Value) -> String {
    let found = body["phoneNumber"].as_str().or(body["email"].as_str());
    found.unwrap_or_else(|| panic!("nothing was found: {body}")).to_owned()
}

#[test]
fn every_slug_has_its_answer_in_both_operations_alone_and_in_a_batch() {
    let site = Site::with_people();
    let token = site.token(&["--sandbox", "--rate", "1000/s"]);
    let service = site.serve();
    for operation in [PHONE, EMAIL] {
        for (end, status, code, wait) in ANSWERS {
            let reply = service.send(&lookup(operation, &token, &url(end)));
            let shown = format!("{operation} {end}: {reply:?}");
            assert_eq!((reply.status, &*reply.code()), (status, code), "{shown}");
            assert!(is_wait(wait, seconds(&reply)), "{shown}");
            assert_eq!(reply.header(HEADER), Some("true"), "{shown}");
            assert_eq!(reply.header("ratelimit-policy"), Some("\"rate\";q=1000;w=1"), "{shown}");
            assert!(reply.header("ratelimit").is_some_and(|left| left.starts_with("\"rate\";r=")), "{shown}");
            assert_eq!(reply.header("x-invalid-reason"), (status == 400).then_some("not_person"), "{shown}");
            let name = operation.trim_start_matches("/api/");
            let reply_of_batch = service.send(&batch(&token, &[item(name, &url(end))]));
            let result = &results(&reply_of_batch)[0];
            assert_eq!((&result["status"], &result["body"]), (&json!(status), &reply.json()), "{shown}");
            assert!(is_wait(wait, result["retryAfter"].as_u64()), "{shown}");
            assert!(is_wait(wait, seconds(&reply_of_batch)), "{shown}");
            assert_eq!(result["reason"].as_str(), reply.header("x-invalid-reason"), "{shown}");
            assert_eq!(reply_of_batch.header(HEADER), Some("true"), "{shown}");
        }
    }
    assert!(!service.log.text().contains("internal error"), "a made-up fault is none of the service");
}

#[test]
fn what_is_found_follows_from_the_slug_and_is_nobodys() {
    let site = Site::with_people();
    let (one, other) = (site.token(&["--sandbox"]), site.token(&["--sandbox"]));
    let service = site.serve();
    let find =
        |operation, token, end: &str| value(&service.send(&lookup(operation, token, &url(end))).json());
    let number = find(PHONE, &one, "in/sandbox-hit-7");
    assert!(number.len() == 12 && number.starts_with("+141555501"), "{number}");
    let address = find(EMAIL, &one, "in/sandbox-hit-7");
    assert!(address.starts_with("sandbox-") && address.ends_with("@example.com"), "{address}");
    for end in ["in/Sandbox-Hit-7/", "in/sandbox-hit-7?trk=x", "profile/sandbox-hit-7"] {
        let found = [find(PHONE, &other, end), find(EMAIL, &other, end)];
        assert_eq!(found, [number.clone(), address.clone()], "{end}");
    }
    let others: Vec<String> = (0..5).map(|n| find(EMAIL, &one, &format!("in/sandbox-hit-a{n}"))).collect();
    assert!(others.iter().all(|found| *found != address), "another slug is another address: {others:?}");
}

#[test]
fn the_store_is_not_read() {
    let site = Site::with_people();
    let (real, token) = (site.token(&[]), site.token(&["--sandbox"]));
    let service = site.serve_with(&[], "[serve]\ntable_bytes = 0\n");
    service.ruin_details();
    assert_eq!(service.look_up(PHONE, &real, ADA).status, 500);
    for (who, status) in [(ADA, 404), (NOBODY, 404), (&url("in/sandbox-hit"), 200)] {
        assert_eq!(service.look_up(PHONE, &token, who).status, status, "{who}");
    }
}

#[test]
fn who_is_on_file_is_unknown_to_the_sandbox_and_the_sandbox_to_real_tokens() {
    let site = Site::with_people();
    let (real, token) = (site.token(&[]), site.token(&["--sandbox"]));
    let service = site.serve();
    let [on_file, unknown] = [ADA, NOBODY].map(|who| service.look_up(PHONE, &token, who));
    assert_eq!((on_file.status, unknown.status), (404, 404));
    for (who, status) in [(ADA, 200), (&url("in/sandbox-hit"), 404), (&url("in/sandbox-error"), 404)] {
        let reply = service.look_up(PHONE, &real, who);
        assert_eq!((reply.status, reply.header(HEADER)), (status, None), "{who}");
    }
}

#[test]
fn scopes_rates_and_ends_are_those_of_any_token() {
    let site = Site::with_people();
    let (phone, token, slow) = (
        site.token(&["--sandbox", "--scope", "phone"]),
        site.token(&["--sandbox"]),
        site.token(&["--sandbox", "--rate", "1/h", "--burst", "3"]),
    );
    let service = site.serve_with(&[], "[limits]\nrate = \"500/s\"\nquota = \"1/day\"\n");
    let hit = url("in/sandbox-hit");
    let reply = service.look_up(EMAIL, &phone, &hit);
    assert_eq!((reply.status, reply.header(HEADER)), (401, Some("true")));
    for _ in 0..3 {
        let reply = service.look_up(PHONE, &token, &hit);
        let limits = reply.header("ratelimit-policy");
        assert_eq!(
            (reply.status, limits),
            (200, Some("\"rate\";q=10;w=1")),
            "[limits] is not for the sandbox"
        );
    }
    assert_eq!(service.look_up(PHONE, &slow, &hit).status, 200);
    let both =
        [item("fetchPhoneNumber", &hit), item("fetchPhoneNumber", &hit), item("fetchPersonalEmail", &hit)];
    let found = results(&service.send(&batch(&slow, &both)));
    let statuses: Vec<_> = found.iter().map(|result| result["status"].as_u64()).collect();
    assert_eq!(statuses, [Some(200), Some(200), Some(429)], "each lookup takes one of the rate");
    let reply = service.look_up(PHONE, &slow, &hit);
    assert_eq!((reply.status, reply.header(HEADER)), (429, Some("true")));
    assert!(seconds(&reply).is_some_and(|seconds| seconds > 1_000), "a rate that is used up: {reply:?}");
    service.site.ok(&["token", "revoke", "test"]);
    let reply = service.look_up(PHONE, &phone, &hit);
    assert_eq!((reply.status, reply.header(HEADER)), (401, None));
    assert!(reply.header("www-authenticate").is_some_and(|why| why.contains("revoked")), "{reply:?}");
}

#[test]
fn its_lines_are_in_the_journal_and_in_no_count_and_no_report() {
    let site = Site::with_people();
    let (real, token) = (site.token(&["--quota", "5/day"]), site.token(&["--sandbox", "--rate", "1000/s"]));
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &real, ADA).status, 200);
    // ADA and her number: as a profile that the sandbox does not know, and as a value that it may make up.
    for who in [ADA, &url("in/sandbox-hit"), &url("in/sandbox-miss"), &url("in/sandbox-busy")] {
        service.look_up(PHONE, &token, who);
    }
    let again = vec![item("fetchPersonalEmail", &url("in/sandbox-hit")); 2];
    service.send(&batch(&token, &again));
    // More than have lines of their own.
    for _ in 0..20 {
        assert_eq!(service.look_up(PHONE, &token, "https://example.com/in/x").status, 400);
    }
    let refused = |site: &Site| {
        let lines = site.events(&["--token", "test-2", "--outcome", "refused"]);
        lines.iter().map(|line| line["count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    eventually("what was refused often is recorded together", || refused(&service.site) == 21);
    let metrics = service.metrics();
    for line in [
        "contactd_requests_total{operation=\"phone\",outcome=\"ok\"} 1",
        "contactd_requests_total{operation=\"phone\",outcome=\"miss\"} 0",
        "contactd_requests_total{operation=\"phone\",outcome=\"sandbox\"} 24",
        "contactd_requests_total{operation=\"batch\",outcome=\"sandbox\"} 1",
        "contactd_lookups_total{operation=\"email\",outcome=\"sandbox\"} 2",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
    for outcome in ["service_unavailable", "invalid_profile_url"] {
        assert!(!metrics.contains(&format!("{{operation=\"phone\",outcome=\"{outcome}\"")), "{metrics}");
    }
    let of_tokens = metrics.lines().filter(|line| line.starts_with("contactd_token_requests_total{"));
    assert_eq!(of_tokens.filter(|line| !line.contains("name=\"test\"")).count(), 0, "{metrics}");
    // Also what the next server counts again from the journal.
    let service = service.kill().serve();
    let site = &service.site;
    assert_eq!(service.look_up(PHONE, &real, NOBODY).status, 404);
    let left = service.look_up(PHONE, &real, NOBODY);
    assert!(left.header("ratelimit").is_some_and(|left| left.contains("\"quota\";r=4;")), "{left:?}");

    let shown = site.events(&["--token", "test-2"]);
    assert!(shown.iter().all(|line| line["via"] == "sandbox"), "{shown:?}");
    let outcomes = |name: &str| shown.iter().filter(|line| line["outcome"] == name).count();
    assert_eq!((outcomes("hit"), outcomes("miss")), (3, 2));
    assert_eq!(refused(site), 21, "{shown:?}");
    assert!(site.events(&["--token", "test"]).iter().all(|line| line["via"].is_null()));
    let usage = site.list(&["usage"]);
    let tokens: Vec<&Value> = usage.iter().map(|usage| &usage["name"]).collect();
    assert_eq!(tokens, ["test"], "{usage:?}");
    let recipients = site.list(&["audit", "show", "--by", "recipient"]);
    assert_eq!(
        recipients.iter().map(|sum| &sum["tokenName"]).collect::<Vec<_>>(),
        ["test"],
        "{recipients:?}"
    );
    let report = site.json(&["subject", ADA]);
    assert_has(&report, json!({ "requestsWithoutResult": 0 }));
    assert_eq!(report["disclosures"].as_array().map(Vec::len), Some(1), "{report}");
    let report = site.json(&["subject", &url("in/sandbox-hit")]);
    assert_eq!(report["disclosures"], json!([]), "{report}");
    let listed = site.list(&["token", "list"]);
    assert_has(&listed[0], json!({ "name": "test", "sandbox": false, "hits": 1 }));
    assert_has(
        &listed[1],
        json!({ "name": "test-2", "sandbox": true, "hits": 0, "rate": "1000/s", "quota": null }),
    );
    assert!(listed[1]["lastUsedAt"].is_string(), "{listed:?}");
    site.ok(&["audit", "verify"]);
}

#[test]
fn a_family_stays_in_the_sandbox_or_outside_and_has_no_quota_there() {
    let site = Site::with_people();
    let refused = site.run(&["token", "create", "ats", "--sandbox", "--quota", "5/day"]);
    assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
    let token = site.ok(&["token", "create", "ats", "--sandbox"]);
    assert!(token.starts_with("ctd_test_") && token.len() == 47, "{token}");
    site.run(&["token", "update", "ats", "--quota", "5/day"])
        .mentions(2, "a token of the sandbox has no quota, because nothing that it receives counts");
    site.ok(&["token", "update", "ats", "--quota", "none", "--rate", "3/s"]);
    site.ok(&["token", "update", "ats", "--rate", "none"]);
    assert_has(&site.list(&["token", "list"])[0], json!({ "sandbox": true, "rate": "10/s", "quota": null }));
    let next = site.ok(&["token", "rotate", "ats", "--overlap", "1h"]);
    assert!(next.starts_with("ctd_test_") && next.len() == 47, "{next}");
    assert!(site.list(&["token", "list"]).iter().all(|token| token["sandbox"] == true));
    site.run(&["token", "create", "ats"]).mentions(1, "has this name");
    let real = site.ok(&["token", "create", "crm"]);
    site.run(&["token", "create", "crm", "--sandbox"]).mentions(1, "has this name");
    let rotated = site.ok(&["token", "rotate", "crm"]);
    assert!([&real, &rotated].iter().all(|token| token.len() == 42 && !token.contains("test_")));
    site.run(&["token", "list"]).mentions(0, "phone+email (sandbox)");
    // The same characters with the other beginning are no token.
    let service = site.serve();
    for forged in [next.replacen("ctd_test_", "ctd_", 1), real.replacen("ctd_", "ctd_test_", 1)] {
        assert_eq!(service.look_up(PHONE, &forged, ADA).status, 401);
    }
    for token in [&token, &next] {
        assert_eq!(service.look_up(PHONE, token, &url("in/sandbox-hit")).status, 200);
    }
    assert!(service.look_up(PHONE, &rotated, ADA).body.contains(ADA_PHONE));
}

#[test]
fn trouble_of_the_service_is_told_from_trouble_that_is_made_up() {
    let site = Site::with_people();
    let token = site.token(&["--sandbox"]);
    let faulty = Faulty::on(site, &token, "ok", "");
    let service = &faulty.service;
    let unavailable = || {
        let metrics = service.metrics();
        let line = "contactd_lookups_total{operation=\"phone\",outcome=\"service_unavailable\"} ";
        let count = metrics.lines().find_map(|metric| metric.strip_prefix(line));
        count.map_or(0, |count| count.parse::<u64>().expect("a number"))
    };
    let hit = [item("fetchPhoneNumber", &url("in/sandbox-hit"))];
    assert_eq!(service.look_up(PHONE, &token, &url("in/sandbox-busy")).status, 503);
    assert_eq!(unavailable(), 0);
    faulty.fail("full");
    let reply = service.look_up(PHONE, &token, &url("in/sandbox-hit"));
    assert_eq!((reply.status, reply.header(HEADER)), (503, Some("true")), "it has no line");
    assert_eq!(results(&service.send(&batch(&token, &hit)))[0]["status"], 503);
    assert_eq!(unavailable(), 2);
    faulty.fail("ok");
}

#[test]
fn lookup_and_enrich_work_in_the_sandbox() {
    let site = Site::with_people();
    let token = site.token(&["--sandbox", "--rate", "1000/s"]);
    let service = site.serve();
    let (address, site) = (format!("http://{}", service.public), &service.site);
    let env = [("CONTACTD_TOKEN", token.as_str())];
    let hit = url("in/sandbox-hit");
    let found = site.run_with(&["lookup", "phone", "--url", &address, &hit, "--json"], "", &env);
    assert_eq!(found.code, 0, "{found:?}");
    let warning = "the token is of the sandbox: all answers are made up, also that nothing is on file\n";
    assert!(found.stdout.contains("+141555501") && found.stderr == warning, "{found:?}");
    let file = site.file("people.csv", format!("profileUrl\n{hit}\n{MIRA}\n"));
    let enriched = site.place("enriched.csv");
    let ran = site.run_with(&["enrich", "--url", &address, &file, &enriched], "", &env);
    assert!(ran.code == 0 && ran.stderr.starts_with(warning), "{ran:?}");
    let enriched = std::fs::read_to_string(&enriched).expect("reads");
    let mut rows = enriched.lines().skip(1);
    assert!(rows.next().is_some_and(|row| row.contains("+141555501") && row.contains("@example.com")));
    assert!(rows.next().is_some_and(|row| row.contains("not_found")), "{enriched}");
}
