//! What an operator or a privacy officer asks: who received what, who did what, what is removed next.

use serde_json::{Value, json};

use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, EVE_EMAIL, NOBODY};
use crate::http::{Request, profile_body};
use crate::service::{EMAIL, Output, PHONE, Service, Site};

/// The cells of a table, with what differs between runs replaced: times, tokens' ids, this user.
fn rows(table: &str) -> Vec<String> {
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(masked).collect::<Vec<_>>().join(" | ")
    };
    table.lines().map(cells).collect()
}

fn masked(cell: &str) -> String {
    let is_time = |word: &str| word.starts_with("20") && word.contains('T') && word.ends_with('Z');
    let word = |word: &str| match word {
        word if is_time(word.trim_end_matches([',', ';'])) => "TIME".to_owned(),
        word if word.starts_with("tok_") => "TOKEN".to_owned(),
        word => word.to_owned(),
    };
    cell.split(' ').map(word).collect::<Vec<_>>().join(" ").replace(&format!("by {}", user()), "by USER")
}

fn user() -> String {
    let name = std::process::Command::new("id").arg("-un").output().expect("id is there").stdout;
    String::from_utf8(name).expect("ASCII").trim().to_owned()
}

fn events(site: &Site, flags: &[&str]) -> Vec<Value> {
    let output = site.run(&[&["audit", "show", "--json"], flags].concat());
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{flags:?}");
    output.json().as_array().expect("a list").clone()
}

fn operations(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["operation"].as_str().expect("text")).collect()
}

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
fn audit_show_is_newest_first_and_the_limit_keeps_the_newest() {
    let service = asked();
    let site = &service.site;
    site.ok(&["suppress", EVE, "--ticket", "DSR-5"]);
    let all = events(site, &[]);
    assert_eq!(
        operations(&all),
        [
            "suppress",
            "phone",
            "email",
            "phone",
            "phone",
            "email",
            "phone",
            "token create",
            "token create",
            "import"
        ]
    );
    let times: Vec<&str> = all.iter().map(|event| event["time"].as_str().expect("a time")).collect();
    assert!(times.is_sorted_by(|a, b| a.trim_end_matches('Z') >= b.trim_end_matches('Z')), "{times:?}");
    for most in [0, 1, 4, 10, 99] {
        let some = events(site, &["--limit", &most.to_string()]);
        assert_eq!(some, all[..all.len().min(most)]);
    }
    assert_eq!(operations(&events(site, &["--limit", "1", "--operation", "token create"])), ["token create"]);
    assert_eq!(
        rows(&site.ok(&["audit", "show", "--limit", "4"])),
        [
            "TIME | OPERATION | OUTCOME | TOKEN OR ACTOR | REQUEST OR COUNTS".to_owned(),
            "TIME | suppress | done | by USER | changed 1, subjects 1, DSR-5".to_owned(),
            format!("TIME | phone | hit | crm-sync | {}", all[1]["requestId"].as_str().expect("an id")),
            format!(
                "TIME | email | refused: no_authorization_found | =ats | {}",
                all[2]["requestId"].as_str().expect("an id")
            ),
            format!("TIME | phone | hit | =ats | {}", all[3]["requestId"].as_str().expect("an id")),
        ]
    );
    assert_eq!(all[0]["ticket"], "DSR-5");
    assert_eq!(
        (&all[0]["outcome"], &all[0]["counts"]),
        (&"done".into(), &json!({"changed": 1, "subjects": 1}))
    );
}

#[test]
fn a_time_may_be_a_date_a_time_or_how_long_ago_it_was() {
    let service = asked();
    let site = &service.site;
    site.ok(&["export"]);
    let all = events(site, &[]);
    for flags in [["--since", "30d"], ["--since", "1h"], ["--until", "0s"], ["--since", "2020-01-01"]] {
        assert_eq!(events(site, &flags), all, "{flags:?}");
    }
    for flags in [["--until", "1h"], ["--since", "2099-01-01T00:00:00Z"]] {
        assert_eq!(events(site, &flags), [] as [Value; 0], "{flags:?}");
    }
    let last = all[0]["time"].as_str().expect("a time");
    assert_eq!(events(site, &["--since", last]), all[..1]);
    assert_eq!(events(site, &["--until", last]), all[1..]);
    let wrong = site.run(&["audit", "show", "--since", "yesterday"]);
    assert_eq!(
        (wrong.code, wrong.stderr.lines().next()),
        (
            2,
            Some(
                "error: invalid value 'yesterday' for '--since <TIME>': write a date like 2026-05-01, an RFC 3339 time, or how \
                 long ago like 30d (s, m, h, d or w)"
            )
        )
    );
    let reversed = site.run(&["audit", "show", "--since", "1h", "--until", "2h"]);
    let said = (reversed.code, reversed.stderr.as_str());
    assert_eq!(said, (2, "contactd: --since is not before --until, so nothing can match\n"));
    let none = site.run(&["audit", "show", "--until", "1h"]);
    let shown = (none.code, none.stdout.as_str(), none.stderr.as_str());
    assert_eq!(shown, (0, "", "nothing in the journal matches\n"));
}

