//! Changing tokens: updates, names, and the quota that rotated tokens share.

use contactd_core::Timestamp;
use serde_json::Value;

use crate::fixture::ADA;
use crate::service::{EMAIL, Output, PHONE, Service, Site, eventually};
use crate::transcript::{check_with_people, transcripts};

fn listed(site: &Site) -> Vec<Value> {
    site.list(&["token", "list"])
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

transcripts! {
    fn an_update_says_what_it_changed_and_is_in_force_when_it_returns() { check_with_people("token_update") }
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
    let other = Site::empty();
    let restored = other.restore(&site);
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
