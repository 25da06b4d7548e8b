//! Every kind of request, sent alone and in a batch: the answer and every effect are the same.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{BATCH, results};
use crate::audit::{Faulty, segments};
use crate::fixture::{ADA, EVE, MIRA, NOBODY, OLD, UNA};
use crate::http::{Reply, Request};
use crate::service::{EMAIL, PHONE, Service, Site};

/// Where in a batch of 100 the lookup is.
const PLACES: [usize; 3] = [1, 50, 100];

/// A kind of request.
struct Sent {
    name: &'static str,
    /// Whose token, by its flags.
    token: &'static [&'static str],
    operation: &'static str,
    /// The fields beside the operation, as JSON.
    fields: String,
    /// A lookup that the token makes before.
    before: Option<&'static str>,
    status: u16,
}

fn sent(name: &'static str, operation: &'static str, fields: impl Into<String>, status: u16) -> Sent {
    let token: &[&str] = if operation == EMAIL { &["--scope", "email"] } else { &["--scope", "phone"] };
    Sent { name, token, operation, fields: fields.into(), before: None, status }
}

fn url(url: &str) -> String {
    format!("\"profileUrl\":{}", json!(url))
}

/// What a request did, beside its answer.
#[derive(Debug, PartialEq)]
struct Effect {
    status: u16,
    body: String,
    reason: Option<String>,
    retry_after: Option<u64>,
    /// What is left of the limits.
    left: Option<String>,
    /// Hits, misses and refusals, as usage has them.
    counts: [u64; 3],
    /// Its line in the journal, without what tells it from others.
    line: Value,
}

/// The header without times, which go on.
fn left(reply: &Reply) -> Option<String> {
    let left = reply.header("ratelimit")?;
    Some(left.split(';').filter(|part| !part.starts_with("t=")).collect::<Vec<_>>().join(";"))
}

fn id(number: usize) -> String {
    format!("{number:032x}")
}

/// What a token did so far.
fn counts(metrics: &str, name: &str) -> [u64; 3] {
    ["hit", "miss", "refused"].map(|outcome| {
        let of = format!("name=\"{name}\",outcome=\"{outcome}\"}} ");
        let line = metrics.lines().find_map(|line| Some(line.split_once(of.as_str())?.1));
        line.map_or(0, |count| count.parse().expect("a number"))
    })
}

fn difference(after: [u64; 3], before: [u64; 3], more: [u64; 3]) -> [u64; 3] {
    [0, 1, 2].map(|at| after[at] - before[at] - more[at])
}

/// The body of the result at this place, byte for byte.
fn body(reply: &Reply, place: usize) -> String {
    type Fields = HashMap<String, Box<RawValue>>;
    let results: HashMap<String, Vec<Fields>> = serde_json::from_str(&reply.body).expect("results");
    results["results"][place - 1]["body"].get().to_owned()
}

impl Sent {
    /// Sends it alone.
    fn alone(&self, service: &Service, token: &str, number: usize) -> Reply {
        let request = Request::lookup(self.operation, format!("{{{}}}", self.fields)).token(token);
        service.send(&request.header("X-Request-Id", &id(number)))
    }

    /// Sends it in a batch, among lookups for which the token has no scope: these are refused and count nowhere else.
    fn in_batch(&self, service: &Service, token: &str, number: usize, place: usize) -> Reply {
        let other = if self.token[1] == "email" { "fetchPhoneNumber" } else { "fetchPersonalEmail" };
        let other = format!("{{\"operation\":\"{other}\",{}}}", url(ADA));
        let operation = self.operation.trim_start_matches("/api/");
        let own = format!("{{\"operation\":\"{operation}\",{}}}", self.fields);
        let lookups: Vec<&str> = (1..=100).map(|at| if at == place { &*own } else { &*other }).collect();
        let body = format!("{{\"lookups\":[{}]}}", lookups.join(","));
        let request = Request::lookup(BATCH, body).token(token);
        service.send(&request.header("X-Request-Id", &id(number)))
    }
}

/// A token for each time that one of these is sent.
fn tokens(site: &Site, kinds: &[Sent]) -> Vec<String> {
    let flags = kinds.iter().flat_map(|sent| std::iter::repeat_n(sent.token, 1 + PLACES.len()));
    flags
        .zip(1..)
        .map(|(flags, number)| site.ok(&[&["token", "create", &name(number)], flags].concat()))
        .collect()
}