#[test]
fn who_received_a_number_is_summed_up_by_recipient() {
    let service = asked();
    let site = &service.site;
    let question = ["audit", "show", "--phone", "+1 415 555 0123", "--since", "30d", "--by", "recipient"];
    assert_eq!(
        rows(&site.ok(&question)),
        [
            "TOKEN | NAME | REQUESTS | HITS | MISSES | REFUSED | FIRST | LAST",
            "TOKEN | crm-sync | 2 | 2 | 0 | 0 | TIME | TIME",
            "TOKEN | =ats | 1 | 1 | 0 | 0 | TIME | TIME",
        ]
    );
    let given = events(site, &["--phone", ADA_PHONE]);
    let mut summed = site.run(&[&question[..], &["--json"]].concat()).json();
    let crm = summed[0].as_object_mut().expect("an object");
    assert_eq!((&given[0]["time"], &given[2]["time"]), (&crm["lastAt"], &crm["firstAt"]));
    assert_eq!(given[0]["token"], crm["token"]);
    for differs in ["token", "firstAt", "lastAt"] {
        crm.remove(differs);
    }
    assert_eq!(
        summed[0],
        json!({"tokenName": "crm-sync", "requests": 2, "hits": 2, "misses": 0, "refused": 0})
    );
    let csv = site.ok(&[&question[..], &["--csv"]].concat());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "token,tokenName,requests,hits,misses,refused,firstAt,lastAt");
    assert!(lines.len() == 3 && lines[2].contains(",'=ats,1,1,0,0,20"), "no spreadsheet runs it: {csv}");

    let all = rows(&site.ok(&["audit", "show", "--by", "recipient"]));
    assert_eq!(
        all[1..],
        ["TOKEN | crm-sync | 4 | 3 | 1 | 0 | TIME | TIME", "TOKEN | =ats | 2 | 1 | 0 | 1 | TIME | TIME"]
    );
    let newest = rows(&site.ok(&["audit", "show", "--by", "recipient", "--limit", "1"]));
    assert_eq!(newest[1..], all[1..2]);
    let one = rows(&site.ok(&["audit", "show", "--by", "recipient", "--token", "=ats", "--outcome", "hit"]));
    assert_eq!(one[1..], ["TOKEN | =ats | 1 | 1 | 0 | 0 | TIME | TIME"]);
    let Output { code, stdout, stderr } =
        site.run(&["audit", "show", "--by", "recipient", "--email", EVE_EMAIL]);
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (0, "", "nothing in the journal matches\n"));
}

#[test]
fn a_number_or_an_address_selects_what_was_disclosed_of_it_and_what_was_done_about_it() {
    let service = asked();
    let site = &service.site;
    site.ok(&["suppress", "--email", ADA_EMAIL, "--ticket", "DSR-6"]);
    site.ok(&["remove", ADA, "--email", ADA_EMAIL]);
    assert_eq!(operations(&events(site, &["--email", "ADA@example.com"])), ["suppress", "email"]);
    assert_eq!(operations(&events(site, &["--phone", ADA_PHONE])), ["phone"; 3]);
    assert_eq!(operations(&events(site, &["--phone", ADA_PHONE, "--profile", NOBODY])), [""; 0]);
    assert_eq!(
        operations(&events(site, &["--phone", ADA_PHONE, "--profile", ADA, "--limit", "2"])),
        ["phone"; 2]
    );
    let both = site.run(&["audit", "show", "--phone", ADA_PHONE, "--email", ADA_EMAIL]);
    assert_eq!(both.code, 2, "{both:?}");
    let wrong = site.run(&["audit", "show", "--phone", "555-0123"]);
    assert_eq!(
        (wrong.code, wrong.stderr.as_str()),
        (
            1,
            "contactd: this phone number cannot be read (phone_region_needed); write it with + and its country code\n"
        )
    );
}

