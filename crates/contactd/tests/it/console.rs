//! Logging in to the console, and what protects a session.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use contactd_core::{Clock, SystemClock};
use contactd_testing::authenticator_code;
use serde_json::{Value, json};

use crate::admin_api::BASE;
use crate::docs::weight_of_kept;
use crate::http::{Connection, Reply, Request};
use crate::service::{Service, Site, eventually};

/// The password that everybody chooses.
pub(crate) const OWN_PASSWORD: &str = "correct horse battery";

/// A browser with a session.
pub(crate) struct Browser<'a> {
    service: &'a Service,
    cookie: String,
    csrf: String,
}

fn json_request(method: &str, path: &str, body: &Value) -> Request {
    let request = Request::new(method, &format!("{BASE}{path}"));
    request.header("Content-Type", "application/json").body(body.to_string())
}

pub(crate) fn log_in(service: &Service, name: &str, password: &str) -> Reply {
    log_in_with(service, name, password, None)
}

/// Logs in with a code of an authenticator app.
pub(crate) fn log_in_with(service: &Service, name: &str, password: &str, code: Option<String>) -> Reply {
    let login = json!({ "name": name, "password": password, "code": code });
    log_in_from(Ipv4Addr::LOCALHOST, service, &login)
}

/// From another address of this machine.
fn log_in_from(address: Ipv4Addr, service: &Service, login: &Value) -> Reply {
    Connection::open_from(address, service.admin).ask(&json_request("POST", "/session", login))
}

const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// The code that an app shows now, or shows in the next half minute. Each counts once.
pub(crate) fn code(secret: &str, ahead: i64) -> String {
    authenticator_code(secret, SystemClock.now().seconds() / 30 + ahead)
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
        let own = json!({ "old": first, "new": OWN_PASSWORD });
        assert_eq!(browser.post("/me/password", &own).status, 204);
        browser
    }

    /// Sets up a second factor, and gives its secret.
    pub(crate) fn set_up_totp(&self) -> String {
        let begun = self.post("/me/totp", &json!({})).json();
        let secret = begun["secret"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
        let confirmed = json!({ "password": OWN_PASSWORD, "code": code(&secret, 0) });
        assert_eq!(self.post("/me/totp/confirm", &confirmed).status, 204);
        secret
    }

    fn get(&self, path: &str) -> Reply {
        let request = Request::get(&format!("{BASE}{path}")).header("Cookie", &self.cookie);
        self.service.ask_admin(&request)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let request = json_request("POST", path, body).header("Cookie", &self.cookie);
        self.service.ask_admin(&request.header("X-Contactd-Csrf", &self.csrf))
    }
}

#[test]
fn without_any_user_the_page_hears_how_the_first_is_made() {
    let service = Site::empty().serve();
    let ask = || service.ask_admin(&Request::get(&format!("{BASE}/session")));
    let message = "There is no user yet. To make the first, run this on the server: contactd user create NAME --role admin";
    ask().refuses(401, "no_user", message);
    service.site.ok(&["user", "create", "ada", "--role", "admin"]);
    assert_eq!(ask().code(), "unauthorized");
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
        let refused = service.ask_admin(&foreign);
        assert_eq!((refused.status, refused.code()), (403, "csrf".to_owned()));
    }
    let own = with_token().header("Origin", "http://127.0.0.1").header("Sec-Fetch-Site", "same-origin");
    assert_eq!(service.ask_admin(&own).status, 201);
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
    assert_eq!(service.ask_admin(&request.header("X-Contactd-Csrf", &ada.csrf)).status, 204);
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
fn a_right_password_without_its_code_is_on_record_and_slowed_like_a_wrong_one() {
    let service = Site::empty().serve();
    let ada = Browser::with_role(&service, "ada", "admin");
    let secret = ada.set_up_totp();
    let without_code = json!({ "name": "ada", "password": OWN_PASSWORD });
    let tries: Vec<Reply> = (0..30).map(|_| log_in_from(STRANGER, &service, &without_code)).collect();
    let codes: Vec<String> = tries.iter().map(Reply::code).collect();
    assert!(codes[..5].iter().all(|code| code == "code_needed"), "{codes:?}");
    assert_eq!((tries[5].status, codes[5].as_str()), (429, "too_many_attempts"));
    let checked = codes.iter().filter(|code| *code == "code_needed").count();
    assert!(checked < 15, "{codes:?}");
    let lines = service.site.events(&["--operation", "log in", "--outcome", "failed"]);
    assert_eq!(lines.len(), checked);
    assert!(lines.iter().all(|line| line["what"] == "code needed" && line["actor"] == "ada"), "{lines:?}");

    // Ada logs in as always, first with her password: that the code was missing is no reason to wait for it.
    for _ in 0..5 {
        assert_eq!(log_in(&service, "ada", OWN_PASSWORD).code(), "code_needed");
    }
    let with_code = json!({ "name": "ada", "password": OWN_PASSWORD, "code": code(&secret, 1) });
    assert_eq!(log_in_from(Ipv4Addr::LOCALHOST, &service, &with_code).status, 200);
}

