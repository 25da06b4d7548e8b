//! Clients of the admin API that go away while their change is being made.

use std::time::Duration;

use serde_json::json;

use crate::admin_api::{AdminApi, BASE};
use crate::fixture::{ADA, ADA_PHONE};
use crate::http::{Connection, Request};
use crate::service::{PHONE, Service, eventually};
use crate::waiting::Elsewhere;

#[test]
fn a_change_that_has_begun_is_completed_and_recorded_although_its_client_has_gone() {
    let (service, token) = Service::with_people();
    let privacy = AdminApi::with_role(&service, "privacy");
    // Two changes, one after the other: the right number is stored, and the wrong one removed.
    let right = json!({ "profileUrl": ADA, "kind": "phone", "value": "+14155550199", "label": "personal", "ticket": "T-1",
        "replaces": { "value": ADA_PHONE, "source": "crm" } });
    let request = Request::new("POST", &format!("{BASE}/people/correct"));
    let request = request.header("Content-Type", "application/json").body(right.to_string());
    Elsewhere::on(&service.site).while_importing(Vec::new(), || {
        let mut client = Connection::open(service.admin);
        client.send(privacy.with_token(request).bytes());
        // Nothing tells that a request has begun to wait.
        std::thread::sleep(Duration::from_millis(500));
        drop(client);
        std::thread::sleep(Duration::from_millis(200));
    });

    eventually("both changes are on record", || {
        let shown = service.site.run(&["audit", "show", "--json", "--actor", "privacy"]).json();
        let done = |at: usize, operation: &str| {
            (&shown[at]["operation"], &shown[at]["outcome"], &shown[at]["ticket"])
                == (&json!(operation), &json!("done"), &json!("T-1"))
        };
        done(1, "put") && done(0, "remove")
    });
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], "+14155550199");
    assert!(!service.site.ok(&["export"]).contains(ADA_PHONE), "the wrong number is gone");
}
