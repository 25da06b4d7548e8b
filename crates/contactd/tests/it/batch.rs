//! `POST /api/batch`: each lookup is answered, counted and recorded as if it had come alone.

mod equal;
mod hostile;
mod kills;

use serde_json::{Value, json};

use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, MIRA, NOBODY, many};
use crate::following::Follower;
use crate::http::{Reply, Request};
use crate::service::{PHONE, Service, Site, assert_has};

pub(crate) const BATCH: &str = "/api/batch";

/// A lookup of a batch.
pub(crate) fn item(operation: &str, url: &str) -> Value {
    json!({ "operation": operation, "profileUrl": url })
}

fn phone(url: &str) -> Value {
    item("fetchPhoneNumber", url)
}

fn email(url: &str) -> Value {
    item("fetchPersonalEmail", url)
}

pub(crate) fn batch(token: &str, lookups: &[Value]) -> Request {
    Request::lookup(BATCH, json!({ "lookups": lookups }).to_string()).token(token)
}

impl Service {
    /// The results of a batch.
    fn results(&self, token: &str, lookups: &[Value]) -> Vec<Value> {
        results(&self.send(&batch(token, lookups)))
    }
}

#[track_caller]
pub(crate) fn results(reply: &Reply) -> Vec<Value> {
    assert_eq!(reply.status, 200, "{}", reply.body);
    reply.json()["results"].as_array().expect("results").clone()
}

fn statuses(results: &[Value]) -> Vec<u64> {
    results.iter().map(|result| result["status"].as_u64().expect("a status")).collect()
}

