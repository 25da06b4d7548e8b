//! Changing tokens: updates, names, and the quota that rotated tokens share.

use contactd_core::Timestamp;
use serde_json::Value;

use crate::fixture::ADA;
use crate::service::{EMAIL, Output, PHONE, Service, Site, eventually};

fn listed(site: &Site) -> Vec<Value> {
    site.run(&["token", "list", "--json"]).json().as_array().expect("a list").clone()
}

/// What commands change of the tokens. A running server adds the use of each a moment after a lookup.
fn listed_without_use(site: &Site) -> Vec<Value> {
    let mut tokens = listed(site);
    for token in &mut tokens {
        let fields = token.as_object_mut().expect("an object");
        let used = [fields.remove("hits"), fields.remove("lastUsedAt")];
        assert!(used.iter().all(Option::is_some), "{fields:?}");
    }
    tokens
}

/// Creates a token; returns it and its id.
fn create(site: &Site, name: &str, flags: &[&str]) -> (String, String) {
    issued(&site.run(&[&["token", "create", name, "--json"], flags].concat()))
}

fn rotate(site: &Site, which: &str, overlap: &str) -> (String, String) {
    issued(&site.run(&["token", "rotate", which, "--overlap", overlap, "--json"]))
}

fn issued(output: &Output) -> (String, String) {
    assert_eq!(output.code, 0, "{output:?}");
    let text = |name: &str| output.json()[name].as_str().expect("text").to_owned();
    (text("token"), text("id"))
}

/// Runs a command that must fail with this message, and change no token.
fn refused(site: &Site, args: &[&str], code: i32, message: &str) {
    let before = listed_without_use(site);
    let output = site.run(args);
    let expected = (code, "", format!("contactd: {message}\n"));
    assert_eq!((output.code, output.stdout.as_str(), output.stderr), expected, "{args:?}");
    assert_eq!(listed_without_use(site), before, "{args:?}");
}

#[test]
fn an_update_says_what_it_changed_and_is_in_force_when_it_returns() {
    let service = Site::with_people().serve();
    let site = &service.site;
    let (token, id) = create(site, "crm", &["--expires", "never"]);
    let status = |path: &str| service.look_up(path, &token, ADA).status;
    let update = |flags: &[&str], expected: &str| {
        let output = site.run(&[&["token", "update", "crm"], flags].concat());
        let expected = format!("{id} for crm: {expected} {}\n", site.used());
        assert_eq!((output.code, output.stdout, output.stderr), (0, String::new(), expected), "{flags:?}");
    };
    assert_eq!(status(EMAIL), 200);
    update(&["--scope", "phone"], "scope phone+email -> phone");
    assert_eq!((status(EMAIL), status(PHONE)), (401, 200));
    update(&["--scope", "email", "--rate", "1/h"], "scope phone -> email, rate none -> 1/h");
    assert_eq!((status(PHONE), status(EMAIL)), (401, 200));
    assert_eq!(status(EMAIL), 429);
    update(
        &["--scope", "phone", "--scope", "email", "--burst", "50"],
        "scope email -> phone+email, rate 1/h -> 1/h with burst 50",
    );
    assert_eq!((status(PHONE), status(EMAIL)), (200, 200));
    update(&["--rate", "none"], "rate 1/h with burst 50 -> none");
    update(&["--rate", "none"], "nothing changed");
    // Five hits so far count towards a new quota.
    update(&["--quota", "6/month"], "quota none -> 6/month");
    assert_eq!((status(PHONE), status(PHONE)), (200, 429));
    update(&["--quota", "7/day"], "quota 6/month -> 7/day");
    assert_eq!((status(PHONE), status(PHONE)), (200, 429));
    update(&["--quota", "none"], "quota 7/day -> none");
    assert_eq!(status(PHONE), 200);

    let updated = site.run(&["token", "update", &id, "--expires", "30d", "--json"]);
    let shown = updated.json();
    assert_eq!(shown["token"], Value::Null, "the token itself is not known any more");
    let end = shown["expiresAt"].as_str().expect("a time").to_owned();
    assert_eq!(updated.stderr, format!("{id} for crm: expires never -> {end} {}\n", site.used()));
    assert_eq!(status(PHONE), 200);
    site.ok(&["token", "update", &id, "--expires", "0s"]);
    assert_eq!(status(PHONE), 401, "a shortened token ends at once");
    let message = format!("{id} has ended; `contactd token create` makes a new one");
    refused(site, &["token", "update", "crm", "--expires", "30d"], 1, &message);
    refused(site, &["token", "rotate", "crm"], 1, &message);
}

