//! The smaller commands.

use std::os::unix::fs::PermissionsExt;

use crate::console::log_in;
use crate::demo::Demo;
use crate::fixture::{ADA, NOBODY};
use crate::service::{EMAIL, PHONE, Service, Site};
use crate::transcript::{check_with_people, transcripts};

transcripts! {
    fn lookup_asks_the_running_service_and_stats_count_what_is_held() { check_with_people("commands") }
}

#[test]
fn only_the_owner_can_read_the_data_directory() {
    let site = Site::with_people();
    let mode = |path: &str| site.data().join(path).metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("keys"), mode("keys/digest-001.key")), (0o700, 0o700, 0o600));
    assert_eq!((mode("contactd.db"), mode("details.db")), (0o600, 0o600));
    let service = site.serve();
    let socket = service.data().join("control.sock").metadata().expect("there").permissions().mode() & 0o777;
    assert_eq!(socket, 0o600);
}

#[test]
fn a_long_data_directory_works_too() {
    let site = Site::with_people();
    let long = site.path(&"long-".repeat(30));
    std::fs::rename(site.data(), &long).expect("moves");
    std::os::unix::fs::symlink(&long, site.data()).expect("links");
    let token = site.token(&[]);
    let service = site.serve_with(&["--data", long.to_str().expect("UTF-8")], "");
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    service.site.ok(&["suppress", ADA, "--data", long.to_str().expect("UTF-8")]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
}

#[test]
fn metrics_count_by_operation_and_outcome() {
    let (service, token) = Service::with_people();
    service.look_up(PHONE, &token, ADA);
    service.look_up(PHONE, &token, NOBODY);
    service.look_up(EMAIL, &token, "x");
    service.look_up(EMAIL, "nobody", ADA);
    let metrics = service.metrics();
    for line in [
        "contactd_requests_total{operation=\"phone\",outcome=\"ok\"} 1",
        "contactd_requests_total{operation=\"phone\",outcome=\"miss\"} 1",
        "contactd_requests_total{operation=\"email\",outcome=\"invalid_profile_url\"} 1",
        "contactd_requests_total{operation=\"email\",outcome=\"no_authorization_found\"} 1",
        "contactd_request_duration_seconds_count{operation=\"phone\"} 2",
        "contactd_store_profiles 5",
        "contactd_store_details{kind=\"phone\",label=\"work\"} 2",
        "contactd_tokens 1",
        "contactd_tokens_ending 0",
        "contactd_suppressions 0",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    for name in [
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "contactd_store_bytes{file=\"details.db\"}",
    ] {
        assert!(metrics.lines().any(|found| found.starts_with(name)), "{name}");
    }
}

/// In a new directory, with the console open at the end.
#[test]
fn the_commands_under_use_it_in_the_readme_work() {
    let (_, text) =
        include_str!("../../../../README.md").split_once("## Use it\n\n```sh\n").expect("a section");
    let (block, _) = text.split_once("```").expect("an end");
    let site = Site::empty();
    let people = site.file("people.csv", include_str!("../../../../fixtures/people.csv"));
    let block = block.replace("people.csv", &people);
    let mut commands: Vec<Vec<&str>> = block
        .lines()
        .map(|line| line.split(['#', '>']).next().unwrap_or_default().split_whitespace().skip(1).collect())
        .collect();
    assert_eq!(commands.pop(), Some(vec!["serve"]));
    let said: Vec<String> = commands.iter().map(|command| site.ok(command)).collect();
    let service = site.serve();
    assert_eq!(service.look_up(PHONE, &said[1], ADA).status, 200);
    assert_eq!(log_in(&service, "ada", &said[2]).status, 200);
}

#[test]
fn a_demo_can_be_started_again_in_its_directory() {
    let site = Site::embedded();
    let data = site.place("demo");
    let flags = ["--listen", "127.0.0.1:0", "--data", &data];
    let mut first = Demo::start(site, &flags);
    let found = first.run(0);
    first.stop();
    let again = Demo::start(first.site, &flags);
    assert_eq!(again.run(0), found);
    assert!(again.run(5).contains("x-contactd-sandbox: true"));
}

#[test]
fn a_demo_prints_commands_that_work() {
    let site = Site::embedded();
    // A demo does not use the real data directory, wherever that is configured.
    site.file("contactd.toml", "data = \"real\"\n");
    let mut demo = Demo::start(site, &["--listen", "127.0.0.1:0"]);
    assert_eq!(
        [demo.run(0), demo.run(1)],
        [
            r#"{"phoneNumber":"+14155550123","profileUrl":"https://linkedin.com/in/ada-quell-1a2b3c"}"#,
            r#"{"email":"mira.quellbach@example.org","profileUrl":"https://xing.com/profile/Mira_Quellbach2"}"#
        ]
    );
    assert!(demo.run(2).contains("x-invalid-reason: not_person"), "{}", demo.run(2));
    assert!(demo.commands[3].starts_with("python3 ") && demo.commands[4].starts_with("node "));
    let found = demo.run(0);
    assert_eq!([demo.run(3).trim_end(), demo.run(4).trim_end()], [found.as_str(); 2]);
    let made_up = demo.run(5);
    assert!(made_up.contains("x-contactd-sandbox: true") && made_up.contains("\"+141555501"), "{made_up}");
    for left in ["contactd-data", "real", "data"] {
        assert!(!demo.site.path(left).exists(), "a demo leaves no files");
    }
    demo.stop();
}
