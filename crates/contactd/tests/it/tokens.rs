//! Tokens, from the command line to the running service.

use crate::fixture::ADA;
use crate::http::Reply;
use crate::service::{EMAIL, PHONE, Service, Site};

fn id_of(site: &Site, name: &str) -> String {
    let list = site.run(&["token", "list", "--json"]).json();
    let token =
        list.as_array().expect("a list").iter().rfind(|token| token["name"] == name).expect("listed").clone();
    token["id"].as_str().expect("an id").to_owned()
}

/// The `error_description` of a 401.
fn described(reply: &Reply) -> &str {
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    challenge.split("error_description=\"").nth(1).and_then(|rest| rest.strip_suffix('"')).unwrap_or_default()
}

#[test]
fn a_new_token_is_alone_on_stdout_and_works_at_once() {
    let (service, _) = Service::with_people();
    let output = service.site.run(&["token", "create", "crm"]);
    let token = output.stdout.trim_end();
    assert_eq!(output.stdout, format!("{token}\n"));
    assert!(
        token.starts_with("ctd_")
            && token.len() == 42
            && token[4..].bytes().all(|b| b.is_ascii_alphanumeric())
    );
    assert!(!output.stderr.contains(token));
    assert_eq!(service.look_up(PHONE, token, ADA).status, 200);
}

#[test]
fn a_revoked_token_is_refused_when_the_command_returns() {
    let (service, _) = Service::with_people();
    for round in 0..5 {
        let name = format!("round-{round}");
        let token = service.site.ok(&["token", "create", &name]);
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
        service.site.ok(&["token", "revoke", &id_of(&service.site, &name)]);
        let refused = service.look_up(PHONE, &token, ADA);
        assert_eq!((refused.status, described(&refused)), (401, "revoked"));
    }
}

#[test]
fn a_rotated_token_overlaps_with_its_successor() {
    let (service, _) = Service::with_people();
    let site = &service.site;
    let old = site.ok(&["token", "create", "crm", "--scope", "phone", "--rate", "100/s"]);
    let new = site.ok(&["token", "rotate", &id_of(site, "crm"), "--overlap", "1h"]);
    for token in [&old, &new] {
        assert_eq!(service.look_up(PHONE, token, ADA).status, 200);
    }
    assert_eq!(service.look_up(EMAIL, &new, ADA).status, 401, "the new token has the same scope");
    let newest = site.ok(&["token", "rotate", &id_of(site, "crm"), "--overlap", "0s"]);
    assert_eq!(service.look_up(PHONE, &new, ADA).status, 401, "no overlap");
    assert_eq!(service.look_up(PHONE, &newest, ADA).status, 200);
}

#[test]
fn a_token_ends_at_its_expiry() {
    let (service, _) = Service::with_people();
    let token = service.site.token(&["--expires", "2s"]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    crate::service::eventually("it ends", || service.look_up(PHONE, &token, ADA).status == 401);
    assert_eq!(described(&service.look_up(PHONE, &token, ADA)), "expired");
}

#[test]
fn the_list_shows_everything_but_the_token() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    site.ok(&[
        "token",
        "create",
        "ats",
        "--scope",
        "email",
        "--expires",
        "never",
        "--rate",
        "50/s",
        "--burst",
        "100",
        "--quota",
        "10000/day",
    ]);
    for _ in 0..3 {
        service.look_up(PHONE, &token, ADA);
    }
    crate::service::eventually("usage is recorded", || {
        site.run(&["token", "list", "--json"]).json()[0]["hits"] == 3
    });
    let output = site.run(&["token", "list", "--json"]);
    assert!(!output.stdout.contains("ctd_"));
    let list = output.json();
    assert_eq!(list[0]["name"], "test");
    assert_eq!(list[0]["scopes"], serde_json::json!(["phone", "email"]));
    assert!(list[0]["lastUsedAt"].as_str().is_some_and(|at| at.ends_with('Z')));
    assert!(list[0]["expiresAt"].is_string() && list[0]["createdAt"].is_string());
    assert_eq!(list[1]["expiresAt"], serde_json::Value::Null);
    assert_eq!(
        (&list[1]["rate"], &list[1]["burst"], &list[1]["quota"]),
        (&"50/s".into(), &100.into(), &"10000/day".into())
    );
    let table = site.ok(&["token", "list"]);
    assert!(table.starts_with("ID ") && !table.contains("ctd_"), "{table}");
}

#[test]
fn a_token_that_ends_soon_is_pointed_out() {
    let site = Site::with_people();
    site.token(&["--expires", "13d"]);
    assert!(site.run(&["token", "list"]).stderr.contains("1 of them ends within 14 days"));
    assert!(site.run(&["doctor"]).stdout.contains("end within 14 days"));
    let service = site.serve();
    assert!(service.metrics().contains("\ncontactd_tokens_ending 1\n"));
}

#[test]
fn errors_say_what_to_do() {
    let site = Site::empty();
    site.token(&[]);
    for (args, code, hint) in [
        (&["token", "revoke", "tok_nobody"][..], 1, "contactd token list"),
        (&["token", "rotate", "tok_nobody"], 1, "contactd token list"),
        (&["token", "create", " "], 2, "printable"),
        (&["token", "create", "a\u{202e}b"], 2, "printable"),
        (&["token", "create", "x", "--expires", "soon"], 2, "90d"),
        (&["token", "create", "x", "--expires", "0s"], 1, "expired already"),
        (&["admin-token", "create", "x", "--role", "admin", "--expires", "0s"], 1, "expired already"),
        (&["admin-token", "create", "a\u{200f}b", "--role", "admin"], 1, "printable"),
        (&["token", "create", "x", "--rate", "fast"], 2, "50/s"),
        (&["token", "create", "x", "--quota", "10/week"], 2, "10000/day"),
        (&["token", "create", "x", "--scope", "fax"], 2, "phone or email"),
        (&["token", "create"], 2, "NAME"),
    ] {
        let output = site.run(args);
        assert_eq!(output.code, code, "{args:?}: {output:?}");
        assert!(output.stderr.contains(hint), "{args:?}: {}", output.stderr);
        assert_eq!(output.stdout, "");
    }
}

#[test]
fn a_new_token_is_printed_before_a_server_that_hangs_is_waited_for() {
    let (service, _) = Service::with_people();
    service.pause();
    let mut command = service.site.command();
    command.args(["token", "create", "late"]).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().expect("starts");
    let mut token = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut token).expect("reads");
    assert!(token.starts_with("ctd_"), "{token}");
    assert!(child.try_wait().expect("asks").is_none(), "it still waits for the server");
    service.signal(rustix::process::Signal::CONT);
    assert!(child.wait().expect("ends").success());
}
