//! The script in `docs/privacy.md`, run as it stands there.

use std::process::{Command, Stdio};

use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE};
use crate::service::{EMAIL, Output, PHONE, Service};

const PAGE: &str = include_str!("../../../../docs/privacy.md");

/// The script below the heading.
fn script() -> &'static str {
    let (_, rest) = PAGE.split_once("## Five tasks, from beginning to end").expect("the section");
    let (_, rest) = rest.split_once("```sh\n").expect("a script");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_five_tasks_of_a_privacy_officer_work_as_the_page_says() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 200);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_contactd"));
    let tasks: Vec<&str> = script().split("\n\n").collect();
    assert_eq!(tasks.len(), 5);
    let run = |task: &str| {
        let mut shell = Command::new("bash");
        site.prepare(&mut shell);
        shell.args(["-euc", task]).stdin(Stdio::null());
        shell.env("PATH", format!("{}:/usr/bin:/bin", binary.parent().expect("a directory").display()));
        let output = Output::from(shell.output().expect("bash"));
        assert_eq!(output.code, 0, "{task}: {output:?}");
        (output.stdout, site.as_embedded(output.stderr))
    };
    let used = site.used();

    let (_, said) = run(tasks[0]);
    assert_eq!(
        said,
        format!(
            "2 suppressed, 0 already suppressed {used}\n1 profile with it on file:\n  {ADA_CANONICAL}: nothing is disclosed\n"
        )
    );
    assert_eq!(
        (service.look_up(PHONE, &token, ADA).status, service.look_up(EMAIL, &token, ADA).status),
        (404, 404)
    );

    run(tasks[1]);
    let page = std::fs::read_to_string(site.path("report.html")).expect("a page");
    assert!(page.contains(ADA_PHONE) && page.contains(ADA_EMAIL), "{page}");

    let (_, said) = run(tasks[2]);
    let six = format!("  {ADA_CANONICAL}: 6 details\n");
    assert_eq!(
        said,
        format!(
            "dry run, nothing was changed: 6 details of 1 profile would be removed\n{six}6 details removed from every file; the \
             person is suppressed {used}\nearlier backups, exports, rejects files and outputs of `enrich` may still contain \
             them\n{six}{ADA_EMAIL} is opted out itself too, under any profile\n"
        )
    );
    assert_eq!(crate::erase::files_with(&site.data(), &[ADA_PHONE, ADA_EMAIL]), [""; 0]);

    let (listed, _) = run(tasks[3]);
    let row: Vec<&str> = listed.lines().nth(1).expect("a row").split_whitespace().collect();
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert_eq!(row[1..4], ["test", "1", "1"], "name, requests, hits: {listed}");

    let (verified, _) = run(tasks[4]);
    assert!(verified.contains("whole: ") && verified.contains("(given with --root)"), "{verified}");
    let shown = site.events(&[]);
    for ticket in ["DSR-101", "DSR-102", "DSR-103"] {
        assert!(shown.iter().any(|event| event["ticket"] == ticket), "{ticket}");
    }
}