#[test]
fn audit_show_as_csv_has_a_row_for_every_event_and_no_formula() {
    let service = asked();
    let site = &service.site;
    site.ok(&["export", "--ticket", "=1+2"]);
    let csv = site.ok(&["audit", "show", "--csv", "--limit", "3"]);
    let all = events(site, &["--limit", "3"]);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let (export, phone, email) = (&all[0], &all[1], &all[2]);
    let expected = [
        "time,operation,outcome,reason,token,tokenName,actor,via,requestId,count,counts,what,ticket,profileDigest,valueDigest,\
         givenIdDigest,subjects,node,seq"
            .to_owned(),
        format!(
            "{},export,done,,,,{},command line,,,,,'=1+2,,,,,{},{}",
            text(export, "time"),
            user(),
            text(export, "node"),
            export["seq"]
        ),
        format!(
            "{},phone,hit,,{},crm-sync,,,{},,,,,{},{},,,{},{}",
            text(phone, "time"),
            text(phone, "token"),
            text(phone, "requestId"),
            text(phone, "profileDigest"),
            text(phone, "valueDigest"),
            text(phone, "node"),
            phone["seq"]
        ),
        format!(
            "{},email,refused,no_authorization_found,{},'=ats,,,{},,,,,,,,,{},{}",
            text(email, "time"),
            text(email, "token"),
            text(email, "requestId"),
            text(email, "node"),
            email["seq"]
        ),
    ];
    assert_eq!(csv.lines().collect::<Vec<_>>(), expected);
    assert_eq!(export["ticket"], "=1+2", "JSON has it as it is");
    let usage = site.ok(&["usage", "--csv"]);
    assert!(usage.contains(",'=ats,1,0,1"), "{usage}");
    let both = site.run(&["audit", "show", "--csv", "--json"]);
    assert_eq!(both.code, 2, "{both:?}");
    let empty = site.ok(&["audit", "show", "--csv", "--until", "1h"]);
    assert_eq!(empty, expected[0], "only the names of the columns");
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
fn a_report_says_which_value_each_recipient_received() {
    let service = asked();
    let site = &service.site;
    site.ok(&["remove", ADA, "--email", ADA_EMAIL]);
    site.ok(&["remove", ADA, "--source", "crm", "--phone", "+14155550124", "--phone", "+14155550125"]);
    site.ok(&["remove", ADA, "--email", "ada.old@example.com", "--email", "ada@work.example.com"]);
    let report = site.run(&["subject", ADA]);
    assert_eq!(
        report.stderr,
        "read from the index, which has not been compared with the journal yet: run `contactd audit verify`, or use --from-journal\n"
    );
    assert_eq!(
        rows(&report.stdout),
        [
            &*format!("About {ADA_CANONICAL}, TIME"),
            "Not opted out.",
            "",
            "Held:",
            "KIND | VALUE | LABEL | STATE | SOURCE | OBSERVED | BASIS | EXPIRES",
            "phone | +14155550123 | personal | crm | TIME | consent",
            "",
            "Disclosed to:",
            "RECIPIENT | WHAT | VALUE | TIMES | FIRST | LAST",
            "crm-sync | phone | +14155550123 | 2 | TIME | TIME",
            "crm-sync | email | a value no longer held | 1 | TIME | TIME",
            "=ats | phone | +14155550123 | 1 | TIME | TIME",
            "",
            "Each time:",
            "TIME | WHAT | RECIPIENT | VALUE",
            "TIME | phone | crm-sync | +14155550123",
            "TIME | email | crm-sync | a value no longer held",
            "TIME | phone | =ats | +14155550123",
            "TIME | phone | crm-sync | +14155550123",
        ]
    );
    let report = site.run(&["subject", ADA, "--json"]).json();
    let tokens = site.run(&["token", "list", "--json"]).json();
    let each = report["disclosures"].as_array().expect("a list");
    let time = |at: usize| each[at]["time"].clone();
    assert_eq!(
        report["recipients"],
        json!([
            {
                "token": "crm-sync", "tokenIds": [tokens[0]["id"]], "times": 3, "firstAt": time(0), "lastAt": time(3),
                "details": [
                    {"operation": "phone", "value": ADA_PHONE, "isValueRecorded": true, "times": 2, "firstAt": time(0), "lastAt": time(3)},
                    {"operation": "email", "value": null, "isValueRecorded": true, "times": 1, "firstAt": time(1), "lastAt": time(1)},
                ],
            },
            {
                "token": "=ats", "tokenIds": [tokens[1]["id"]], "times": 1, "firstAt": time(2), "lastAt": time(2),
                "details": [
                    {"operation": "phone", "value": ADA_PHONE, "isValueRecorded": true, "times": 1, "firstAt": time(2), "lastAt": time(2)},
                ],
            },
        ])
    );
    let page = site.ok(&["subject", ADA, "--html"]);
    for row in [
        "<h3>crm-sync</h3>\n<ul>\n<li>Phone number +14155550123: 2 times, first on ",
        "<li>E-mail address that we no longer hold: once, on ",
        "<td>Phone number +14155550123</td><td>=ats</td></tr>",
    ] {
        assert!(page.contains(row), "{page}");
    }
}

#[test]
fn a_long_list_of_disclosures_is_summed_up_unless_all_are_wanted() {
    let (service, token) = Service::with_people();
    let site = &service.site;
    for _ in 0..50 {
        assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
    }
    let short = |output: &str| {
        let rows = rows(output);
        let from = rows.iter().position(|row| row == "Disclosed to:").expect("a heading");
        rows[from + 1..].to_vec()
    };
    assert_eq!(short(&site.ok(&["subject", EVE])).len(), 2 + 3 + 50, "fifty are listed");
    assert_eq!(service.look_up(EMAIL, &token, EVE).status, 200);
    let summed = [
        "RECIPIENT | WHAT | VALUE | TIMES | FIRST | LAST".to_owned(),
        format!("test | email | {EVE_EMAIL} | 51 | TIME | TIME"),
        String::new(),
        "Each time:".to_owned(),
    ];
    let shown = short(&site.ok(&["subject", EVE]));
    assert_eq!(shown[..4], summed);
    assert_eq!(shown[4..], ["51 times from TIME to TIME --all lists each of them"]);
    let all = short(&site.ok(&["subject", EVE, "--all"]));
    assert_eq!((&all[..4], all.len()), (&summed[..], 4 + 1 + 51));
    assert_eq!(
        site.run(&["subject", EVE, "--json"]).json()["disclosures"].as_array().map(Vec::len),
        Some(51)
    );
    let page = site.ok(&["subject", EVE, "--html"]);
    assert!(
        page.contains("<p>51 times in total. Would you like the list of each time? Just ask us.</p>"),
        "{page}"
    );
    let row = format!("<td>E-mail address {EVE_EMAIL}</td><td>test</td></tr>");
    assert_eq!(page.matches(&row).count(), 0);
    assert_eq!(site.ok(&["subject", EVE, "--html", "--all"]).matches(&row).count(), 51);
}

#[test]
fn a_number_that_many_people_have_is_reported_in_short() {
    let site = Site::empty();
    let people: String =
        (0..60).map(|n| format!("https://www.linkedin.com/in/desk-quell-{n:02},{ADA_PHONE}\n")).collect();
    site.ok_with_input(&["import", "-", "--source", "crm"], format!("profileUrl,phone\n{people}"));
    let count = |flags: &[&str], text: &str| {
        let report = site.ok(&[&["subject", "--phone", ADA_PHONE], flags].concat());
        report.lines().filter(|line| line.contains(text)).count()
    };
    for (flags, listed, cut) in [(&[][..], 50, 2), (&["--all"], 60, 0)] {
        assert_eq!(count(flags, "  https://linkedin.com/in/desk-quell-"), listed);
        assert_eq!(count(flags, "phone  +14155550123  personal"), listed);
        assert_eq!(count(flags, "  and 10 more; --all lists them"), cut);
    }
    let page = site.ok(&["subject", "--phone", ADA_PHONE, "--html"]);
    assert_eq!(
        (page.matches("<dl ").count(), page.matches("<p>And 10 more like these.</p>").count()),
        (50, 1)
    );
}

#[test]
fn a_rotated_token_is_the_same_recipient() {
    let site = Site::with_people();
    let first = site.token(&[]);
    let id = site.run(&["token", "list", "--json"]).json()[0]["id"].as_str().expect("an id").to_owned();
    let second = site.ok(&["token", "rotate", &id]);
    let service = site.serve();
    for token in [&first, &second] {
        assert_eq!(service.look_up(EMAIL, token, EVE).status, 200);
    }
    let report = service.site.run(&["subject", EVE, "--json"]).json();
    assert_eq!(report["recipients"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["recipients"][0]["tokenIds"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_id_that_a_caller_sent_finds_its_request() {
    let (service, token) = Service::with_people();
    let ids = ["job-7/row:9", "0123456789abcdef0123"];
    for id in ids {
        let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).header("X-Request-Id", id);
        assert_eq!(service.send(&request).status, 200);
    }
    for id in ids {
        let found = rows(&service.site.ok(&["audit", "show", "--request", id, "--by", "recipient"]));
        assert_eq!(found[1..], ["TOKEN | test | 1 | 1 | 0 | 0 | TIME | TIME"]);
        assert_eq!(events(&service.site, &["--request", id]).len(), 1);
    }
}

#[test]
fn an_export_records_its_ticket() {
    let site = Site::with_people();
    site.ok(&["export", "--ticket", "AUDIT-9"]);
    let shown = rows(&site.ok(&["audit", "show", "--operation", "export"]));
    assert_eq!(shown[1..], ["TIME | export | done | by USER | AUDIT-9"]);
}

#[test]
fn retention_lists_the_rule_of_every_source_and_what_ends_next() {
    let site = Site::empty();
    site.token(&[]);
    let rules = "a running server removes expired details every 1m, and details older than the maximum age every 1h; `contactd \
                 sweep` removes both now\nwhat imports change and withdraw is kept for 7d (retention.undo)\naudit lines are kept for ever (audit.keep)\n";
    let nothing = site.run(&["retention"]);
    let told = format!("nothing is held, and no source has a maximum age\n{rules}");
    assert_eq!((nothing.code, nothing.stdout.as_str(), nothing.stderr), (0, "", told));
    assert_eq!(site.run(&["retention", "--json"]).json(), json!([]));
    site.ok_with_input(
        &["import", "-", "--source", "events", "--max-age", "36500d"],
        "profileUrl,phone,email,observedAt,expiresAt\n\
         https://www.linkedin.com/in/ada-quell-1a2b3c,+14155550123,,2026-05-01,\n\
         https://www.linkedin.com/in/eve-nuvel-2b3c4d,,eve@example.com,2026-05-01,2098-02-03\n",
    );
    site.ok_with_input(
        &["import", "-", "--source", "crm"],
        "profileUrl,phone,email,expiresAt\n\
         https://www.linkedin.com/in/old-ebrix-4d5e6f,+14155550188,,2020-01-01\n\
         https://www.linkedin.com/in/ada-quell-1a2b3c,,ada@example.com,2099-01-01T09:00:00Z\n\
         https://www.linkedin.com/in/eve-nuvel-2b3c4d,+14155550124,eve@example.com,2099-01-01T10:00:00Z\n",
    );
    site.ok(&["put", EVE, "--phone", "+14155550126"]);
    let listed = site.run(&["retention"]);
    assert_eq!((listed.code, listed.stderr.as_str()), (0, rules));
    let expected = "\
SOURCE  MAX AGE  DETAILS  DUE NOW  NEXT
crm     none     4        1        3 details by 2099-01-01T10:00:00Z
events  36500d   2        0        1 detail by 2098-02-03T00:00:00Z
manual  none     1        0        none
";
    assert_eq!(listed.stdout, expected);
    assert_eq!(
        site.run(&["retention", "--json"]).json(),
        json!([
            {"source": "crm", "maxAge": null, "details": 4, "due": 1, "next": {"details": 3, "by": "2099-01-01T10:00:00Z"}},
            {"source": "events", "maxAge": "36500d", "details": 2, "due": 0, "next": {"details": 1, "by": "2098-02-03T00:00:00Z"}},
            {"source": "manual", "maxAge": null, "details": 1, "due": 0, "next": null},
        ])
    );
    site.ok(&["sweep"]);
    assert_eq!(site.run(&["retention", "--json"]).json()[0]["due"], 0);
    let config = site.file("keep.toml", "[audit]\nkeep = \"1095d\"\n[retention]\nsweep_every = \"90s\"\n");
    let kept = site.run(&["retention", "--config", &config]);
    assert_eq!(
        kept.stderr,
        "a running server removes expired details every 90s, and details older than the maximum age every 90m; `contactd sweep` \
         removes both now\nwhat imports change and withdraw is kept for 7d (retention.undo)\naudit lines are removed after 1095d (audit.keep)\n"
    );
}
