//! Request ids: on every answer, and on the log line about it.

use crate::fixture::{ADA, NOBODY};
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Service, eventually};

#[test]
fn a_callers_id_is_repeated_on_the_answer_and_recorded_if_it_cannot_be_personal() {
    let (service, token) = Service::with_people();
    let recorded =
        ["0190b6a1-7c3e-7abc-8def-0123456789ab", "01ARZ3NDEKTSV4RRFFQ69G5FAV", &"0123456789abcdef".repeat(4)];
    let personal = ["job-7/row:9", &"x".repeat(128), "~!@#", "ada@example.com", "+14155550123"];
    for (id, url) in recorded.iter().chain(&personal).zip([ADA, NOBODY, "nonsense"].iter().cycle()) {
        let request = Request::lookup(PHONE, profile_body(url)).token(&token).header("X-Request-Id", id);
        assert_eq!(service.send(&request).header("x-request-id"), Some(*id));
        let events = service.site.events(&["--request", id]);
        assert_eq!(events.len(), 1, "{id} is found: {events:?}");
        assert_eq!(events[0]["requestId"] == **id, recorded.contains(id), "{events:?}");
        let own = events[0]["requestId"].as_str().expect("an id").to_owned();
        eventually("its id is in the log", || {
            service.log.text().contains(&format!("\"request_id\":\"{own}\""))
        });
    }
    let log = service.log.text();
    for file in ["audit/000000000001.jsonl", "audit-index.db"] {
        let bytes = std::fs::read(service.data().join(file)).expect("reads");
        let text = String::from_utf8_lossy(&bytes);
        for id in personal {
            assert!(!text.contains(id) && !log.contains(id), "{id} in {file} or in the log");
        }
    }
}

#[test]
fn an_invalid_id_is_replaced() {
    let (service, _) = Service::with_people();
    for bad in ["", "a b", "é", &"x".repeat(129)] {
        let reply = service.send(&Request::get("/healthz").header("X-Request-Id", bad));
        let id = reply.header("x-request-id").expect("an id");
        let is_uuid7 = id.len() == 36 && id.as_bytes()[14] == b'7';
        assert!(is_uuid7, "{bad:?} became {id}");
    }
}
