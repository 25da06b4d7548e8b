//! Erasure, the access report, and retention.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::{ADA, ADA_EMAIL, ADA_PHONE, EVE, PEOPLE};
use crate::http::{Request, profile_body};
use crate::progress::{BINARY, on_a_terminal};
use crate::service::{EMAIL, PHONE, Service, SetAtEnd, Site, eventually};
use crate::transcript::{check, check_with_people, transcripts};

/// The files below a directory that contain one of these texts.
pub(crate) fn files_with(dir: &Path, texts: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_with(&path, texts));
        } else if let Ok(bytes) = std::fs::read(&path) {
            let holds = |text: &&&str| memchr::memmem::find(&bytes, text.as_bytes()).is_some();
            if let Some(text) = texts.iter().find(holds) {
                found.push(format!("{} holds {text}", path.display()));
            }
        }
    }
    found
}

/// The details of Ada in the fixtures that no other person has.
const ADAS: [&str; 7] = [
    ADA_PHONE,
    "+14155550124",
    "+14155550125",
    ADA_EMAIL,
    "ada.old@example.com",
    "ada@work.example.com",
    "ada-quell",
];

#[test]
fn erased_details_are_in_no_file_while_the_server_runs_and_do_not_come_back() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    assert_ne!(files_with(&service.data(), &ADAS), [""; 0], "they are there to begin with");
    let erased = site.run(&["erase", ADA, "--json"]);
    assert_eq!((erased.code, &erased.json()["detailsRemoved"]), (0, &6.into()), "{erased:?}");
    assert_eq!(files_with(&service.data(), &ADAS), [""; 0]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    let again = site.run(&["erase", ADA, "--json"]);
    assert_eq!((again.code, &again.json()["detailsRemoved"]), (0, &0.into()));
    site.import_people();
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 404);
    assert_eq!(files_with(&service.data(), &ADAS), [""; 0], "an import did not bring them back");
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
}

#[test]
fn one_person_among_thousands_leaves_no_trace_wherever_they_were_stored() {
    let site = Site::empty();
    let person = |n: usize| format!("https://linkedin.com/in/trace-quell-{n}z");
    let rows: String =
        (0..4_000).map(|n| format!("{},+14155550101,trace{n}x@example.com\n", person(n))).collect();
    site.import("crm", format!("profileUrl,phone,email\n{rows}"));
    // Rows that are inserted in between move the existing ones.
    for (source, step) in [("hr", 2), ("ats", 3)] {
        let rows: String = (0..4_000)
            .step_by(step)
            .map(|n| format!("{},trace{n}x.{source}@example.com\n", person(n)))
            .collect();
        site.import(source, format!("profileUrl,email\n{rows}"));
    }
    let service = site.serve();
    // Change the people before they are erased.
    for n in (0..4_000).step_by(400) {
        service.site.ok(&["put", &person(n), "--email", &format!("trace{n}y@example.com")]);
        service.site.ok(&["erase", &person(n)]);
        let (slug, one, two) =
            (format!("trace-quell-{n}z"), format!("trace{n}x"), format!("trace{n}y@example.com"));
        assert_eq!(files_with(&service.data(), &[&slug, &one, &two]), [""; 0]);
    }
}

#[test]
fn the_files_of_a_killed_backup_are_erased_too() {
    let site = Site::with_people();
    let left = site.data().join(".backup-4194999-x");
    std::fs::create_dir(&left).expect("makes");
    std::fs::copy(site.data().join("details.db"), left.join("details.db")).expect("copies");
    site.ok(&["erase", ADA]);
    assert_eq!(files_with(&site.data(), &ADAS), [""; 0]);
}

#[test]
fn the_access_report_says_what_is_held_and_who_received_it() {
    let site = Site::with_people();
    let (crm, ats) = (site.ok(&["token", "create", "crm-sync"]), site.ok(&["token", "create", "<ats> & co"]));
    let service = site.serve();
    const IDS: [&str; 3] = ["00000000000000a1", "00000000000000a2", "00000000000000a3"];
    for (id, path, token) in [(IDS[0], PHONE, &crm), (IDS[1], EMAIL, &ats), (IDS[2], PHONE, &ats)] {
        let request = Request::lookup(path, profile_body(ADA)).token(token).header("X-Request-Id", id);
        assert_eq!(service.send(&request).status, 200);
    }
    check(&service.site, "access");
}

transcripts! {
    fn a_report_by_address_does_not_deny_what_was_disclosed_while_another_profile_held_it() { check_with_people("by_address") }
    fn a_report_by_number_reveals_nothing_about_other_people_with_that_number() { check_with_people("by_number") }
    fn a_source_may_have_a_maximum_age() { check(&Site::with_people(), "max_age") }
}

