//! Checks and imports are on record with everybody they are about, before anything is said of what is on file.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::admin_api::AdminApi;
use crate::audit::{Faulty, until_signed};
use crate::cluster::{machine, nodes};
use crate::console_imports::upload;
use crate::fixture::{ADA, ADA_PHONE, EVE, NOBODY, many};
use crate::service::{Service, Site, assert_has, eventually};

/// The operations of the lines in the journal that name a person, newest first.
fn about(site: &Site, url: &str) -> Vec<Value> {
    let lines = site.events(&["--profile", url]);
    lines.into_iter().map(|line| line["operation"].clone()).collect()
}

/// The list files of a journal.
fn lists(site: &Site) -> Vec<PathBuf> {
    let files = std::fs::read_dir(site.data().join("audit/lists")).into_iter().flatten();
    files.map(|file| file.expect("a file").path()).collect()
}

fn check(api: &AdminApi<'_>, rows: &str) -> Value {
    let file = upload(api, "guess.csv", format!("profileUrl,phone\n{rows}"));
    api.job("/imports", &json!({ "upload": file["id"], "source": "crm", "dryRun": true }))
}

#[test]
fn guesses_by_an_operator_say_nothing_and_are_lines_about_the_person() {
    let site = Site::with_people();
    site.ok(&["suppress", EVE]);
    let service = site.serve();
    let operator = AdminApi::with_role(&service, "operator");
    let privacy = AdminApi::with_role(&service, "privacy");
    let operator_sees = |rows: &str| {
        let job = check(&operator, rows);
        assert_eq!(job["state"], "done", "{job}");
        job["result"].clone()
    };
    let right = operator_sees(&format!("{ADA},{ADA_PHONE}\n"));
    assert_has(&right, json!({ "rows": 1, "rejected": 0, "committed": false }));
    for number in 1..14 {
        assert_eq!(operator_sees(&format!("{ADA},+141555501{number:02}\n")), right);
    }
    // Nor with the rows of others around it, nor with so many guesses that one more would be too many.
    let others = many("fill-quell", 30)
        .lines()
        .skip(1)
        .map(|row| row.rsplit_once(',').expect("a cell").0.to_owned() + "\n")
        .collect::<String>();
    let with_others = |guess: &str| operator_sees(&format!("{others}{ADA},{guess}\n"));
    assert_eq!(with_others(ADA_PHONE), with_others("+14155550111"));
    let guesses: String = (0..25).map(|n| format!("{ADA},+141555501{n:02}\n")).collect();
    assert_eq!(operator_sees(&guesses)["rejected"], 0);
    // Who has opted out looks like everybody else, also in the first rows.
    assert_eq!(operator_sees(&format!("{EVE},+14155550101\n")), right);
    let shown = |api: &AdminApi<'_>, rows: &str| {
        let id = upload(api, "a.csv", rows)["id"].as_str().expect("an id").to_owned();
        api.post(&format!("/uploads/{id}/preview"), &json!({ "source": "crm" })).json()["rows"][0]["verdict"]
            .clone()
    };
    let row = format!("profileUrl,phone\n{EVE},+14155550101\n");
    assert_eq!(shown(&operator, &row), "loaded");
    let admin = AdminApi::with_role(&service, "admin");
    assert_eq!(shown(&admin, &row), "opted out");
    // Who may see people is told, and is on record too.
    let told = check(&admin, &format!("{ADA},{ADA_PHONE}\n{EVE},+14155550101\n"));
    assert_has(&told["result"], json!({ "detailsNew": 0, "detailsChanged": 1, "suppressed": 1 }));

    let site = &service.site;
    let lines = site.events(&["--profile", ADA, "--operation", "import check"]);
    let by = |actor: &str| {
        lines.iter().filter(|line| line["actor"].as_str().is_some_and(|by| by.starts_with(actor))).count()
    };
    assert_eq!((by("operator"), by("admin")), (17, 1));
    assert_has(
        &lines[0],
        json!({ "outcome": "done", "counts": { "rows": 2, "rejected": 0, "profiles": 2 } }),
    );
    assert_eq!(about(site, EVE)[..3], ["import check", "import preview", "import preview"]);
    assert!(!about(site, NOBODY).contains(&json!("import check")));

    // It is counted, and somebody should ask.
    assert_eq!(service.metric("contactd_import_checks_total"), Some(19));
    let many = |text: &str| text.contains("18 checks of import files by operator (adm_");
    assert!(many(&site.run(&["doctor"]).stdout), "{}", site.run(&["doctor"]).stdout);
    assert!(many(&privacy.get("/overview").body));
}

