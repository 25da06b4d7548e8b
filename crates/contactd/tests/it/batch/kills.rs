//! Kills during batches: every result that a client received has its line, and quotas are exact. `soak/batches.py` kills more often.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::{batch, phone, results};
use crate::fixture::many;
use crate::http::Connection;
use crate::service::{Site, eventually};

const LIVES: u64 = 5;
const CLIENTS: u64 = 3;
const LOOKUPS: u64 = 40;
const QUOTA: u64 = 4_000;

/// The results that clients received, by id of the request and place.
type Received = Mutex<HashMap<(String, u64), u64>>;

/// A batch, half of it about people who are not on file.
fn lookups(number: u64) -> Vec<Value> {
    let url = |at: u64| {
        format!("https://linkedin.com/in/row-quell-{:05}", (number * 7 + at) % 20 + 10 * (at % 2) * at)
    };
    (0..LOOKUPS).map(|at| phone(&url(at))).collect()
}

/// Sends batches until the server is killed or `most` were answered.
fn send(connection: &mut Connection, token: &str, number: &AtomicU64, received: &Received, most: u64) {
    for _ in 0..most {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let id = format!("{number:032x}");
        let request = batch(token, &lookups(number)).header("X-Request-Id", &id);
        if !connection.try_send(request.bytes()) {
            return;
        }
        let Some(reply) = connection.try_reply() else { return };
        let mut received = received.lock().expect("a lock");
        for (result, place) in results(&reply).iter().zip(1..) {
            received.insert((id.clone(), place), result["status"].as_u64().expect("a status"));
        }
    }
}

#[test]
fn every_result_that_a_client_received_has_its_line_and_the_quota_is_exact() {
    let mut site = Site::empty();
    site.import("crm", many("row-quell", 30));
    let token = site.token(&["--quota", &format!("{QUOTA}/month")]);
    let (number, received) = (AtomicU64::new(1), Received::default());
    for life in 0..LIVES {
        let service = site.serve();
        let address = service.public;
        let answered = || received.lock().expect("a lock").len() as u64;
        let before = answered();
        site = std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| send(&mut Connection::open(address), &token, &number, &received, u64::MAX));
            }
            eventually("some are answered", || answered() >= before + LOOKUPS * (1 + life));
            service.kill()
        });
    }
    let service = site.serve();
    let is_used_up = || received.lock().expect("a lock").values().any(|status| *status == 429);
    while !is_used_up() {
        send(&mut service.connect(), &token, &number, &received, 1);
    }
    let lines = service.site.events(&[]);
    let outcomes: HashMap<(&str, u64), (&str, bool)> = lines
        .iter()
        .filter_map(|line| {
            let key = (line["requestId"].as_str()?, line["placeInBatch"].as_u64()?);
            Some((key, (line["outcome"].as_str()?, line["repeat"] == true)))
        })
        .collect();
    let mut hits = 0;
    for ((id, place), status) in &*received.lock().expect("a lock") {
        let expected = match status {
            200 => "hit",
            404 => "miss",
            _ => "refused",
        };
        let line = outcomes.get(&(id.as_str(), *place));
        // Of refusals, those of a few requests in a second have lines of their own.
        assert!(line.is_some() || *status == 429, "{id} {place}: {status}");
        let (outcome, is_repeat) = line.copied().unwrap_or(("refused", false));
        assert_eq!(outcome, expected, "{id} {place}");
        hits += u64::from(*status == 200 && !is_repeat);
    }
    assert!(hits <= QUOTA, "{hits}");
    assert!(hits >= QUOTA - LIVES * CLIENTS * LOOKUPS, "{hits}: only batches under way may be lost");
    service.site.ok(&["audit", "verify"]);
}
