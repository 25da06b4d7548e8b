//! Request ids: on every answer, and on the log line about it.

use crate::fixture::{ADA, NOBODY};
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Service, eventually};

#[test]
fn a_callers_id_is_repeated_on_the_answer_and_in_the_log() {
    let (service, token) = Service::with_people();
    for (url, id) in [(ADA, "job-7/row:9"), (NOBODY, &"x".repeat(128)), ("nonsense", "~!@#")] {
        let request = Request::lookup(PHONE, profile_body(url)).token(&token).header("X-Request-Id", id);
        assert_eq!(service.send(&request).header("x-request-id"), Some(id));
        eventually(5, "the id is in the log", || {
            service.log.text().contains(&format!("\"request_id\":\"{id}\""))
        });
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
