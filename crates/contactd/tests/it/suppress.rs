//! Opting out, and staying opted out.

use crate::fixture::{ADA, EVE, NOBODY};
use crate::service::{PHONE, Service, Site, eventually};
use crate::transcript::{check_with_people, transcripts};

transcripts! {
    fn a_person_is_opted_out_when_the_command_returns_and_stays_so_after_an_import() { check_with_people("opted_out") }
    fn a_number_or_an_address_is_not_served_under_any_profile() { check_with_people("value_opted_out") }
    fn a_list_accepts_what_an_import_accepts_and_invalid_lines_are_named() { check_with_people("suppress") }
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
fn without_the_keys_the_store_is_not_opened() {
    let (service, _) = Service::with_people();
    let site = service.stop();
    std::fs::remove_dir_all(site.data().join("keys")).expect("removes");
    site.run(&["stats"]).mentions(1, "keys of this store are missing");
    let keys = site.data().join("keys");
    assert_eq!(std::fs::read_dir(&keys).expect("there").count(), 0, "no new key was created");
    std::fs::write(keys.join("digest-001.key"), "ab".repeat(32)).expect("writes");
    site.run(&["stats"]).mentions(1, "do not belong to this store");
}

#[test]
fn nothing_is_confirmed_if_the_server_cannot_be_reached() {
    let (service, token) = Service::with_people();
    std::fs::remove_file(service.data().join("control.sock")).expect("removes");
    for command in [["suppress", ADA].as_slice(), &["erase", EVE]] {
        service.site.run(command).mentions(1, "committed, not confirmed");
    }
    eventually("the change is applied anyway", || service.look_up(PHONE, &token, ADA).status == 404);
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
        site.run(command).mentions(1, "contactd.db, which holds tokens and opt-outs");
    }
    site.run(&["doctor"]).mentions(1, "FAIL  store").mentions(1, "server");
}

#[test]
fn a_list_may_be_a_csv_with_a_header_in_any_language_and_encoding_or_a_workbook() {
    let site = Site::with_people();
    let csv = format!(
        "Nr;Käufer;LinkedIn-Profil;E-Mail privat;Handy\r\n1;a;{ADA};;\r\n2;ö;;eve@example.net;+14155550166\r\n3;c;;;\r\n4;d;;no address;\r\n"
    );
    let windows_1252: Vec<u8> = csv.chars().map(|c| u8::try_from(u32::from(c)).expect("Latin-1")).collect();
    site.file("objections.csv", windows_1252);
    let done = site.run(&["suppress", "--list", "objections.csv", "--json"]);
    let report = done.json();
    assert_eq!((done.code, &report["changed"]), (1, &3.into()), "{done:?}");
    let lines: Vec<&serde_json::Value> =
        report["rejected"].as_array().expect("a list").iter().map(|rejected| &rejected["line"]).collect();
    assert_eq!(lines, [4, 5], "{done:?}");
    done.mentions(1, "read from objections.csv: LinkedIn-Profil, E-Mail privat, Handy\n");

    let workbook = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy/68-three-phones.xlsx");
    let done = site.run(&["suppress", "--list", workbook, "--json"]);
    assert_eq!((done.code, &done.json()["read"]), (0, &6.into()), "{done:?}");
    site.run(&["suppress", "--list", "/dev/null"]).mentions(1, "the list is empty");
    let encrypted = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy/60-macros.xlsx");
    site.run(&["suppress", "--list", encrypted]).mentions(1, "save it as .xlsx without macros");
}

#[test]
fn a_list_of_which_a_part_is_not_read_or_nothing_is_understood_says_so() {
    let site = Site::with_people();
    let fixture = |name: &str| format!("{}/../../fixtures/messy/{name}", env!("CARGO_MANIFEST_DIR"));
    let two = fixture("50-two-sheets.xlsx");
    site.run(&["suppress", "--list", &two, "--sheet", "Kontakte 2026"]).mentions(0, "not read: the sheet ");
    let none = site.run(&["suppress", "--list", &two]);
    none.mentions(
        1,
        "no line names anybody, and no column is called profileUrl, phone or email; the columns are ",
    );
    none.mentions(1, "; this is the sheet ");
    site.run(&["suppress", "--list", &two, "--sheet", "nowhere"]).mentions(1, "its sheets are ");
    site.file("other.csv", "Kunde;Adresse\nAda Quell;Nordweg 1\n");
    site.run(&["suppress", "--list", "other.csv"])
        .mentions(1, "the columns are Kunde, Adresse; name one of them so");
    site.file("page.txt", "<html><body>ada@example.com</body></html>\n");
    site.run(&["suppress", "--list", "page.txt"]).mentions(1, "the file is a web page (HTML)");
    // What is in a list is in no message, and one good line is done whatever the others are.
    site.file("data.csv", "ada@example.net;x\nbo@example.net;x\n");
    let data = site.run(&["suppress", "--list", "data.csv"]);
    data.mentions(1, "not done, line 1");
    assert!(!data.stderr.contains("example.net"), "{data:?}");
    site.file("mixed.csv", "Kunde, Adresse\nada@example.com\n");
    site.run(&["suppress", "--list", "mixed.csv"]).mentions(1, "1 suppressed");
}
