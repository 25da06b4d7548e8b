//! Who may use which endpoint of the admin API: every endpoint with every role, and with none.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::admin_api::{AdminApi, BASE};
use crate::http::Request;
use crate::service::Site;

const ROLES: [&str; 4] = ["admin", "operator", "privacy", "auditor"];

/// Every endpoint, and who may use it: `-` anybody without logging in, `s` only who is logged in with a session, else the first
/// letters of the roles (`a`dmin, `o`perator, `p`rivacy, audi`t`or).
const MATRIX: &[(&str, &str)] = &[
    ("POST /session", "-"),
    ("POST /session/link", "-"),
    ("GET /session", "s"),
    ("DELETE /session", "s"),
    ("GET /me", "s"),
    ("POST /me/password", "s"),
    ("POST /me/totp", "s"),
    ("POST /me/totp/confirm", "s"),
    ("DELETE /me/totp", "s"),
    ("GET /users", "a"),
    ("POST /users", "a"),
    ("POST /users/{name}/password", "a"),
    ("POST /users/{name}/role", "a"),
    ("POST /users/{name}/disable", "a"),
    ("POST /users/{name}/enable", "a"),
    ("POST /users/{name}/reset-totp", "a"),
    ("GET /admin-tokens", "a"),
    ("POST /admin-tokens", "a"),
    ("POST /admin-tokens/{id}/revoke", "a"),
    ("POST /admin-tokens/{id}/take-over", "a"),
    ("GET /overview", "aopt"),
    ("GET /tokens", "ao"),
    ("POST /tokens", "ao"),
    ("PATCH /tokens/{id}", "ao"),
    ("POST /tokens/{id}/rotate", "ao"),
    ("POST /tokens/{id}/revoke", "ao"),
    ("GET /tokens/{id}/usage", "ao"),
    ("POST /people/search", "ap"),
    ("POST /people/find", "ap"),
    ("POST /people/report", "ap"),
    ("POST /people/opt-out", "ap"),
    ("POST /people/correct", "ap"),
    ("POST /people/remove", "ap"),
    ("POST /people/erase", "ap"),
    ("POST /opt-outs/list", "ap"),
    ("POST /opt-outs/list/check", "ap"),
    ("POST /opt-outs/withdraw", "ap"),
    ("POST /uploads", "ao"),
    ("GET /uploads", "ao"),
    ("GET /uploads/{id}", "ao"),
    ("DELETE /uploads/{id}", "ao"),
    ("POST /uploads/{id}/preview", "ao"),
    ("GET /imports", "ao"),
    ("GET /sources", "ao"),
    ("POST /imports", "ao"),
    ("POST /imports/{id}/undo", "ao"),
    ("POST /exports", "a"),
    ("GET /audit", "apt"),
    ("GET /audit/summary", "apt"),
    ("POST /audit/verify", "at"),
    ("POST /audit/proof", "at"),
    ("GET /audit/root", "at"),
    ("GET /audit/head", "at"),
    ("GET /usage", "aot"),
    ("GET /retention", "aop"),
    ("POST /retention/sweep", "ao"),
    ("GET /nodes", "ao"),
    ("GET /health", "ao"),
    ("GET /jobs", "aopt"),
    ("GET /jobs/{id}", "aopt"),
    ("DELETE /jobs/{id}", "aopt"),
    ("POST /jobs/{id}/cancel", "aopt"),
    ("GET /jobs/{id}/file", "aopt"),
    ("GET /jobs/{id}/rejects", "aopt"),
];

/// A request to an endpoint, about something that does not exist.
fn request(endpoint: &str) -> Request {
    let (method, path) = endpoint.split_once(' ').expect("a method and a path");
    let path = path.replace("{name}", "nobody-here").replace("{id}", "nothing-here");
    let request = Request::new(method, &format!("{BASE}{path}"));
    match method {
        "GET" => request,
        _ => request.header("Content-Type", "application/json").body("{}"),
    }
}

#[test]
fn exactly_the_documented_roles_may_use_each_endpoint() {
    let service = Site::with_people().serve();
    let document = service.ask_admin(&Request::get(&format!("{BASE}/openapi.json"))).json();
    let mut known = BTreeSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let endpoint = format!("{} {path}", method.to_uppercase());
            let row = MATRIX.iter().find(|(known, _)| *known == endpoint);
            let (_, who) = row.unwrap_or_else(|| panic!("{endpoint} has no row in the matrix"));
            let roles: Vec<&str> = match *who {
                "-" | "s" => ROLES.to_vec(),
                who => ROLES.into_iter().filter(|role| who.contains(letter(role))).collect(),
            };
            assert_eq!(operation["x-roles"], Value::from(roles), "{endpoint}");
            known.insert(endpoint);
        }
    }
    let all: BTreeSet<String> = MATRIX.iter().map(|(endpoint, _)| (*endpoint).to_owned()).collect();
    assert_eq!(known, all, "every row of the matrix is an endpoint");

    let callers: Vec<(&str, AdminApi<'_>)> =
        ROLES.iter().map(|role| (*role, AdminApi::with_role(&service, role))).collect();
    for (endpoint, who) in MATRIX {
        let nobody = service.ask_admin(&request(endpoint));
        let expected = if *who == "-" { vec![400, 401] } else { vec![401] };
        assert!(expected.contains(&nobody.status), "{endpoint} without a token: {}", nobody.shown());
        for (role, api) in &callers {
            let reply = api.send(request(endpoint));
            assert_eq!(reply.header("cache-control"), Some("no-store"), "{endpoint}: {}", reply.shown());
            let is_refused = [401, 403].contains(&reply.status);
            let is_allowed = match *who {
                "-" => continue,
                "s" => false,
                who => who.contains(letter(role)),
            };
            assert_eq!(!is_refused, is_allowed, "{endpoint} as {role}: {}", reply.shown());
            assert_ne!(reply.status, 500, "{endpoint} as {role}: {}", reply.shown());
            if is_refused && *who != "s" {
                let roles: Vec<&str> = ROLES.into_iter().filter(|role| who.contains(letter(role))).collect();
                let roles = roles.join(" or ");
                let message = format!("Your role, {role}, may not do this. It needs the role {roles}.");
                reply.refuses(403, "forbidden", message);
            }
        }
    }
}

fn letter(role: &str) -> &str {
    if role == "auditor" { "t" } else { &role[..1] }
}

#[test]
fn every_endpoint_documents_the_request_id_that_its_answers_have() {
    let service = Site::empty().serve();
    let document = service.ask_admin(&Request::get(&format!("{BASE}/openapi.json"))).json();
    let reference = "#/components/parameters/X-Request-Id";
    assert_eq!(document["components"]["parameters"]["X-Request-Id"]["in"], "header");
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let parameters = operation["parameters"].as_array().expect("parameters");
            assert!(parameters.iter().any(|one| one["$ref"] == reference), "{method} {path}");
        }
    }
    for path in ["/session", "/overview", "/nothing"] {
        let request = Request::get(&format!("{BASE}{path}")).header("X-Request-Id", "case-17.a");
        assert_eq!(service.ask_admin(&request).header("X-Request-Id"), Some("case-17.a"), "{path}");
    }
}