#[test]
fn an_expired_detail_is_not_served_from_that_second_on_and_is_removed() {
    let site = Site::empty();
    let token = site.token(&[]);
    let service = site.serve_with(&[], "[retention]\nsweep_every = \"1h\"\n");
    let site = &service.site;
    let ends = in_seconds(6);
    site.ok(&["put", ADA, "--phone", ADA_PHONE, "--expires-at", &ends]);
    // The head of this request is sent before the expiry, and its body after it.
    let late = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
    let (head, body) = late.split_at(late.len() - 10);
    let mut connection = service.connect();
    connection.send(head);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    loop {
        let (before, status, after) =
            (in_seconds(0), service.look_up(PHONE, &token, ADA).status, in_seconds(0));
        assert!(status == 200 || after >= ends, "not before its time");
        assert!(status == 404 || before < ends, "not from that second on");
        if status == 404 {
            break;
        }
    }
    connection.send(body);
    assert_eq!(connection.reply().status, 404);
    assert!(site.ok(&["export"]).contains(ADA_PHONE), "nothing has been swept yet");

    let service = service.stop().serve_with(&[], "[retention]\nsweep_every = \"1s\"\n");
    eventually("it is no longer held", || service.site.ok(&["export"]).is_empty());
    assert_eq!(service.site.json(&["stats"])["profiles"], 0);
}

/// The time this many seconds from now, in RFC 3339 format.
pub(crate) fn in_seconds(seconds: u64) -> String {
    let date = std::process::Command::new("date")
        .args(["-u", "-d", &format!("{seconds} seconds"), "+%FT%TZ"])
        .output();
    String::from_utf8(date.expect("date is there").stdout).expect("ASCII").trim().to_owned()
}

#[test]
fn nobody_is_disclosed_after_suppress_returns_even_during_imports_and_lookups() {
    let (service, token) = Service::with_people();
    let (service, token, stop) = (&service, &token, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        // One thread imports all the time, and two threads send lookups all the time.
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                service.site.import("again", PEOPLE);
            }
        });
        for path in [PHONE, EMAIL] {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let status = service.look_up(path, token, ADA).status;
                    assert!(status == 200 || status == 404, "{status}");
                }
            });
        }
        let _stop = SetAtEnd(stop);
        for _ in 0..8 {
            service.site.ok(&["suppress", ADA]);
            for _ in 0..40 {
                assert_eq!(service.look_up(PHONE, token, ADA).status, 404);
                assert_eq!(service.look_up(EMAIL, token, ADA).status, 404);
            }
            service.site.ok(&["unsuppress", ADA]);
        }
    });
}

#[test]
fn suppressed_people_do_not_come_back_with_an_import_or_a_restore() {
    let (service, token) = Service::with_people();
    service.site.ok(&["backup", "a.backup"]);
    service.site.ok(&["erase", ADA]);
    service.site.ok(&["suppress", "--email", "Eve.Nuvel@example.org"]);
    let exported = format!(
        "{{\"profileUrl\":\"{ADA}\",\"phones\":[\"{ADA_PHONE}\"],\"emails\":[\"{ADA_EMAIL}\"]}}\n\
         {{\"profileUrl\":\"{EVE}\",\"emails\":[\"eve.nuvel@EXAMPLE.org\"]}}\n"
    );
    for round in 0..3 {
        let source = format!("again-{round}");
        service.site.import(&source, PEOPLE);
        service.site.import(&source, &exported);
        for (path, person) in [(PHONE, ADA), (EMAIL, ADA), (EMAIL, EVE)] {
            assert_eq!(service.look_up(path, &token, person).status, 404);
        }
    }
    let other = Site::empty();
    assert_eq!(other.restore(&service.site).code, 0);
    let restored = other.serve();
    for (path, person) in [(PHONE, ADA), (EMAIL, ADA), (EMAIL, EVE)] {
        assert_eq!(restored.look_up(path, &token, person).status, 404);
    }
}

#[test]
fn many_people_are_erased_after_a_question_that_leaves_the_lines_of_its_answer_alone() {
    let shared = || {
        let site = Site::empty();
        let rows: String =
            (0..11).map(|n| format!("https://linkedin.com/in/many-{n},+14155550150\n")).collect();
        site.import("crm", format!("profileUrl,phone\n{rows}"));
        site
    };
    let outcomes = |site: &Site| {
        let lines = site.run(&["audit", "show", "--operation", "erase", "--json"]).json();
        let lines = lines.as_array().expect("a list").iter().map(|line| line["outcome"].clone());
        lines.collect::<Vec<_>>()
    };
    let erase = format!("{BINARY} erase --phone +14155550150; echo code $? >&2");
    for (answer, code, flags) in [("y\n", 0, &["--yes"][..]), ("n\n", 1, &[])] {
        let (asked, told) = (shared(), shared());
        let shown = on_a_terminal(&asked, &erase, answer);
        assert!(shown.contains("  https://linkedin.com/in/many-3\r\n"), "{shown:?}");
        assert!(shown.contains("Erase these 11 profiles? [y/N] "), "{shown:?}");
        assert!(shown.ends_with(&format!("code {code}\r\n")), "{shown:?}");
        let output = told.run(&[&["erase", "--phone", "+14155550150"], flags].concat());
        assert_eq!((output.code, outcomes(&asked)), (code, outcomes(&told)), "{shown:?}");
        assert_eq!(outcomes(&asked).contains(&"failed".into()), code == 1);
        assert_eq!(asked.run(&["stats", "--json"]).json()["profiles"], if code == 0 { 0 } else { 11 });
    }
}
