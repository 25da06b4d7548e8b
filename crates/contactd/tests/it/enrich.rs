//! Enriching a CSV through a running service.

mod between;

use std::collections::HashSet;
use std::net::SocketAddr;

use between::{Answer, Seen, between};
use serde_json::{Value, json};

use crate::batch::BATCH;
use crate::fixture::{ADA, many};
use crate::service::{Service, Site};
use crate::transcript::{check_serving, check_with_people, transcripts};

fn enrich(
    service: &Service,
    token: &str,
    input: &str,
    output: &str,
    flags: &[&str],
) -> crate::service::Output {
    enrich_through(service.public, &service.site, token, &[&[input, output], flags].concat())
}

fn enrich_through(address: SocketAddr, site: &Site, token: &str, args: &[&str]) -> crate::service::Output {
    let url = format!("http://{address}");
    site.run(&[&["enrich", "--url", &url, "--token", token], args].concat())
}

transcripts! {
    fn no_cell_is_run_as_a_formula() { check_with_people("enrich") }
    fn errors_are_reported_and_no_value_is_written_to_the_wrong_place() {
        check_serving(&Service::with(&["--quota", "1/month"], ""), "enrich_refused")
    }
}

#[test]
fn it_waits_for_a_rate_limit() {
    let (service, token) = Service::with(&["--rate", "10/s", "--burst", "3"], "");
    let rows: String = (0..20).map(|n| format!("https://linkedin.com/in/wait-quell-{n}\n")).collect();
    let input = service.site.file("in.csv", format!("profileUrl\n{rows}"));
    let started = std::time::Instant::now();
    let output = enrich(&service, &token, &input, "out.csv", &["--only", "phone", "--json"]);
    assert_eq!((output.code, &output.json()["phone"]["not_found"]), (0, &20.into()), "{output:?}");
    assert!(started.elapsed().as_secs_f64() > 1.0, "it waited");
}

#[test]
fn a_killed_run_continues_where_it_stopped() {
    const URLS: usize = 8_000;
    // Three batches, and one whose answers are being written. A batch has both lookups of 50 URLs.
    const UNDER_WAY: usize = 4 * 50;
    let (service, token) = Service::with_people();
    let rows: String =
        (0..URLS + 200).map(|n| format!("{n},https://linkedin.com/in/kill-quell-{}\n", n % URLS)).collect();
    let input = service.site.file("in.csv", format!("id,profileUrl\n{ADA},{ADA}\n{rows}"));
    let url = format!("http://{}", service.public);
    let args = ["enrich", &input, "out.csv", "--url", &url, "--token", &token, "--concurrency", "3"];
    let misses = || {
        let name = "contactd_lookups_total{operation=\"phone\",outcome=\"miss\"}";
        usize::try_from(service.metric(name).expect("a count")).expect("small")
    };
    for wanted in [100, 2_000] {
        let mut child = service.site.spawn(&args);
        crate::service::eventually("it is on its way", || misses() > wanted);
        child.kill().expect("kills");
        child.wait().expect("ends");
        assert!(!service.site.path("out.csv").exists());
    }
    service.site.run(&args).mentions(0, "continuing");
    let asked = misses();
    assert!((URLS..=URLS + 2 * UNDER_WAY).contains(&asked), "{asked} lookups for {URLS} URLs");
    let (first, second) = ("out.csv", "uninterrupted.csv");
    assert_eq!(enrich(&service, &token, &input, second, &[]).code, 0);
    assert!(service.same(first, second), "the outputs differ");
}

impl Service {
    /// Whether these outputs are the same.
    fn same(&self, first: &str, second: &str) -> bool {
        let [first, second] =
            [first, second].map(|name| std::fs::read(self.site.path(name)).expect("an output"));
        first == second
    }
}

/// A service with 300 people, and a file of all of them, of as many who are not on file, and of what is refused.
fn with_rows(config: &str) -> (Service, String, String) {
    let site = Site::empty();
    site.import("crm", many("row-quell", 300));
    let token = site.token(&[]);
    let service = site.serve_with(&[], config);
    let url = |n: usize| match n % 7 {
        0 => format!("https://example.com/in/row-quell-{n}"),
        1 => format!("https://linkedin.com/in/{n:0width$}", width = 3_000 * (n % 5)),
        _ => format!("https://linkedin.com/in/row-quell-{n:05}"),
    };
    let rows: String = (0..600).map(|n| format!("{}\n", url(n))).collect();
    let input = service.site.file("in.csv", format!("profileUrl\n{rows}"));
    assert_eq!(enrich(&service, &token, &input, "direct.csv", &[]).code, 0);
    (service, token, input)
}

