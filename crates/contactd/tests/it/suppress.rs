//! Opting out, and staying opted out.

use crate::fixture::{ADA, ADA_EMAIL, ADA_PHONE, EVE, EVE_EMAIL, NOBODY, PEOPLE};
use crate::service::{EMAIL, PHONE, Service, Site, eventually};

#[test]
fn a_person_is_opted_out_when_the_command_returns_and_stays_so_after_an_import() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    site.ok(&["suppress", "https://linkedin.com/in/ADA-quell-1a2b3c/"]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 404);
    let report = site.ok_with_input(&["import", "-", "--source", "crm", "--json"], PEOPLE);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["suppressed"], 6, "{report}");
    site.ok_with_input(&["import", "-", "--source", "another"], PEOPLE);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    let put = site.run(&["put", ADA, "--phone", "+14155550199"]);
    assert_eq!(put.code, 1);
    assert!(put.stderr.contains("opted out"), "{}", put.stderr);
    site.ok(&["unsuppress", ADA]);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
}

#[test]
fn a_number_or_an_address_is_not_served_under_any_profile() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    site.ok(&["put", EVE, "--phone", ADA_PHONE]);
    assert_eq!(service.look_up(PHONE, &token, EVE).json()["phoneNumber"], ADA_PHONE);
    site.ok(&["suppress", "--phone", "+1 (415) 555-0123", "--email", "ADA@EXAMPLE.COM"]);
    assert_eq!(service.look_up(PHONE, &token, EVE).status, 404);
    // Her other number and address are not suppressed.
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], "+14155550124");
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], "ada.old@example.com");
    site.ok(&["unsuppress", "--phone", ADA_PHONE, "--email", ADA_EMAIL]);
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], ADA_EMAIL);
}

#[test]
fn an_empty_list_is_an_error_and_leaves_no_line() {
    let site = Site::with_people();
    let empty = site.file("empty.txt", "# nobody\n");
    for command in ["suppress", "unsuppress"] {
        let refused = site.run(&[command, "--list", &empty]);
        assert_eq!(
            (refused.code, &*refused.stderr),
            (1, "contactd: the list is empty; nothing was changed\n")
        );
    }
    let refused = site.run(&["suppress", "--email", "nonsense", "--ticket", "DSR-9"]);
    assert!(refused.code == 1 && refused.stderr.ends_with("contactd: nothing was changed\n"), "{refused:?}");
    assert!(!site.ok(&["audit", "show", "--json"]).contains("DSR-9"));
}

#[test]
fn a_list_accepts_all_three_kinds_and_reports_invalid_lines() {
    let (service, token) = Service::with_people();
    let list = service.site.file(
        "opt-outs.txt",
        format!("# opt-outs\n{ADA}\r\n\n+44 20 7946 0123\neve.nuvel@EXAMPLE.org\nnonsense\n"),
    );
    let output = service.site.run(&["suppress", "--list", &list, "--json"]);
    assert_eq!(output.code, 1, "a line could not be read");
    let report = output.json();
    assert_eq!((&report["read"], &report["changed"]), (&4.into(), &3.into()));
    assert_eq!(report["rejected"][0]["line"], 6);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 404);
    assert_eq!(service.look_up(PHONE, &token, crate::fixture::MIRA).status, 404);
    let again = service.site.run(&["suppress", ADA]);
    assert_eq!(again.code, 0, "suppressing twice is not an error");
}

#[test]
fn suppressing_an_unknown_person_works_and_reveals_nothing() {
    let (service, token) = Service::with_people();
    service.site.ok(&["suppress", NOBODY]);
    assert_eq!(service.look_up(PHONE, &token, NOBODY).status, 404);
    let stored = std::fs::read(service.data().join("contactd.db")).expect("reads");
    let wal = std::fs::read(service.data().join("contactd.db-wal")).unwrap_or_default();
    let text = String::from_utf8_lossy(&[stored, wal].concat()).into_owned();
    assert!(!text.contains("nobody-dornwett"), "the list reveals who is on it");
}

#[test]
fn a_missing_subject_is_an_error() {
    let (service, _) = Service::with_people();
    let output = service.site.run(&["suppress"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("--phone <PHONE>"), "{}", output.stderr);
}

#[test]
fn without_the_keys_the_store_is_not_opened() {
    let (service, _) = Service::with_people();
    let site = service.stop();
    std::fs::remove_dir_all(site.data().join("keys")).expect("removes");
    let output = site.run(&["stats"]);
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("keys of this store are missing"), "{}", output.stderr);
    let keys = site.data().join("keys");
    assert_eq!(std::fs::read_dir(&keys).expect("there").count(), 0, "no new key was created");
    std::fs::write(keys.join("digest-001.key"), "ab".repeat(32)).expect("writes");
    let output = site.run(&["stats"]);
    assert!(output.stderr.contains("do not belong to this store"), "{}", output.stderr);
}

#[test]
fn nothing_is_confirmed_if_the_server_cannot_be_reached() {
    let (service, token) = Service::with_people();
    std::fs::remove_file(service.data().join("control.sock")).expect("removes");
    for command in [["suppress", ADA].as_slice(), &["erase", EVE]] {
        let told = service.site.run(command);
        assert!(told.code == 1 && told.stderr.contains("committed, not confirmed"), "{told:?}");
    }
    eventually("the change is applied anyway", || service.look_up(PHONE, &token, ADA).status == 404);
}

#[test]
fn a_list_accepts_every_address_and_number_that_an_import_accepts() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    site.ok(&["put", ADA, "--email", "#x@example.com"]);
    site.ok(&["put", EVE, "--email", "a/b@example.com", "--phone", "+14155550166"]);
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], "#x@example.com");
    let list = site
        .file("out", "# who wrote to us\n#x@example.com\na/b@example.com\n+1 415\u{2011}555\u{2011}0166\n");
    let told = site.run(&["suppress", "--list", &list, "--json"]).json();
    assert_eq!((&told["read"], &told["changed"]), (&3.into(), &3.into()), "{told}");
    assert_eq!(service.look_up(EMAIL, &token, ADA).json()["email"], ADA_EMAIL, "the next best address");
    assert_eq!(service.look_up(EMAIL, &token, EVE).json()["email"], EVE_EMAIL, "the next best address");
    assert_eq!(service.look_up(PHONE, &token, EVE).status, 404, "she has no other");
}

#[test]
fn a_store_that_has_lost_its_opt_outs_is_not_opened() {
    let site = Site::with_people();
    site.ok(&["suppress", ADA]);
    let lost = site.data().join("contactd.db");
    for is_there in [false, true] {
        std::fs::remove_file(&lost).expect("removes");
        if is_there {
            // As a copy leaves it when the disk is full.
            std::fs::write(&lost, "").expect("writes");
        }
        opens_nothing(&site);
        std::fs::write(&lost, "").expect("writes");
    }
}

fn opens_nothing(site: &Site) {
    for command in [["stats"].as_slice(), &["serve", "--listen", "127.0.0.1:0"], &["token", "create", "crm"]]
    {
        let refused = site.run(command);
        assert!(
            refused.code == 1 && refused.stderr.contains("contactd.db, which holds tokens and opt-outs"),
            "{refused:?}"
        );
    }
    let doctor = site.run(&["doctor"]);
    assert!(
        doctor.code == 1 && doctor.stdout.contains("FAIL  store") && doctor.stdout.contains("server"),
        "{doctor:?}"
    );
}