#[test]
fn an_update_that_makes_no_sense_is_refused_with_what_to_do() {
    let site = Site::empty();
    let (_, id) = create(&site, "crm", &[]);
    let burst = format!("nothing was changed: {id} has no rate of its own, so a burst needs --rate too");
    refused(&site, &["token", "update", "crm", "--burst", "5"], 1, &burst);
    refused(&site, &["token", "update", "crm", "--burst", "5", "--rate", "none"], 1, &burst);
    let unknown = "there is no token with the id or name ats; `contactd token list` shows them";
    for args in [
        &["token", "update", "ats", "--scope", "phone"][..],
        &["token", "revoke", "ats"],
        &["token", "rotate", "ats"],
    ] {
        refused(&site, args, 1, unknown);
    }
    for (args, hint) in [
        (&["token", "update", "crm"][..], "--scope <SCOPE>"),
        (&["token", "update", "crm", "--rate", "fast"], "write a rate like 50/s, 600/m or 1000/h, or none"),
        (&["token", "update", "crm", "--quota", "1/week"], "200000/month, or none"),
        (&["token", "update", "crm", "--expires", "soon"], "or never"),
        (&["token", "update", "crm", "--scope", "fax"], "phone or email"),
    ] {
        let output = site.run(args);
        assert!(output.code == 2 && output.stderr.contains(hint), "{args:?}: {output:?}");
    }
}

#[test]
fn a_name_that_is_not_unique_lists_its_ids_and_changes_nothing() {
    let service = Site::with_people().serve();
    let site = &service.site;
    let ((first_token, first), (second_token, second)) = (create(site, "crm", &[]), create(site, "crm", &[]));
    let message = format!(
        "nothing was changed: 2 live tokens have the name crm: {first}, {second}; give the id of the one you mean"
    );
    for args in [
        &["token", "revoke", "crm"][..],
        &["token", "rotate", "crm"],
        &["token", "update", "crm", "--scope", "phone"],
    ] {
        refused(site, args, 1, &message);
    }
    let revoke = |which: &str, id: &str| {
        let output = site.run(&["token", "revoke", which]);
        assert_eq!((output.code, output.stderr), (0, format!("{id} for crm is revoked {}\n", site.used())));
    };
    revoke(&first, &first);
    assert_eq!(service.look_up(PHONE, &first_token, ADA).status, 401);
    assert_eq!(service.look_up(PHONE, &second_token, ADA).status, 200);
    // Only one of that name is live now.
    revoke("crm", &second);
    assert_eq!(service.look_up(PHONE, &second_token, ADA).status, 401);
    let ended = "all tokens with the name crm have ended; `contactd token list` shows them";
    refused(site, &["token", "revoke", "crm"], 1, ended);
    // Revoking the only token of a name again changes nothing.
    let (_, only) = create(site, "ats", &[]);
    for _ in 0..2 {
        let output = site.run(&["token", "revoke", "ats"]);
        assert_eq!((output.code, output.stderr), (0, format!("{only} for ats is revoked {}\n", site.used())));
    }
}

