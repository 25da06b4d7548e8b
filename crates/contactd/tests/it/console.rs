//! Logging in to the console, and what protects a session.

use serde_json::{Value, json};

use crate::admin_api::BASE;
use crate::http::{Connection, Reply, Request};
use crate::service::{Service, Site};

/// A browser with a session.
pub(crate) struct Browser<'a> {
    service: &'a Service,
    cookie: String,
    csrf: String,
}

fn send(service: &Service, request: &Request) -> Reply {
    let mut connection = Connection::open(service.admin);
    connection.ask(request)
}

fn json_request(method: &str, path: &str, body: &Value) -> Request {
    let request = Request::new(method, &format!("{BASE}{path}"));
    request.header("Content-Type", "application/json").body(body.to_string())
}

fn log_in(service: &Service, name: &str, password: &str) -> Reply {
    send(service, &json_request("POST", "/session", &json!({ "name": name, "password": password })))
}

impl<'a> Browser<'a> {
    fn of(service: &'a Service, reply: &Reply) -> Self {
        assert_eq!(reply.status, 200, "{}", reply.shown());
        let cookie =
            reply.header("Set-Cookie").expect("a cookie").split(';').next().expect("a pair").to_owned();
        Self { service, cookie, csrf: reply.json()["csrfToken"].as_str().expect("a token").to_owned() }
    }

    /// Somebody of this role, who has chosen a password.
    pub(crate) fn with_role(service: &'a Service, name: &str, role: &str) -> Self {
        let first = service.site.ok(&["user", "create", name, "--role", role]);
        let browser = Self::of(service, &log_in(service, name, &first));
        let own = json!({ "old": first, "new": "correct horse battery" });
        assert_eq!(browser.post("/me/password", &own).status, 204);
        browser
    }

    fn get(&self, path: &str) -> Reply {
        let request = Request::get(&format!("{BASE}{path}")).header("Cookie", &self.cookie);
        send(self.service, &request)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let request = json_request("POST", path, body).header("Cookie", &self.cookie);
        send(self.service, &request.header("X-Contactd-Csrf", &self.csrf))
    }
}

#[test]
fn a_new_user_chooses_a_password_before_anything_else() {
    let service = Site::empty().serve();
    let first = service.site.ok(&["user", "create", "mira", "--role", "privacy"]);
    let reply = log_in(&service, "mira", &first);
    assert_eq!(
        reply.json()["user"],
        json!({ "name": "mira", "role": "privacy", "hasTotp": false, "mustChangePassword": true })
    );
    let cookie = reply.header("Set-Cookie").expect("a cookie");
    assert!(cookie.starts_with("contactd_session="), "{cookie}");
    assert!(cookie.ends_with("; Path=/admin; HttpOnly; SameSite=Strict"), "{cookie}");

    let mira = Browser::of(&service, &reply);
    let refused = mira.get("/jobs");
    refused.refuses(403, "password_change_needed", "Choose a password of your own first.");
    let wrong =
        mira.post("/me/password", &json!({ "old": "something else", "new": "correct horse battery" }));
    wrong.refuses(400, "wrong_password", "The current password is wrong.");
    let short = mira.post("/me/password", &json!({ "old": first, "new": "short" }));
    assert_eq!(short.json()["message"], "A password needs at least 12 characters.");
    assert_eq!(
        mira.post("/me/password", &json!({ "old": first, "new": "correct horse battery" })).status,
        204
    );
    assert_eq!(mira.get("/jobs").json(), json!({ "jobs": [] }));
    assert_eq!(log_in(&service, "mira", &first).status, 401, "the first password has ended");
}

