//! Tokens of callers, through the admin API.

use serde_json::{Value, json};

use crate::admin_api::AdminApi;
use crate::fixture::ADA;
use crate::service::{EMAIL, PHONE, Service, assert_has, eventually};

/// The value of a field, and removes it: for what is different in every run.
fn take(value: &mut Value, field: &str) -> String {
    let taken = value[field].take().as_str().expect("text").to_owned();
    value.as_object_mut().expect("an object").remove(field);
    taken
}

/// What the journal says that somebody did, oldest first.
fn done_by(service: &Service, actor: &str) -> Vec<(String, String)> {
    let shown = service.site.json(&["audit", "show", "--actor", actor]);
    let text = |entry: &Value, name: &str| entry[name].as_str().expect("text").to_owned();
    let entries = shown.as_array().expect("a list").iter().rev();
    entries.map(|entry| (text(entry, "operation"), text(entry, "outcome"))).collect()
}

#[test]
fn a_token_is_created_used_changed_rotated_and_revoked() {
    let (service, _) = Service::with_people();
    let operator = AdminApi::with_role(&service, "operator");
    let new = json!({ "name": "<b>crm</b>", "scopes": ["phone"], "expires": "90d", "rate": "50/s", "burst": 100, "quota": "2/day" });
    let created = operator.post("/tokens", &new);
    assert_eq!(created.status, 201, "{}", created.shown());
    let mut created = created.json();
    let (token, id) = (take(&mut created, "token"), take(&mut created, "id"));
    let (created_at, expires_at) = (take(&mut created, "createdAt"), take(&mut created, "expiresAt"));
    assert!(token.starts_with("ctd_") && created_at < expires_at);
    assert_eq!(
        created,
        json!({ "name": "<b>crm</b>", "rotatedFrom": null, "scopes": ["phone"], "revokedAt": null, "lastUsedAt": null, "hits": 0,
            "rate": "50/s", "burst": 100, "quota": "2/day", "quotaUsed": 0, "state": "live", "inForce": true, "isOnRecord": true })
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200, "in force at once");
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 401, "not what it may look up");

    let listed = || {
        let tokens = operator.get("/tokens").json()["tokens"].as_array().expect("a list").clone();
        tokens.into_iter().find(|token| token["id"] == id.as_str()).expect("the token")
    };
    eventually("its use is counted", || listed()["hits"] == 1);
    assert_eq!((&listed()["quotaUsed"], &listed()["state"]), (&json!(1), &json!("live")));
    assert!(listed().get("token").is_none(), "the secret is shown once");

    let change =
        json!({ "scopes": ["phone", "email"], "rate": "none", "quota": "3/month", "expires": "never" });
    let changed = operator.patch(&format!("/tokens/{id}"), &change).json();
    let fields = ["scopes", "rate", "burst", "quota", "quotaUsed", "expiresAt", "inForce", "isOnRecord"];
    assert_eq!(
        fields.map(|field| changed[field].clone()),
        [
            json!(["phone", "email"]),
            json!(null),
            json!(null),
            json!("3/month"),
            json!(1),
            json!(null),
            json!(true),
            json!(true)
        ]
    );
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 200);

    let rotated = operator.post(&format!("/tokens/{id}/rotate"), &json!({ "overlap": "0s" }));
    assert_eq!(rotated.status, 201, "{}", rotated.shown());
    let mut rotated = rotated.json();
    let (second, second_id) = (take(&mut rotated, "token"), take(&mut rotated, "id"));
    assert_has(&rotated, json!({ "rotatedFrom": id, "quota": "3/month" }));
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 401);
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 200, "the third and last hit of the month");
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 429, "both share one quota");

    for _ in 0..2 {
        let revoked = operator.post(&format!("/tokens/{second_id}/revoke"), &json!({}));
        assert_eq!((revoked.status, &revoked.json()["state"]), (200, &json!("revoked")));
    }
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 401);
    let refused = operator.patch(&format!("/tokens/{second_id}"), &json!({ "rate": "1/s" }));
    refused.refuses(409, "conflict", "This token has ended, so it cannot be changed. Create a new one.");
    let done = |operation: &str| (operation.to_owned(), "done".to_owned());
    let expected = ["token create", "token update", "token rotate", "token revoke", "token revoke"];
    let failed = ("token update".to_owned(), "failed".to_owned());
    assert_eq!(done_by(&service, "operator"), [expected.map(done).to_vec(), vec![failed]].concat());
}