#[test]
fn a_second_token_of_a_name_is_created_with_a_warning() {
    let site = Site::empty();
    let create =
        |flags: &[&str]| site.run(&[&["token", "create", "crm", "--expires", "never"], flags].concat());
    let said = |id: &str, warning: &str| {
        format!("{id} for crm, with no expiry; the token is shown only once {}\n{warning}", site.used())
    };
    let rest = "the name crm too; commands then need the id, and reports by name mix them\n";
    let id_at = |at: usize| listed(&site)[at]["id"].as_str().expect("an id").to_owned();
    assert_eq!(create(&[]).stderr, said(&id_at(0), ""));
    let second = create(&[]);
    assert_eq!(second.stderr, said(&id_at(1), &format!("contactd: {} has {rest}", id_at(0))));
    assert_eq!((second.code, second.stdout.len(), &second.stdout[..4]), (0, 43, "ctd_"));
    let third = create(&["--json"]);
    assert_eq!(third.stderr, said(&id_at(2), &format!("contactd: {}, {} have {rest}", id_at(0), id_at(1))));
    assert_eq!(third.json()["id"], id_at(2).as_str());
    for at in 0..3 {
        site.ok(&["token", "revoke", &id_at(at)]);
    }
    assert_eq!(create(&[]).stderr, said(&id_at(3), ""), "what is revoked is not confused with it");
}

#[test]
fn rotated_tokens_share_one_quota_in_a_running_server_and_after_a_restart() {
    let service = Site::with_people().serve();
    let (first, first_id) = create(&service.site, "crm", &["--quota", "7/day", "--expires", "never"]);
    let find = |service: &Service, token: &str, left: u32| {
        let reply = service.look_up(PHONE, token, ADA);
        let limit = reply.header("ratelimit").expect("a limit").to_owned();
        assert!(limit.starts_with(&format!("\"quota\";r={left};t=")), "{limit}");
        assert_eq!(reply.status, 200);
    };
    find(&service, &first, 6);
    find(&service, &first, 5);
    let output = service.site.run(&["token", "rotate", "crm", "--overlap", "1h", "--json"]);
    let (second, second_id) = issued(&output);
    let end = listed(&service.site)[0]["expiresAt"].as_str().expect("a time").to_owned();
    let expected = format!(
        "{second_id} for crm, with no expiry; the token is shown only once {}\n\
         {first_id} stays valid until {end}; both share one quota\n",
        service.site.used()
    );
    assert_eq!(output.stderr, expected);
    find(&service, &second, 4);
    find(&service, &first, 3);
    let service = service.stop().serve();
    find(&service, &second, 2);
    let (third, third_id) = rotate(&service.site, &second_id, "1h");
    find(&service, &third, 1);
    find(&service, &first, 0);
    let refuse = |service: &Service| {
        for token in [&first, &second, &third] {
            let reply = service.look_up(PHONE, token, ADA);
            assert_eq!((reply.status, reply.code().as_str()), (429, "quota_exceeded"));
        }
    };
    refuse(&service);
    let chain: Vec<Value> = listed(&service.site).iter().map(|token| token["rotatedFrom"].clone()).collect();
    assert_eq!(chain, [Value::Null, first_id.as_str().into(), second_id.as_str().into()]);
    let service = service.stop().serve();
    refuse(&service);

    let output = service.site.run(&["token", "update", &second_id, "--quota", "8/day"]);
    let expected = format!(
        "{second_id} for crm: quota 7/day -> 8/day {}\n\
         the quota is now also that of {first_id}, {third_id}, because rotated tokens share one\n",
        service.site.used()
    );
    assert_eq!((output.code, output.stderr), (0, expected));
    find(&service, &first, 0);
    refuse(&service);
}

#[test]
fn when_the_old_token_ends_the_new_one_goes_on_with_what_is_used() {
    let service = Site::with_people().serve();
    let (first, first_id) = create(&service.site, "crm", &["--quota", "4/month"]);
    for _ in 0..2 {
        assert_eq!(service.look_up(PHONE, &first, ADA).status, 200);
    }
    let output =
        service.site.run(&["token", "rotate", "crm", "--overlap", "0s", "--expires", "never", "--json"]);
    let (second, second_id) = issued(&output);
    let expected = format!(
        "{second_id} for crm, with no expiry; the token is shown only once {}\n{first_id} has ended\n",
        service.site.used()
    );
    assert_eq!(output.stderr, expected);
    assert_eq!(service.look_up(PHONE, &first, ADA).status, 401);
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 200);
    eventually("usage is written down", || {
        let hits: Vec<u64> =
            listed(&service.site).iter().filter_map(|token| token["hits"].as_u64()).collect();
        hits == [2, 1]
    });
    let service = service.kill().serve();
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 200);
    assert_eq!(service.look_up(PHONE, &second, ADA).status, 429);
    let (third, _) = rotate(&service.site, "crm", "0s");
    assert_eq!(service.look_up(PHONE, &third, ADA).status, 429, "a rotation gives nothing back");
}