#[test]
fn what_is_refused_in_a_batch_for_a_while_is_asked_again_and_nothing_else() {
    let (service, token, input) = with_rows("");
    let (asked, answered) = (Seen::default(), Seen::default());
    let answered_there = answered.clone();
    let address = between(service.public, &token, move |request| {
        if request.path != BATCH {
            answered_there.add(request.body["profileUrl"].to_string() + request.path);
            return request.forward(&request.body);
        }
        let mut answer = request.forward(&request.body);
        let lookups = request.body["lookups"].as_array().expect("lookups");
        let results = answer.body["results"].as_array_mut().expect("results");
        for (lookup, result) in lookups.iter().zip(results) {
            let name = lookup.to_string();
            let is_first = asked.count(&name) == 0;
            asked.add(&name);
            match name.bytes().map(u32::from).sum::<u32>() % 10 {
                0 if is_first => *result = refused(429, "rate_limited", 0),
                1 if is_first => *result = refused(503, "service_unavailable", 0),
                // On a slow machine, the service is busy by itself.
                _ if result["status"] == 503 => {}
                _ => answered_there.add(name),
            }
        }
        answer
    });
    let output = enrich_through(address, &service.site, &token, &[&input, "out.csv", "--json"]);
    assert_eq!((output.code, &output.json()["asked"]), (0, &1_200.into()), "{output:?}");
    assert!(service.same("direct.csv", "out.csv"), "the outputs differ");
    let answered = answered.sorted();
    assert_eq!((answered.len(), answered.iter().collect::<HashSet<_>>().len()), (1_200, 1_200));
}

fn refused(status: u16, code: &str, retry_after: u64) -> Value {
    json!({ "status": status, "retryAfter": retry_after, "body": { "status": code, "message": "Not now." } })
}

#[test]
fn a_service_without_batches_is_asked_one_by_one() {
    let (service, token, input) = with_rows("");
    let asked = Seen::default();
    let seen = asked.clone();
    let address = between(service.public, &token, move |request| {
        seen.add(request.path);
        if request.path == BATCH {
            let body = json!({ "status": "not_found", "message": "There is nothing at this address." });
            return Answer { status: 404, reason: String::new(), body };
        }
        request.forward(&request.body)
    });
    let output = enrich_through(address, &service.site, &token, &[&input, "out.csv", "--json"]);
    assert_eq!((output.code, &output.json()["asked"]), (0, &1_200.into()), "{output:?}");
    assert!(service.same("direct.csv", "out.csv"), "the outputs differ");
    let batches = asked.count(BATCH);
    assert!((1..=8).contains(&batches), "{batches} were tried, at most one by each thread");
    assert!(asked.sorted().len() >= 1_200 + batches);
}

#[test]
fn batches_are_as_small_as_the_service_wants_them() {
    let (service, token, input) = with_rows("[limits]\nbatch = 7\nbatch_bytes = 4096\n");
    let output = enrich(&service, &token, &input, "out.csv", &["--json"]);
    assert_eq!((output.code, &output.json()["asked"]), (0, &1_200.into()), "{output:?}");
    assert!(service.same("direct.csv", "out.csv"), "the outputs differ");
    let refused = service.metric("contactd_requests_total{operation=\"batch\",outcome=\"invalid_batch\"}");
    assert!(refused.is_some_and(|count| (1..100).contains(&count)), "{refused:?}: it learns the size once");
}

#[test]
fn an_answer_that_is_not_of_the_service_is_taken_for_nobody() {
    let (service, token) = Service::with_people();
    let input = service.site.file("in.csv", format!("profileUrl\n{ADA}\n{}\n", crate::fixture::EVE));
    let body = json!({ "phoneNumber": "+14155550199", "profileUrl": ADA });
    let address = between(service.public, &token, move |_| Answer {
        status: 200,
        reason: String::new(),
        body: body.clone(),
    });
    let output = enrich_through(address, &service.site, &token, &[&input, "out.csv"]);
    output.mentions(1, "the service at this URL is not contactd: its answer has no phone");
    assert!(!service.site.path("out.csv").exists());
}
