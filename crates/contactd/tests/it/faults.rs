//! A database that is damaged, cannot be read or written, or is on a full disk; and a clock that jumps.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::audit::Faulty;
use crate::fixture::{ADA, NOBODY};
use crate::http::Reply;
use crate::service::{EMAIL, PHONE, Service, Site, eventually};

const PAGE: usize = 4096;
const UNAVAILABLE: &str = "{\"status\":\"service_unavailable\",\"message\":";
const INTERNAL: &str = "{\"message\":\"Internal server error.\"}";

/// The lines of the log that have this text.
fn logged(service: &Service, text: &str) -> usize {
    service.log.text().lines().filter(|line| line.contains(text)).count()
}

fn assert_unavailable(reply: &Reply) {
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")), "{}", reply.body);
    assert!(reply.body.starts_with(UNAVAILABLE), "{}", reply.body);
}

/// The page of a file that contains a text.
fn page_with(file: &Path, text: &str) -> usize {
    let content = fs::read(file).expect("reads");
    let at = content.windows(text.len()).position(|window| window == text.as_bytes()).expect("it is there");
    at / PAGE
}

/// Replaces a page, and returns what it was.
fn replace_page(file: &Path, page: usize, with: &[u8]) -> Vec<u8> {
    let opened = fs::File::options().read(true).write(true).open(file).expect("opens");
    let mut was = vec![0; PAGE];
    opened.read_exact_at(&mut was, (page * PAGE) as u64).expect("reads");
    opened.write_all_at(with, (page * PAGE) as u64).expect("writes");
    was
}

/// A store with enough people for many pages.
fn many_people() -> Site {
    let site = Site::with_people();
    // Each has one detail, so the name is in one row.
    let row =
        |n: usize| format!("https://www.linkedin.com/in/quell-nuvel-{n:05},+1415555{:04}\n", 100 + n % 100);
    site.import("crm", format!("profileUrl,phone\n{}", (0..2_000).map(row).collect::<String>()));
    site
}

#[test]
fn a_read_error_is_503_in_one_line_of_the_log_and_over_when_the_disk_works_again() {
    let faulty = Faulty::start_with("os", "[serve]\ntable_bytes = 0\n");
    let (service, token) = (&faulty.service, &faulty.token);
    faulty.fail("db-read details.db");
    service.cut_off_lookup_table();
    for _ in 0..20 {
        assert_unavailable(&service.look_up(PHONE, token, ADA));
    }
    let told = "\"fault\":\"the store cannot be used now: a file of it cannot be read or written (disk I/O error); \
                look at the system's log and check the disk\"";
    let is_first =
        |line: &&str| line.contains("\"message\":\"a request is answered 503\",") && line.contains(told);
    eventually("it is logged", || service.log.text().lines().filter(is_first).count() == 1);
    assert_eq!(logged(service, "\"message\":\"a request is answered 503\","), 1);
    eventually("the others are counted", || {
        logged(service, "\"message\":\"the same fault again\",\"times\":19") == 1
    });
    faulty.fail("ok");
    eventually("it is over", || service.look_up(PHONE, token, ADA).status == 200);
}

#[test]
fn a_damaged_page_is_500_never_404_and_everybody_else_is_found() {
    for garbage in [0, 0xff] {
        let site = many_people();
        let token = site.token(&[]);
        let file = site.data().join("details.db");
        let (hurt, fine) = ("quell-nuvel-00007", "quell-nuvel-01234");
        let page = page_with(&file, &format!("linkedin.com/in/{hurt}"));
        let url = |slug: &str| format!("https://www.linkedin.com/in/{slug}");
        // Before a lookup table can be made.
        let was = replace_page(&file, page, &[garbage; PAGE]);
        let service = site.serve();
        for _ in 0..5 {
            let reply = service.look_up(PHONE, &token, &url(hurt));
            assert_eq!((reply.status, reply.body.as_str()), (500, INTERNAL));
        }
        eventually("others are found", || service.look_up(PHONE, &token, &url(fine)).status == 200);
        let told = "store: details.db is damaged: lookups that need the damaged page fail, the others work; \
                    restore the data directory from a backup";
        eventually("it is logged", || logged(&service, told) > 0);
        assert_eq!(logged(&service, "\"message\":\"internal error\","), 1);
        replace_page(&file, page, &was);
        eventually("the file is repaired", || service.look_up(PHONE, &token, &url(hurt)).status == 200);
    }
}

