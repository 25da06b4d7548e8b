//! Opt-outs and erasures by number or address, of people who are on file and of people who are not.

use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, NOBODY};
use crate::service::{EMAIL, PHONE, Service, Site};

#[test]
fn an_opt_out_by_address_names_the_profiles_and_what_of_theirs_is_still_disclosed() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let out = site.run(&["suppress", "--email", "ADA@example.com"]);
    assert_eq!(
        (out.code, out.stderr),
        (
            0,
            format!(
                "1 suppressed, 0 already suppressed {}\n1 profile with it on file:\n  {ADA_CANONICAL}: 3 other details are still \
                 disclosed\nTo opt out the whole person, add --person\n",
                site.used()
            )
        )
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE, "as the command said");
    let out = site.run(&["suppress", "--email", ADA_EMAIL, "--person", "--json"]);
    assert_eq!(
        (out.code, out.json()),
        (
            0,
            serde_json::json!({ "read": 1, "changed": 1, "rejected": [], "notOnFile": 0,
                "holders": [{ "profileUrl": ADA_CANONICAL, "stillDisclosed": 0 }] })
        )
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(service.look_up(EMAIL, &token, ADA).status, 404);
}

#[test]
fn somebody_who_is_not_on_file_is_opted_out_for_the_future_and_that_is_said() {
    let site = Site::with_people();
    let out = site.run(&["suppress", NOBODY]);
    assert_eq!(
        (out.code, out.stderr),
        (
            0,
            format!(
                "1 suppressed, 0 already suppressed {}\nnobody is on file under https://linkedin.com/in/nobody-dornwett-5e6f70; the \
                 opt-out counts for what is imported later\n",
                site.used()
            )
        )
    );
    let out = site.run(&["erase", NOBODY]);
    assert_eq!(
        (out.code, out.stderr),
        (
            0,
            format!(
                "suppressed; there was nothing to remove {}\nnobody is on file under \
                 https://linkedin.com/in/nobody-dornwett-5e6f70; the opt-out counts for what is imported later\n",
                site.used()
            )
        )
    );
    let before = site.run(&["stats", "--json"]).json()["suppressions"].clone();
    for args in [
        &["suppress", "--phone", "+14155550100", "--must-exist"][..],
        &["suppress", ADA, "--phone", "+14155550100", "--must-exist"],
    ] {
        let refused = site.run(args);
        assert_eq!(
            (refused.code, &*refused.stderr),
            (1, "contactd: nothing was changed: not on file: +14155550100\n"),
            "{args:?}"
        );
    }
    let refused = site.run(&["erase", "--email", "nobody@example.com", "--must-exist"]);
    assert_eq!(
        (refused.code, &*refused.stderr),
        (1, "contactd: nothing is on file about what was named; nothing was changed\n")
    );
    assert_eq!(site.run(&["stats", "--json"]).json()["suppressions"], before);
}

#[test]
fn an_erasure_by_address_erases_everybody_who_has_it_and_names_who_shares_something() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    site.ok(&["put", EVE, "--phone", ADA_PHONE]);
    let shown = site.run(&["erase", "--email", "ada@EXAMPLE.com", "--dry-run"]);
    assert_eq!(
        (shown.code, &*shown.stderr),
        (
            0,
            "dry run, nothing was changed: 6 details of 1 profile would be removed\n  \
             https://linkedin.com/in/ada-quell-1a2b3c: 6 details\nnot erased: https://linkedin.com/in/eve-nuvel-2b3c4d has a phone \
             number in common. If it is the same person, erase it too\n"
        )
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let erased = site.run(&["erase", "--email", ADA_EMAIL, "--ticket", "DSR-7", "--json"]);
    assert_eq!(
        (erased.code, erased.json()),
        (
            0,
            serde_json::json!({ "detailsRemoved": 6, "suppressed": true, "confirmed": true, "onFile": true, "dryRun": false,
                "profiles": [{ "profileUrl": ADA_CANONICAL, "details": 6 }],
                "sharedWith": [{ "profileUrl": "https://linkedin.com/in/eve-nuvel-2b3c4d", "kind": "phone" }] })
        )
    );
    assert_eq!(
        erased.stderr,
        format!(
            "6 details removed from every file; the person is suppressed {}\nearlier backups, exports, rejects files and outputs of \
             `enrich` may still contain them\n  {ADA_CANONICAL}: 6 details\nnot erased: \
             https://linkedin.com/in/eve-nuvel-2b3c4d has a phone number in common. If it is the same person, erase it too\n{ADA_EMAIL} is opted out itself too, under any \
             profile\n",
            site.used()
        )
    );
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 404);
    assert_eq!(service.look_up(PHONE, &token, EVE).json()["phoneNumber"], ADA_PHONE);
    assert!(site.ok(&["audit", "show", "--json"]).contains("DSR-7"));
}

#[test]
fn more_than_ten_profiles_are_opted_out_or_erased_only_with_yes() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    let mut rows = "profileUrl,phone,email\n".to_owned();
    for n in 0..11 {
        rows += &format!("https://linkedin.com/in/quell-{n},+14155550150,p{n}@example.com\n");
    }
    site.ok_with_input(&["import", "-", "--source", "switchboard"], rows);
    let first = "https://linkedin.com/in/quell-0";
    let out = site.run(&["suppress", "--phone", "+14155550150", "--person"]);
    assert_eq!(out.code, 1, "{out:?}");
    assert!(
        out.stderr
            .ends_with("contactd: these 11 people are not opted out themselves; to do that, add --yes\n"),
        "{out:?}"
    );
    assert_eq!(service.look_up(PHONE, &token, first).status, 404, "the number is opted out");
    assert_eq!(service.look_up(EMAIL, &token, first).status, 200);
    site.ok(&["suppress", "--phone", "+14155550150", "--person", "--yes"]);
    assert_eq!(service.look_up(EMAIL, &token, first).status, 404);
    site.ok(&["unsuppress", first]);
    let refused = site.run(&["erase", "--phone", "+14155550150"]);
    assert_eq!(
        (refused.code, refused.stderr),
        (
            1,
            format!(
                "contactd: 11 profiles hold it; none of them was erased. It is opted out itself: no lookup discloses it {}. To erase \
                 all of them, add --yes\n",
                site.used()
            )
        )
    );
    assert_eq!(service.look_up(EMAIL, &token, first).status, 200);
    let erased = site.run(&["erase", "--phone", "+14155550150", "--yes"]);
    assert!(
        erased.stderr.starts_with("22 details removed from every file; 11 people are suppressed "),
        "{erased:?}"
    );
    assert_eq!(service.look_up(EMAIL, &token, first).status, 404);
}