fn name(number: usize) -> String {
    format!("token-{number}")
}

/// Sends each alone, and in batches, each time with a token of its own. Returns the replies' effects without lines, and the number of
/// the request and its place in a batch.
fn send_all(service: &Service, kinds: &[Sent], tokens: &[String]) -> Vec<(String, Effect, usize, usize)> {
    let mut done = Vec::new();
    for sent in kinds {
        for place in [0].into_iter().chain(PLACES) {
            let number = done.len() + 1;
            let (name, token) = (name(number), &tokens[number - 1]);
            if let Some(before) = sent.before {
                assert_eq!(service.look_up(sent.operation, token, before).status, 200);
            }
            let before = counts(&service.metrics(), &name);
            let (reply, result) = if place == 0 {
                let reply = sent.alone(service, token, number);
                (reply, None)
            } else {
                let reply = sent.in_batch(service, token, number, place);
                let result = results(&reply)[place - 1].clone();
                (reply, Some(result))
            };
            let others = [0, 0, if place == 0 { 0 } else { 99 }];
            let counts = difference(counts(&service.metrics(), &name), before, others);
            let text = |value: &Value| value.as_str().map(str::to_owned);
            let effect = match &result {
                None => Effect {
                    status: reply.status,
                    body: reply.body.clone(),
                    reason: reply.header("x-invalid-reason").map(str::to_owned),
                    retry_after: reply.header("retry-after").map(|seconds| seconds.parse().expect("seconds")),
                    left: left(&reply),
                    counts,
                    line: Value::Null,
                },
                Some(result) => Effect {
                    status: result["status"]
                        .as_u64()
                        .and_then(|status| u16::try_from(status).ok())
                        .expect("a status"),
                    body: body(&reply, place),
                    reason: text(&result["reason"]),
                    retry_after: result["retryAfter"].as_u64(),
                    left: left(&reply),
                    counts,
                    line: Value::Null,
                },
            };
            assert_eq!(effect.status, sent.status, "{} at {place}: {effect:?}", sent.name);
            done.push((format!("{} at {place}", sent.name), effect, number, place));
        }
    }
    done
}

/// The lines of requests, by id and place in a batch, without what tells them from others. As they are written: a damaged store has no
/// index of them.
fn lines(site: &Site) -> HashMap<(String, u64), Value> {
    let written =
        segments(&site.data()).into_iter().map(|file| std::fs::read_to_string(file).expect("reads"));
    let written: String = written.collect();
    let lines = written.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines = lines.filter(|line| line["requestId"].is_string());
    lines
        .map(|mut line| {
            let id = line["requestId"].as_str().expect("an id").to_owned();
            let place = line["place"].as_u64().unwrap_or(0);
            let fields = line.as_object_mut().expect("an object");
            for name in ["seq", "time", "token", "requestId", "place", "chain"] {
                fields.remove(name);
            }
            ((id, place), line)
        })
        .collect()
}

fn assert_equal(mut done: Vec<(String, Effect, usize, usize)>, lines: &HashMap<(String, u64), Value>) {
    for (name, effect, number, place) in &mut done {
        let line = lines.get(&(id(*number), *place as u64));
        effect.line = line.unwrap_or_else(|| panic!("{name} has no line")).clone();
    }
    for of_kind in done.chunks(1 + PLACES.len()) {
        let (_, alone, ..) = &of_kind[0];
        for (name, effect, ..) in &of_kind[1..] {
            // A second may have passed.
            let wait = effect.retry_after.zip(alone.retry_after);
            assert!(wait.is_none_or(|(one, other)| one.abs_diff(other) <= 60), "{name}: {wait:?}");
            let effect = Effect {
                status: effect.status,
                body: effect.body.clone(),
                reason: effect.reason.clone(),
                retry_after: effect.retry_after.and(alone.retry_after),
                left: effect.left.clone(),
                counts: effect.counts,
                line: effect.line.clone(),
            };
            assert_eq!(effect, *alone, "{name}");
        }
    }
}