#[test]
fn many_lookups_are_answered_in_order_with_their_references() {
    let (service, token) = Service::with_people();
    let with = |lookup: Value, reference: &str| {
        let mut lookup = lookup;
        lookup["reference"] = reference.into();
        lookup
    };
    let reply = service.send(&batch(
        &token,
        &[
            with(phone(ADA), "row \"7\""),
            email(ADA),
            with(phone(NOBODY), ""),
            email("https://example.com/in/x"),
        ],
    ));
    let not_found = "No phone number found for https://linkedin.com/in/nobody-dornwett-5e6f70.";
    let refused = "Invalid profileUrl: https://example.com/in/x on /api/fetchPersonalEmail api call.";
    let expected = format!(
        "{{\"results\":[\
         {{\"status\":200,\"reference\":\"row \\\"7\\\"\",\"body\":{{\"phoneNumber\":\"{ADA_PHONE}\",\"profileUrl\":\"{ADA_CANONICAL}\"}}}},\
         {{\"status\":200,\"body\":{{\"email\":\"{ADA_EMAIL}\",\"profileUrl\":\"{ADA_CANONICAL}\"}}}},\
         {{\"status\":404,\"reference\":\"\",\"body\":{{\"status\":\"contact_not_found\",\"message\":\"{not_found}\"}}}},\
         {{\"status\":400,\"reason\":\"bad_host\",\"body\":{{\"status\":\"invalid_profile_url\",\"message\":\"{refused}\"}}}}]}}"
    );
    let head = format!(
        "200\ncache-control: no-store\ncontent-length: {}\ncontent-type: application/json",
        expected.len()
    );
    assert_eq!(reply.shown(), format!("{head}\n\n{expected}"));
    let metrics = service.metrics();
    for line in [
        "contactd_requests_total{operation=\"batch\",outcome=\"ok\"} 1",
        "contactd_requests_total{operation=\"phone\",outcome=\"ok\"} 0",
        "contactd_lookups_total{operation=\"phone\",outcome=\"ok\"} 1",
        "contactd_lookups_total{operation=\"phone\",outcome=\"miss\"} 1",
        "contactd_lookups_total{operation=\"email\",outcome=\"ok\"} 1",
        "contactd_lookups_total{operation=\"email\",outcome=\"invalid_profile_url\"} 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
}

#[test]
fn what_a_batch_asks_for_again_is_answered_and_recorded_and_does_not_count() {
    let site = Site::with_people();
    let token = site.token(&["--quota", "1/day", "--rate", "10/h"]);
    let service = site.serve();
    let again = "http://de.linkedin.com/in/ADA-quell-1a2b3c/?x=1";
    let results = service.results(
        &token,
        &[phone(NOBODY), phone(ADA), phone(again), phone(NOBODY), email(ADA), email(ADA), phone(again)],
    );
    assert_eq!(statuses(&results), [404, 200, 200, 404, 429, 429, 200]);
    assert_eq!((&results[1]["body"], &results[0]["body"]), (&results[2]["body"], &results[3]["body"]));
    let left = service.look_up(PHONE, &token, NOBODY);
    let left = left.header("ratelimit").expect("limits");
    assert!(left.starts_with("\"rate\";r=2;") && left.contains("\"quota\";r=0;"), "{left}");
    let site = service.kill().serve();
    // Counted again from the journal.
    assert_eq!(site.look_up(PHONE, &token, NOBODY).status, 429);
    let usage = &site.site.list(&["usage"])[0];
    assert_has(usage, json!({ "hits": 1, "misses": 1 }));
    let events = site.site.events(&[]);
    let mut lines: Vec<_> = events.iter().filter(|event| event["placeInBatch"].is_number()).collect();
    lines.sort_by_key(|line| line["placeInBatch"].as_u64());
    let shown = lines.iter().map(|line| (&line["placeInBatch"], &line["outcome"], &line["repeat"]));
    let shown: Vec<String> =
        shown.map(|(place, outcome, again)| format!("{place} {outcome} {again}")).collect();
    assert_eq!(
        shown,
        [
            "1 \"miss\" null",
            "2 \"hit\" null",
            "3 \"hit\" true",
            "4 \"miss\" true",
            "5 \"refused\" null",
            "6 \"refused\" null",
            "7 \"hit\" true"
        ]
    );
    assert_eq!(lines[1]["valueDigest"], lines[2]["valueDigest"]);
    assert!(lines.iter().all(|line| line["requestId"] == lines[0]["requestId"]));
    assert_eq!(site.site.json(&["subject", ADA])["disclosures"].as_array().map(Vec::len), Some(1));
    site.site.ok(&["audit", "verify"]);
}

#[test]
fn what_does_not_fit_the_rate_or_the_quota_is_refused_by_itself() {
    let site = Site::empty();
    site.import("crm", many("row-quell", 40));
    let (rated, metered) =
        (site.token(&["--rate", "1/h", "--burst", "30"]), site.token(&["--quota", "7/day"]));
    let service = site.serve();
    let url = |n: usize| format!("https://linkedin.com/in/row-quell-{n:05}");
    let all: Vec<Value> = (0..40).map(|n| phone(&url(n))).collect();
    let reply = service.send(&batch(&rated, &all));
    let found = results(&reply);
    let is_found = |n: usize| if n < 30 { 200 } else { 429 };
    assert_eq!(statuses(&found), (0..40).map(is_found).collect::<Vec<_>>());
    assert_eq!(found[39]["body"]["status"], "rate_limited");
    let retry = found[30]["retryAfter"].as_u64().expect("a time");
    assert!((3_590..=3_600).contains(&retry), "{retry}");
    assert_eq!(reply.header("retry-after"), Some(&*retry.to_string()));
    assert!(reply.header("ratelimit").is_some_and(|left| left.starts_with("\"rate\";r=0;")));
    let reply = service.send(&batch(&metered, &all));
    let found = results(&reply);
    assert_eq!(statuses(&found).iter().filter(|status| **status == 200).count(), 7);
    assert_eq!(found[7]["body"]["status"], "quota_exceeded");
    assert!(reply.header("retry-after").is_some());
    let quota = service.metrics();
    assert!(quota.contains("contactd_token_quota_used") && quota.contains("} 7\n"));
}

#[test]
fn a_batch_that_is_refused_as_a_whole_takes_one_of_the_rate_and_looks_nothing_up() {
    let site = Site::with_people();
    let token = site.token(&["--rate", "1/h", "--burst", "4"]);
    let service = site.serve_with(&[], "[limits]\nbatch = 2\n");
    let refused = service.send(&batch(&token, &[phone(ADA), phone(ADA), phone(EVE)]));
    refused.refuses(400, "invalid_batch", "lookups has more than 2 lookups; send them in several batches.");
    service.send(&batch(&token, &[phone(ADA), json!({ "profileUrl": ADA })])).refuses(
        400,
        "invalid_batch",
        "lookups[1] has no operation that exists; send \"fetchPhoneNumber\" or \"fetchPersonalEmail\".",
    );
    let plain = batch(&token, &[phone(ADA)]).without("Content-Type").header("Content-Type", "text/plain");
    let reply = service.send(&plain);
    assert_eq!((reply.status, reply.code().as_str()), (415, "unsupported_media_type"));
    assert!(reply.header("ratelimit").is_some_and(|left| left.starts_with("\"rate\";r=1;")), "{reply:?}");
    assert_eq!(statuses(&service.results(&token, &[phone(ADA), phone(EVE)])), [200, 429]);
    let reply = service.send(&batch(&token, &[]));
    assert_eq!(
        (reply.status, reply.code().as_str()),
        (429, "rate_limited"),
        "the rate comes before the body"
    );
    let events = service.site.events(&["--operation", "batch"]);
    let reasons: Vec<_> = events.iter().map(|event| event["reason"].as_str().expect("a reason")).collect();
    assert_eq!(
        reasons,
        ["rate_limited", "unsupported_media_type", "invalid_batch", "invalid_batch"],
        "newest first, and nothing was looked up"
    );
}

#[test]
fn a_token_needs_a_scope_for_the_batch_and_for_each_lookup() {
    let site = Site::with_people();
    let token = site.token(&["--scope", "email", "--rate", "1/h", "--burst", "2"]);
    let service = site.serve();
    let results = service.results(&token, &[phone(ADA), email(ADA), phone(MIRA), email(ADA), email(EVE)]);
    assert_eq!(statuses(&results), [401, 200, 401, 200, 429], "what is out of scope takes none of the rate");
    assert_eq!(results[0]["body"]["message"], "No authorization found.");
    let reply = service.send(&batch("ctd_unknown", &[phone(ADA)]));
    assert_eq!((reply.status, reply.code().as_str()), (401, "no_authorization_found"));
    let methods = service.send(&Request::get(BATCH));
    assert_eq!((methods.status, methods.header("allow")), (405, Some("POST")));
}

#[test]
fn a_follower_of_the_journal_shows_the_place_in_the_batch_and_where_to_go_on() {
    let (service, token) = Service::with_people();
    let follower = Follower::start(&service.site, &["--since", "1d"]);
    assert_eq!(service.send(&batch(&token, &[phone(ADA), phone(NOBODY)])).status, 200);
    let is_last = |line: &Value| line["placeInBatch"] == 2;
    follower.wait_for("the second lookup of the batch", is_last);
    let (lines, _) = follower.end();
    let last = lines.iter().find(|line| is_last(line)).expect("waited for");
    assert!(last["place"].is_string(), "{last}");
}