#[test]
fn while_the_journal_cannot_be_written_a_check_shows_no_counts() {
    let faulty = Faulty::start("os");
    let site = &faulty.service.site;
    let admin = AdminApi::with_role(&faulty.service, "admin");
    let rows = format!("{ADA},{ADA_PHONE}\n");
    let file = site.file("guess.csv", format!("profileUrl,phone\n{rows}"));
    let sent = upload(&admin, "guess.csv", format!("profileUrl,phone\n{rows}"));
    let asked = |dry_run| json!({ "upload": sent["id"], "source": "crm", "dryRun": dry_run });
    faulty.fail("read-only");
    let job = admin.job("/imports", &asked(true));
    assert_has(&job, json!({ "state": "failed", "code": "not_on_record", "result": null }));
    let said = site.run(&["import", &file, "--source", "crm", "--dry-run", "--json"]);
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{said:?}");
    // Nor does one that fails, or is done: its change is, and its line comes later.
    let bad = format!("profileUrl,phone\n{rows}nobody,+14155550143\n");
    let failed = site.run_with(&["import", "-", "--source", "crm", "--json"], bad, &[]);
    assert_eq!((failed.code, failed.stdout.as_str()), (1, ""), "{failed:?}");
    let done = admin.job("/imports", &asked(false));
    assert_has(&done, json!({ "state": "done", "/result/rows": 1, "/result/detailsUnchanged": null }));
    faulty.fail("ok");
    eventually("it can be recorded again", || {
        site.run(&["import", &file, "--source", "crm", "--dry-run"]).code == 0
    });
    eventually("the import is on record", || about(site, ADA)[..].contains(&json!("import")));
}

#[test]
fn a_list_of_many_people_is_verified_backed_up_restored_and_missed() {
    let site = Site::empty();
    let file = site.file("many.csv", many("list-quell", 120));
    let url = |n: u32| format!("https://www.linkedin.com/in/list-quell-{n:05}");
    site.ok(&["import", &file, "--source", "crm"]);
    site.ok(&["import", &file, "--source", "crm", "--dry-run"]);
    for n in [0, 57, 119] {
        assert_eq!(about(&site, &url(n)), ["import check", "import"], "{n}");
    }
    assert!(about(&site, &url(120)).is_empty());
    let line = &site.events(&["--operation", "import"])[0];
    assert_eq!(line["counts"]["profiles"], 120);
    let [list] = &lists(&site)[..] else { panic!("one list for both lines: {:?}", lists(&site)) };
    assert_eq!(std::fs::metadata(list).expect("a file").permissions().mode() & 0o777, 0o600);
    let name = list.file_name().expect("a name").to_str().expect("UTF-8");
    let subject = line["subjects"][0].as_str().expect("a subject");
    assert!(subject.starts_with("list:") && subject.ends_with(&format!(":{name}")), "{line}");
    site.ok(&["audit", "verify"]);

    site.ok(&["backup", "a.backup"]);
    let other = Site::empty();
    assert_eq!(other.restore(&site).code, 0);
    assert_eq!(about(&other, &url(57)).last(), Some(&json!("import")));
    other.ok(&["audit", "verify"]);

    let bytes = std::fs::read(list).expect("reads");
    std::fs::write(list, &bytes[16..]).expect("writes");
    let wrong = format!("lists/{name}: the list of people that line ");
    let is_told = || {
        site.run(&["audit", "verify"]).mentions(1, &wrong).mentions(1, " names is missing or changed");
    };
    is_told();
    std::fs::remove_file(list).expect("removes");
    is_told();
    std::fs::write(list, bytes).expect("writes");
    site.ok(&["audit", "verify"]);
}

#[test]
fn in_a_cluster_every_node_finds_and_verifies_the_lists_of_the_others() {
    let (nodes, _) = nodes(&["a", "b"], "");
    let [a, b] = &nodes[..] else { panic!("two nodes") };
    let desk = machine(a.site.database().expect("a database"), &a.site);
    let url = "https://www.linkedin.com/in/list-quell-00042";
    for (site, source) in [(&a.site, "crm"), (&desk, "hr")] {
        let file = site.file("many.csv", many("list-quell", 60));
        let done = site.run_recorded(&["import", &file, "--source", source, "--dry-run"]);
        assert_eq!(done.code, 0, "{done:?}");
    }
    let checks =
        |service: &Service| about(&service.site, url).iter().filter(|of| **of == "import check").count();
    for node in [a, b] {
        eventually("both are found", || checks(node) >= 2);
    }
    assert!(lists(&desk).is_empty());
    until_signed(&a.site);
    b.site.ok(&["audit", "verify"]);
    a.site.ok(&["audit", "verify"]);
}
