//! Tokens, from the command line to the running service.

use crate::fixture::ADA;
use crate::http::Reply;
use crate::service::{PHONE, Service, Site, eventually};
use crate::transcript::{check, check_with_people, transcripts};

fn id_of(site: &Site, name: &str) -> String {
    let list = site.list(&["token", "list"]);
    let token = list.iter().rfind(|token| token["name"] == name).expect("listed");
    token["id"].as_str().expect("an id").to_owned()
}

/// The `error_description` of a 401.
fn described(reply: &Reply) -> &str {
    let challenge = reply.header("www-authenticate").unwrap_or_default();
    challenge.split("error_description=\"").nth(1).and_then(|rest| rest.strip_suffix('"')).unwrap_or_default()
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

transcripts! {
    fn nobody_hides_lookups_in_a_report_behind_the_name_of_another_token() { check_with_people("same_name") }
}

#[test]
fn the_list_shows_everything_but_the_token() {
    let site = Site::with_people();
    check(&site, "tokens");
    let service = site.serve();
    assert!(service.metrics().contains("\ncontactd_tokens_ending 1\n"));
    let token = service.site.token(&[]);
    for _ in 0..3 {
        service.look_up(PHONE, &token, ADA);
    }
    eventually("usage is recorded", || {
        let used = service.site.list(&["token", "list"]).pop().expect("a token");
        used["hits"] == 3 && used["lastUsedAt"].as_str().is_some_and(|at| at.ends_with('Z'))
    });
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