#[test]
fn the_lookups_of_a_token_are_shown_for_every_day() {
    let (service, _) = Service::with_people();
    let operator = AdminApi::with_role(&service, "operator");
    let mut created = operator.post("/tokens", &json!({ "name": "crm" })).json();
    let (token, id) = (take(&mut created, "token"), take(&mut created, "id"));
    assert_eq!(created["scopes"], json!(["phone", "email"]), "both unless it is given");
    for (path, expected) in [(PHONE, 200), (EMAIL, 200)] {
        assert_eq!(service.look_up(path, &token, ADA).status, expected);
    }
    assert_eq!(service.look_up(PHONE, &token, crate::fixture::NOBODY).status, 404);
    let usage = |query: &str| operator.get(&format!("/tokens/{id}/usage{query}"));
    let days = usage("?days=7").json()["days"].as_array().expect("days").clone();
    let count = |field: &str| days.iter().map(|day| day[field].as_u64().expect("a count")).sum::<u64>();
    assert_eq!((days.len(), count("hits"), count("misses"), count("refused")), (7, 2, 1, 0));
    let named: Vec<&str> = days.iter().map(|day| day["day"].as_str().expect("a day")).collect();
    assert!(named.is_sorted() && named.iter().all(|day| day.len() == "2026-05-01".len()), "{named:?}");
    assert_eq!(usage("").json()["days"].as_array().map(Vec::len), Some(30));
    assert_eq!(usage("?days=0").json()["message"], "`days` is a number from 1 to 366.");
    let unknown = operator.get("/tokens/tok_unknown/usage");
    unknown.refuses(404, "not_found", "There is no token with this id.");
    assert_eq!(operator.get("/tokens/crm/usage").status, 404, "a name is not an id");
}

#[test]
fn what_cannot_be_read_is_refused_and_says_what_to_write() {
    let (service, _) = Service::with_people();
    let operator = AdminApi::with_role(&service, "operator");
    let before = operator.get("/tokens").json();
    let id = before["tokens"][0]["id"].as_str().expect("an id").to_owned();
    for (path, body, message) in [
        ("/tokens", json!({}), "The field name is missing."),
        ("/tokens", json!({ "name": " " }), "A name has 1 to 100 printable characters."),
        ("/tokens", json!({ "name": "a\u{7}b" }), "A name has 1 to 100 printable characters."),
        ("/tokens", json!({ "name": "x".repeat(101) }), "A name has 1 to 100 printable characters."),
        ("/tokens", json!({ "name": "a\u{2066}b" }), "A name has 1 to 100 printable characters."),
        (
            "/tokens",
            json!({ "name": "x", "expires": "0s" }),
            "The token would have expired already. Give it a longer time, such as 90d.",
        ),
        (
            "/tokens",
            json!({ "name": "x", "burst": "many" }),
            "The field burst must be a whole number, 0 or more.",
        ),
        (
            "/tokens",
            json!({ "name": "x", "scopes": [] }),
            "Choose at least one thing that the token may look up: phone or email.",
        ),
        (
            "/tokens",
            json!({ "name": "x", "expires": "soon" }),
            "`expires` is a length of time such as 12h or 90d, or never.",
        ),
        (
            "/tokens",
            json!({ "name": "x", "rate": "many" }),
            "The rate cannot be read. Write a rate like 50/s, 600/m or 1000/h.",
        ),
        (
            "/tokens",
            json!({ "name": "x", "quota": "1/year" }),
            "The quota cannot be read. Write a quota like 10000/day or 200000/month.",
        ),
        ("/tokens", json!({ "name": "x", "burst": 5 }), "A burst needs a rate too."),
        ("/tokens", json!({ "name": "x", "rate": "1/s", "burst": 0 }), "A burst is at least 1."),
        (
            &format!("/tokens/{id}/rotate"),
            json!({ "overlap": "-1h" }),
            "`overlap` is a length of time such as 0s, 1h, 24h or 7d.",
        ),
    ] {
        let refused = operator.post(path, &body);
        assert_eq!(refused.status, 400, "{body}: {}", refused.shown());
        assert_eq!(refused.json(), json!({ "status": "invalid_request", "message": message }), "{body}");
    }
    for (body, message) in [
        (json!({ "burst": 5 }), "This token has no rate of its own, so a burst needs a rate too."),
        (
            json!({ "rate": "fast" }),
            "The rate cannot be read. Write a rate like 50/s, 600/m or 1000/h, or none.",
        ),
    ] {
        let refused = operator.patch(&format!("/tokens/{id}"), &body);
        assert_eq!((refused.status, &refused.json()["message"]), (400, &json!(message)), "{body}");
    }
    assert_eq!(operator.post("/tokens/tok_unknown/revoke", &json!({})).status, 404);
    assert_eq!(operator.get("/tokens").json(), before, "nothing was changed");
}