#[test]
fn a_row_whose_name_was_changed_on_disk_is_500_and_not_404() {
    let site = many_people();
    let token = site.token(&[]);
    let file = site.data().join("details.db");
    let name = "linkedin.com/in/quell-nuvel-00077";
    let page = page_with(&file, name);
    let content = fs::read(&file).expect("reads");
    let mut changed = content[page * PAGE..][..PAGE].to_vec();
    let at = changed.windows(name.len()).position(|window| window == name.as_bytes()).expect("it is there");
    changed[at + "linkedin.com/in/q".len()] ^= 1;
    replace_page(&file, page, &changed);
    let service = site.serve();
    for _ in 0..20 {
        let reply = service.look_up(PHONE, &token, "https://www.linkedin.com/in/quell-nuvel-00077");
        assert_eq!((reply.status, reply.body.as_str()), (500, INTERNAL));
    }
}

#[test]
fn a_lookup_table_that_is_cut_off_or_deleted_is_made_again_and_nobody_notices() {
    for config in ["", "[serve]\ntable_bytes = 0\n"] {
        let site = many_people();
        let token = site.token(&[]);
        let service = site.serve_with(&[], config);
        let is_found =
            || service.look_up(PHONE, &token, "https://www.linkedin.com/in/quell-nuvel-01234").status == 200;
        let place = if config.is_empty() { "memory" } else { "file" };
        let answered =
            || service.metric(&format!("contactd_lookups_answered_from{{place=\"{place}\"}}")) == Some(1);
        eventually("there is a table", || is_found() && answered());
        service.cut_off_lookup_table();
        assert!(is_found());
        let service = service.stop().serve_with(&[], config);
        let is_found =
            || service.look_up(PHONE, &token, "https://www.linkedin.com/in/quell-nuvel-01234").status == 200;
        eventually("there is a new one", || {
            assert!(is_found());
            service.metric(&format!("contactd_lookups_answered_from{{place=\"{place}\"}}")) == Some(1)
        });
    }
}

#[test]
fn on_a_full_disk_lookups_go_on_and_usage_is_recorded_once_there_is_room() {
    let faulty = Faulty::start("os");
    let (service, token) = (&faulty.service, &faulty.token);
    faulty.fail("db-full contactd.db");
    assert_eq!(service.look_up(PHONE, token, ADA).status, 200);
    let told = "\"message\":\"cannot record usage; trying again\",\"error\":\"the store cannot be used now: the disk of the data \
                directory on this machine is full: make room there. A server then goes on by itself; a command has to be run again\"";
    eventually("it is logged", || logged(service, told) == 1);
    faulty.fail("ok");
    eventually("it is recorded", || service.site.json(&["token", "list"])[0]["hits"].as_u64() == Some(1));
    assert_eq!(logged(service, told), 1);
}

#[test]
fn a_clock_that_jumps_locks_nobody_out_gives_no_quota_twice_and_leaves_the_journal_whole() {
    let faulty = Faulty::start("os");
    let service = &faulty.service;
    let quota = service.site.token(&["--quota", "2/day"]);
    let rate = service.site.token(&["--rate", "5/s"]);
    let short = service.site.token(&["--expires", "2h"]);
    let status = |token: &str| service.look_up(PHONE, token, ADA).status;
    faulty.fail("clock 0");
    assert_eq!([status(&quota), status(&quota), status(&quota)], [200, 200, 429]);
    assert_eq!([status(&rate), status(&short)], [200, 200]);
    let told = "if it is wrong now";
    for (shift, direction) in [("clock 86400", "forward"), ("clock 0", "back")] {
        faulty.fail(shift);
        // The jump is measured in milliseconds: it may be a moment less than a day.
        let begins = format!("\"message\":\"the system clock went {direction} by 86");
        let is_told = |line: &str| line.contains(&begins) && line.contains(told);
        eventually("it is noticed", || service.log.text().lines().any(is_told));
        match shift {
            "clock 0" => {
                assert_eq!(status(&quota), 429, "the day goes on");
                eventually("the rate limit is over", || status(&rate) == 200);
                assert_eq!(status(&short), 200, "it ends by the clock");
            }
            _ => {
                assert_eq!([status(&quota), status(&short)], [200, 401]);
                assert_eq!(status(&rate), 200);
            }
        }
    }
    faulty.fail("clock -31536000");
    eventually("a year back", || status(&rate) == 200);
    assert_eq!(service.look_up(EMAIL, &faulty.token, NOBODY).status, 404);
    faulty.service.stop().run(&["audit", "verify"]).mentions(0, "whole: ");
}
