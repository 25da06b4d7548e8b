//! How jobs of the console end that nobody has stopped by hand.

use serde_json::{Value, json};

use crate::admin_api::{AdminApi, BASE};
use crate::console::Browser;
use crate::console_imports::upload;
use crate::http::Request;
use crate::service::{Service, Site, assert_has, eventually};
use crate::waiting::Elsewhere;

/// What is kept of a job on disk, also if its owner cannot ask any more.
fn kept(site: &Site, id: &str) -> Value {
    let record = std::fs::read(site.data().join(format!("console/jobs/{id}.json"))).expect("a record");
    serde_json::from_slice::<Value>(&record).expect("JSON")["shown"].clone()
}

fn stopped(service: &Service, id: &str) {
    eventually("the job has ended", || kept(&service.site, id)["state"] != "running");
    let job = kept(&service.site, id);
    let words =
        "Stopped, because this account was disabled, or its role or token changed. Nothing was changed.";
    assert_has(&job, json!({ "state": "cancelled", "message": words }));
}

const ROWS: &str = "profileUrl,phone\nhttps://www.linkedin.com/in/bo-quell-77aa,+14155550150\n";

/// An import that waits.
fn import(operator: &AdminApi<'_>) -> String {
    let sent = upload(operator, "people.csv", ROWS);
    let started = operator.post("/imports", &json!({ "upload": sent["id"], "source": "fair" })).json();
    started["id"].as_str().expect("an id").to_owned()
}

#[test]
fn the_jobs_of_a_token_that_is_revoked_are_stopped() {
    let (service, _) = Service::with_people();
    let admin = AdminApi::with_role(&service, "admin");
    let [first, second, other] = ["operator"; 3].map(|role| AdminApi::with_role(&service, role));
    let tokens = admin.get("/admin-tokens").json();
    let id = |at: usize| tokens["adminTokens"][at]["id"].as_str().expect("an id").to_owned();
    Elsewhere::on(&service.site).while_importing(vec![], || {
        let (by_api, by_command, goes_on) = (import(&first), import(&second), import(&other));
        let running = other.send(Request::new("DELETE", &format!("{BASE}/jobs/{goes_on}")));
        assert_eq!((running.status, running.code().as_str()), (409, "conflict"), "{}", running.shown());
        assert_eq!(admin.post(&format!("/admin-tokens/{}/revoke", id(1)), &json!({})).status, 200);
        stopped(&service, &by_api);
        service.site.ok(&["admin-token", "revoke", &id(2)]);
        stopped(&service, &by_command);
        assert_eq!(other.get(&format!("/jobs/{goes_on}")).json()["state"], "running");
        other.send(Request::new("POST", &format!("{BASE}/jobs/{goes_on}/cancel")));
        eventually("it has ended", || kept(&service.site, &goes_on)["state"] == "cancelled");
        assert_eq!(kept(&service.site, &goes_on)["message"], "It was stopped. Nothing was changed.");
    });
    assert!(!service.site.ok(&["export"]).contains("bo-quell"));
}

#[test]
fn the_jobs_of_a_user_who_is_disabled_or_gets_another_role_are_stopped() {
    let (service, _) = Service::with_people();
    // What was imported can be undone.
    let admin = AdminApi::with_role(&service, "admin");
    Elsewhere::on(&service.site).while_importing(vec![], || {
        for (name, change, by_api) in [
            ("bo", json!({ "path": "disable", "body": {} }), true),
            ("cy", json!({ "path": "role", "body": { "role": "auditor" } }), true),
            ("di", json!({ "path": "disable" }), false),
        ] {
            let browser = Browser::with_role(&service, name, "operator");
            let started = browser.post("/imports/1/undo", &json!({}));
            assert_eq!(started.status, 202, "{}", started.shown());
            let id = started.json()["id"].as_str().expect("an id").to_owned();
            let path = change["path"].as_str().expect("a path");
            if by_api {
                let done = admin.post(&format!("/users/{name}/{path}"), &change["body"]);
                assert_eq!(done.status, 200, "{}", done.shown());
            } else {
                service.site.ok(&["user", path, name]);
            }
            stopped(&service, &id);
        }
    });
    assert_eq!(admin.get("/imports").json()["imports"][0]["undoneAt"], Value::Null);
    for id in ["-1", "0", "x"] {
        assert_eq!(admin.post(&format!("/imports/{id}/undo"), &json!({})).status, 404, "{id}");
    }
}

#[test]
fn a_job_that_runs_when_the_server_stops_is_interrupted() {
    let (service, _) = Service::with_people();
    let secret = AdminApi::with_role(&service, "operator").secret().to_owned();
    let (site, id) = Elsewhere::on(&service.site).while_importing(vec![], || {
        let id = import(&AdminApi::with_token_of(&service, &secret));
        (service.stop(), id)
    });
    assert_ne!(kept(&site, &id)["state"], "running");
    let service = site.serve();
    let job = AdminApi::with_token_of(&service, &secret).get(&format!("/jobs/{id}")).json();
    let words = "The server stopped while this was running. It was done whole or not at all: look whether it was done, or start it \
                 again.";
    assert_has(&job, json!({ "state": "failed", "code": "interrupted", "message": words }));
}