#[test]
fn strangers_at_the_log_in_page_keep_nobody_out() {
    let service = Site::empty().serve();
    let [_, bo] = ["ada", "bo"].map(|name| Browser::with_role(&service, name, "admin"));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..20 {
            let (service, is_over) = (&service, &is_over);
            scope.spawn(move || {
                for round in 0_usize.. {
                    let name = ["ada", "bo", &format!("x{number}-{round}")][round % 3].to_owned();
                    log_in_from(STRANGER, service, &json!({ "name": name, "password": "guessed guessed" }));
                    if is_over.load(Ordering::SeqCst) {
                        break;
                    }
                }
            });
        }
        eventually("the line of the strangers is full, and their guesses wait", || {
            log_in_from(STRANGER, &service, &json!({ "name": "ada", "password": OWN_PASSWORD })).status == 429
        });
        let logged_in: Vec<u16> = (0..15).map(|_| log_in(&service, "ada", OWN_PASSWORD).status).collect();
        // A session goes on, also where it asks for the password.
        let changed =
            bo.post("/me/password", &json!({ "old": OWN_PASSWORD, "new": "another horse battery" }));
        is_over.store(true, Ordering::SeqCst);
        assert_eq!((logged_in, changed.status), (vec![200; 15], 204));
    });
}

#[test]
fn an_admin_token_ends_with_the_account_of_its_owner_unless_it_is_taken_over() {
    let service = Site::empty().serve();
    let [ada, bo] = ["ada", "bo"].map(|name| Browser::with_role(&service, name, "admin"));
    let [first, second] = ["one", "two"].map(|name| {
        let made = bo.post("/admin-tokens", &json!({ "name": name, "role": "auditor" })).json();
        assert_eq!(made["owner"], "bo");
        (made["id"].as_str().expect("an id").to_owned(), made["token"].as_str().expect("a token").to_owned())
    });
    let accepted = || {
        let usage = || Request::get(&format!("{BASE}/usage"));
        [&first, &second].map(|(_, secret)| service.ask_admin(&usage().token(secret)).status)
    };
    for (role, status) in [("operator", 401), ("admin", 200)] {
        service.site.ok(&["user", "role", "bo", role]);
        assert_eq!(accepted(), [status, status], "{role}");
    }
    let disabled = service.site.run(&["user", "disable", "bo"]);
    disabled.mentions(0, format!("`contactd admin-token take-over {}` keeps it", first.0));
    assert_eq!(accepted(), [401, 401]);
    let taken = ada.post(&format!("/admin-tokens/{}/take-over", first.0), &json!({})).json();
    assert_eq!((&taken["owner"], &taken["state"]), (&json!("ada"), &json!("live")));
    assert_eq!(accepted(), [200, 401]);
    assert_eq!(ada.get("/admin-tokens").json()["adminTokens"][1]["state"], "suspended");
    service.site.ok(&["admin-token", "take-over", "two"]);
    assert_eq!(accepted(), [200, 200]);
    let lines = service.site.events(&["--operation", "admin-token take-over"]);
    let lines: Vec<_> = lines.iter().map(|line| (&line["via"], &line["what"])).collect();
    assert_eq!(lines, [(&json!("command line"), &json!(second.0)), (&json!("console"), &json!(first.0))]);
}

#[test]
fn what_two_admin_tokens_did_can_be_told_apart() {
    let service = Site::empty().serve();
    let ada = Browser::with_role(&service, "ada", "admin");
    let create = |name: &str| ada.post("/admin-tokens", &json!({ "name": name, "role": "operator" }));
    let made = ["crm-sync", "ats-sync"].map(|name| (name, create(name).json()));
    assert_eq!(create(" CRM-sync ").status, 409, "the name is taken");
    for (name, token) in &made {
        let secret = token["token"].as_str().expect("a token");
        let request = json_request("POST", "/tokens", &json!({ "name": name })).token(secret);
        assert_eq!(service.ask_admin(&request).status, 201);
    }
    for (name, token) in &made {
        let id = token["id"].as_str().expect("an id");
        let both = format!("{name} ({id})");
        for actor in [name, id, &both] {
            let lines = service.site.events(&["--actor", actor]);
            let lines: Vec<_> = lines.iter().map(|line| (&line["operation"], &line["actor"])).collect();
            assert_eq!(lines, [(&json!("token create"), &json!(both))]);
        }
    }
}

#[test]
fn the_files_of_the_console_come_with_a_strict_policy() {
    let service = Site::empty().serve();
    let page = service.ask_admin(&Request::get("/admin/"));
    assert_eq!(page.header("Content-Type"), Some("text/html; charset=utf-8"));
    assert_eq!(
        page.header("Content-Security-Policy"),
        Some(
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; \
             base-uri 'none'; frame-ancestors 'none'"
        )
    );
    assert_eq!(service.ask_admin(&Request::get("/admin/enter")).body, page.body);
    let script = service.ask_admin(&Request::get("/admin/app.js"));
    assert_eq!(script.header("Content-Type"), Some("text/javascript; charset=utf-8"));
    let first = weight_of_kept(&["/admin/", "/admin/style.css", "/admin/app.js"], |request| {
        service.ask_admin(request)
    });
    assert!(first < 40_000, "{first} bytes");
    let others = weight_of_kept(&["/admin/pages.js"], |request| service.ask_admin(request));
    assert!(others < 60_000, "{others} bytes");
    let moved = service.ask_admin(&Request::get("/admin"));
    assert_eq!((moved.status, moved.header("Location")), (308, Some("/admin/")));
    for path in
        ["/admin/pages/people.js", "/admin/index.html", "/admin/../Cargo.toml", "/admin/api/v1/nothing"]
    {
        assert_eq!(service.ask_admin(&Request::get(path)).status, 404, "{path}");
    }
    let foreign =
        service.ask_admin(&Request::get("/admin/").without("Host").header("Host", "rebind.example"));
    assert_eq!(foreign.status, 421);
}
