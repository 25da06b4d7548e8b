//! What an operator or a privacy officer asks: who received what, who did what, what is removed next.

use crate::fixture::{ADA, ADA_PHONE, EVE, NOBODY};
use crate::service::{EMAIL, PHONE, Service, Site};
use crate::transcript::{check, check_serving, transcripts};

/// A service that two clients have asked: `crm-sync` for Ada's number twice, for her address and for nobody, `=ats` for her
/// number and, without the right to, for her address.
fn asked() -> Service {
    let site = Site::with_people();
    let (crm, ats) = (
        site.ok(&["token", "create", "crm-sync"]),
        site.ok(&["token", "create", "=ats", "--scope", "phone"]),
    );
    let service = site.serve();
    for (path, token, url, status) in [
        (PHONE, &crm, ADA, 200),
        (EMAIL, &crm, ADA, 200),
        (PHONE, &crm, NOBODY, 404),
        (PHONE, &ats, ADA, 200),
        (EMAIL, &ats, ADA, 401),
        (PHONE, &crm, ADA, 200),
    ] {
        assert_eq!(service.look_up(path, token, url).status, status);
    }
    service
}

#[test]
fn a_period_begins_with_its_first_moment_and_ends_before_its_last() {
    let service = asked();
    service.site.ok(&["export"]);
    let all = service.site.events(&[]);
    let last = all[0]["time"].as_str().expect("a time");
    assert_eq!(service.site.events(&["--since", last]), all[..1]);
    assert_eq!(service.site.events(&["--until", last]), all[1..]);
}

transcripts! {
    fn who_received_a_number_is_summed_up_by_recipient() { check(&asked().site, "questions") }
    fn a_report_says_which_value_each_recipient_received() { check(&asked().site, "report") }
    fn retention_lists_the_rule_of_every_source_and_what_ends_next() { check(&Site::empty(), "retention") }
}

#[test]
fn without_an_index_the_answers_are_the_same() {
    let service = asked();
    let site = service.stop();
    let questions: [&[&str]; 5] = [
        &["audit", "show", "--json"],
        &["audit", "show", "--json", "--limit", "3"],
        &["audit", "show", "--json", "--phone", ADA_PHONE, "--limit", "2"],
        &["audit", "show", "--json", "--operation", "token create"],
        &["audit", "show", "--json", "--by", "recipient"],
    ];
    let before = questions.map(|question| site.ok(question));
    let index = site.data().join("audit-index.db");
    std::fs::remove_file(&index).expect("removes");
    std::fs::create_dir(&index).expect("makes");
    for (question, before) in questions.iter().zip(before) {
        let after = site.run(question);
        assert_eq!((after.code, after.stdout.trim_end()), (0, before.as_str()), "{question:?}");
        assert_eq!(
            after.stderr,
            "contactd: the index cannot be used (the store cannot be used now: its files cannot be opened; check that the directory exists and that this \
             user may write to it); the whole journal was read\n"
        );
    }
}

#[test]
fn a_long_list_of_disclosures_is_summed_up_unless_all_are_wanted() {
    let (service, token) = Service::with_people();
    for _ in 0..50 {
        assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
    }
    check_serving(&(service, token), "long_report");
}