#[test]
fn a_quota_is_used_exactly_once_while_tokens_are_rotated_under_load() {
    const QUOTA: usize = 1_500;
    let service = Site::with_people().serve();
    let (first, _) = create(&service.site, "crm", &["--quota", &format!("{QUOTA}/month")]);
    let hits =
        |token: String| (0..).take_while(|_| service.look_up(PHONE, &token, ADA).status == 200).count();
    let total: usize = std::thread::scope(|scope| {
        let hits = &hits;
        let mut using = vec![scope.spawn(move || hits(first))];
        for _ in 0..3 {
            let newest =
                listed(&service.site).pop().expect("a token")["id"].as_str().expect("an id").to_owned();
            let (token, _) = rotate(&service.site, &newest, "1h");
            using.push(scope.spawn(move || hits(token)));
        }
        using.into_iter().map(|thread| thread.join().expect("ends")).sum()
    });
    assert_eq!(total, QUOTA);
}

#[test]
fn a_rotation_takes_the_lifetime_that_was_asked_for_not_a_shortened_end() {
    let site = Site::empty();
    let (_, first) = create(&site, "crm", &["--expires", "90d"]);
    let days = |at: usize| {
        let token = listed(&site).swap_remove(at);
        let time = |name: &str| Timestamp::parse(token[name].as_str().expect("a time")).expect("RFC 3339");
        (time("expiresAt").millis() - time("createdAt").millis()) / 86_400_000
    };
    rotate(&site, &first, "1h");
    rotate(&site, &first, "1h");
    assert_eq!((days(0), days(1), days(2)), (0, 90, 90));
    site.ok(&["token", "update", &first, "--expires", "30d"]);
    rotate(&site, &first, "1h");
    assert_eq!(days(3), 30, "an update asks for another lifetime");
}

#[test]
fn a_restore_does_not_revive_what_ended_or_was_restricted_after_the_backup() {
    let site = Site::with_people();
    let (rotated, _) = create(&site, "crm", &[]);
    let (narrowed, _) = create(&site, "ats", &[]);
    let (shortened, _) = create(&site, "hr", &["--expires", "never"]);
    site.ok(&["backup", "a.backup"]);
    let (new, _) = rotate(&site, "crm", "0s");
    site.ok(&["token", "update", "ats", "--scope", "phone"]);
    site.ok(&["token", "update", "hr", "--expires", "30d"]);
    let (backup, old) = (site.path("a.backup"), site.data());
    let other = Site::empty();
    let from = ["--suppressions-from", old.to_str().expect("UTF-8")];
    let restored = other.run(&[&["restore", backup.to_str().expect("UTF-8")][..], &from].concat());
    let words: Vec<&str> = restored
        .stderr
        .lines()
        .filter(|line| line.ends_with("since then were kept") || line.contains("kept the earlier"))
        .collect();
    assert_eq!(
        words,
        [
            "0 opt-outs and 1 revocation of tokens made since then were kept",
            "2 tokens kept the earlier end or the fewer scopes that were set since then"
        ],
        "{restored:?}"
    );
    let end = |site: &Site| listed(site)[2]["expiresAt"].clone();
    assert_eq!(end(&other), end(&site));
    let service = other.serve();
    assert_eq!(service.look_up(PHONE, &rotated, ADA).status, 401);
    assert_eq!(service.look_up(PHONE, &new, ADA).status, 401, "a token that the backup does not know");
    assert_eq!(service.look_up(PHONE, &narrowed, ADA).status, 200);
    assert_eq!(service.look_up(EMAIL, &narrowed, ADA).status, 401);
    assert_eq!(service.look_up(EMAIL, &shortened, ADA).status, 200);
}