#[test]
fn a_session_changes_nothing_without_its_csrf_token_or_for_the_page_of_another_site() {
    let service = Site::empty().serve();
    let ada = Browser::with_role(&service, "ada", "admin");
    let body = json!({ "name": "bo", "role": "auditor" });
    let request = || json_request("POST", "/users", &body).header("Cookie", &ada.cookie);
    let with_token = || request().header("X-Contactd-Csrf", &ada.csrf);
    for foreign in [
        request(),
        request().header("X-Contactd-Csrf", "0"),
        with_token().header("Origin", "https://rebind.example"),
        with_token().header("Origin", "null"),
        with_token().header("Sec-Fetch-Site", "cross-site"),
        with_token().header("Sec-Fetch-Site", "same-site"),
    ] {
        let refused = send(&service, &foreign);
        assert_eq!((refused.status, refused.code()), (403, "csrf".to_owned()));
    }
    let own = with_token().header("Origin", "http://127.0.0.1").header("Sec-Fetch-Site", "same-origin");
    assert_eq!(send(&service, &own).status, 201);
}

#[test]
fn a_session_ends_with_whatever_changes_who_its_user_is() {
    let service = Site::empty().serve();
    let _ada = Browser::with_role(&service, "ada", "admin");
    for command in
        [vec!["user", "disable", "bo"], vec!["user", "password", "bo"], vec!["user", "role", "bo", "auditor"]]
    {
        let first = match service.site.run(&["user", "list", "--json"]).stdout.contains("\"bo\"") {
            false => service.site.ok(&["user", "create", "bo", "--role", "operator"]),
            true => service.site.ok(&["user", "password", "bo"]),
        };
        service.site.run(&["user", "enable", "bo"]);
        let bo = Browser::of(&service, &log_in(&service, "bo", &first));
        assert_eq!(bo.get("/session").status, 200);
        service.site.ok(&command);
        assert_eq!(bo.get("/session").status, 401, "after {command:?}");
    }
}

#[test]
fn logging_out_ends_the_session() {
    let service = Site::empty().serve();
    let ada = Browser::with_role(&service, "ada", "admin");
    let request = json_request("DELETE", "/session", &json!({})).header("Cookie", &ada.cookie);
    assert_eq!(send(&service, &request.header("X-Contactd-Csrf", &ada.csrf)).status, 204);
    assert_eq!(ada.get("/session").status, 401);
}

#[test]
fn guessing_passwords_gets_slower_and_tells_nothing() {
    let service = Site::empty().serve();
    let first = service.site.ok(&["user", "create", "ada", "--role", "admin"]);
    service.site.ok(&["user", "create", "bo", "--role", "admin"]);
    service.site.ok(&["user", "disable", "bo"]);
    for name in ["ada", "nobody-here", "bo"] {
        for _ in 0..5 {
            let refused = log_in(&service, name, "wrong wrong wrong");
            refused.refuses(401, "wrong_credentials", "The name or the password is wrong.");
        }
        let slowed = log_in(&service, name, &first);
        assert_eq!((slowed.status, slowed.code()), (429, "too_many_attempts".to_owned()), "{name}");
        assert!(slowed.header("Retry-After").is_some_and(|seconds| seconds == "2" || seconds == "1"));
    }
}

#[test]
fn the_files_of_the_console_come_with_a_strict_policy() {
    let service = Site::empty().serve();
    let page = send(&service, &Request::get("/admin/"));
    assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        page.header("Content-Security-Policy"),
        Some(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'"
        )
    );
    assert_eq!(send(&service, &Request::get("/admin/enter")).body, page.body);
    let script = send(&service, &Request::get("/admin/pages/people.js"));
    assert_eq!(script.header("Content-Type"), Some("text/javascript; charset=utf-8"));
    let tag = script.header("ETag").expect("a tag").to_owned();
    let again = send(&service, &Request::get("/admin/pages/people.js").header("If-None-Match", &tag));
    assert_eq!(again.status, 304);
    let moved = send(&service, &Request::get("/admin"));
    assert_eq!((moved.status, moved.header("Location")), (308, Some("/admin/")));
    for path in ["/admin/pages/", "/admin/index.html", "/admin/../Cargo.toml", "/admin/api/v1/nothing"] {
        assert_eq!(send(&service, &Request::get(path)).status, 404, "{path}");
    }
    let foreign = send(&service, &Request::get("/admin/").without("Host").header("Host", "rebind.example"));
    assert_eq!(foreign.status, 421);
}