#[test]
fn every_kind_of_request_is_answered_counted_and_recorded_alike_alone_and_in_a_batch() {
    let site = Site::with_people();
    site.ok(&["suppress", MIRA]);
    let service = site.serve();
    let long = format!("https://linkedin.com/in/{}", "é".repeat(2_500));
    let limited = |token, before, sent| Sent { token, before, ..sent };
    let rate: &[&str] = &["--scope", "phone", "--rate", "1/h", "--burst", "1"];
    let full_rate: &[&str] = &["--scope", "phone", "--rate", "1/h", "--burst", "5"];
    let quota: &[&str] = &["--scope", "phone", "--quota", "1/month"];
    let full_quota: &[&str] = &["--scope", "phone", "--quota", "3/month"];
    let kinds = [
        sent("a phone number", PHONE, url(ADA), 200),
        sent("an address", EMAIL, url(EVE), 200),
        sent("another spelling", PHONE, url(" http://de.linkedin.com/in/ADA-quell-1a2b3c/?x#y"), 200),
        sent(
            "escapes and unknown fields",
            EMAIL,
            "\"a\":[{}],\"profileUrl\":\"https:\\/\\/www.linkedin.com\\/in\\/ada-quell-1a2b3c\"",
            200,
        ),
        sent("nobody", PHONE, url(NOBODY), 404),
        sent("no address", EMAIL, url(NOBODY), 404),
        sent("no number", PHONE, url(EVE), 404),
        sent("expired", PHONE, url(OLD), 404),
        sent("work only", PHONE, url(UNA), 404),
        sent("suppressed", PHONE, url(MIRA), 404),
        sent("not a person", PHONE, url("https://www.linkedin.com/company/quellcorp"), 400),
        sent("not a URL", EMAIL, url("ada \"quell\"\u{e9}"), 400),
        sent("too long", PHONE, url(&long), 400),
        sent("control characters", PHONE, "\"profileUrl\":\"a\\\"b\\\\c\\u0007\\n\"", 400),
        sent("missing", PHONE, "\"profileURL\":\"x\"", 400),
        sent("null", EMAIL, "\"profileUrl\":null", 400),
        sent("a list", PHONE, "\"profileUrl\": [ 1, {\"a\" : \"b c\"} ]", 400),
        sent("twice", PHONE, format!("{0},{0}", url(ADA)), 400),
        sent("half a character", PHONE, "\"profileUrl\":\"\\ud800\"", 400),
        limited(&["--scope", "email"], None, sent("out of scope", PHONE, url(ADA), 401)),
        limited(full_rate, Some(ADA), sent("within the rate", PHONE, url(NOBODY), 404)),
        limited(full_rate, Some(ADA), sent("not a person, within the rate", PHONE, url("x"), 400)),
        limited(rate, Some(ADA), sent("over the rate", PHONE, url(ADA), 429)),
        limited(rate, Some(ADA), sent("not a URL, over the rate", PHONE, url("x"), 429)),
        limited(full_quota, Some(ADA), sent("within the quota", PHONE, url(ADA), 200)),
        limited(full_quota, Some(ADA), sent("a miss within the quota", PHONE, url(NOBODY), 404)),
        limited(quota, Some(ADA), sent("over the quota", PHONE, url(ADA), 429)),
        limited(quota, Some(ADA), sent("nobody, over the quota", PHONE, url(NOBODY), 429)),
        limited(quota, Some(ADA), sent("not a URL, over the quota", PHONE, url("x"), 429)),
    ];
    let done = send_all(&service, &kinds, &tokens(&service.site, &kinds));
    assert_equal(done, &lines(&service.site));
}

#[test]
fn an_error_of_the_service_is_the_same_alone_and_in_a_batch() {
    let service = Site::with_people().serve_with(&[], "[serve]\ntable_bytes = 0\n");
    let kinds = [sent("a damaged store", PHONE, url(ADA), 500)];
    let tokens = tokens(&service.site, &kinds);
    service.ruin_details();
    let done = send_all(&service, &kinds, &tokens);
    assert_equal(done, &lines(&service.site));
}

#[test]
fn without_its_line_nothing_is_disclosed_alone_or_in_a_batch() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let faulty = Faulty::on(site, &token, "ok", "");
    let service = &faulty.service;
    let kinds = [
        sent("a hit without a line", PHONE, url(ADA), 503),
        sent("a miss without one", PHONE, url(NOBODY), 503),
    ];
    let tokens = tokens(&service.site, &kinds);
    faulty.fail("full");
    let done = send_all(service, &kinds, &tokens);
    for (name, effect, ..) in &done {
        let alone = &done[0].1;
        assert_eq!((&effect.body, effect.retry_after), (&alone.body, Some(1)), "{name}");
        assert_eq!(effect.counts, [0, 0, 1], "{name}");
    }
    faulty.fail("ok");
}
