//! Enriching a CSV through a running service.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::fixture::{ADA, ADA_PHONE, EVE, EVE_EMAIL, NOBODY};
use crate::service::{Service, Site, assert_has};

fn enrich(
    service: &Service,
    token: &str,
    input: &str,
    output: &str,
    flags: &[&str],
) -> crate::service::Output {
    let url = format!("http://{}", service.public);
    let args = [&["enrich", input, output, "--url", &url, "--token", token], flags].concat();
    service.site.run(&args)
}

#[test]
fn every_row_comes_back_with_what_is_known_and_a_status() {
    let (service, token) = Service::with_people();
    let csv = format!(
        "\u{FEFF}name,LinkedIn URL,email\n\"Quell, Ada\",{ADA},old@example.com\nEve,{EVE}\nNobody,{NOBODY},\n\
         Again,{ADA},\nCompany,https://linkedin.com/company/quellcorp,\nNone,,\nElsewhere,https://example.com/in/x,\n"
    );
    let input = service.site.file("in.csv", csv);
    let output = enrich(&service, &token, &input, "out.csv", &["--column", "linkedin url", "--json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let enriched = std::fs::read_to_string(service.site.path("out.csv")).expect("an output");
    let ada = "https://linkedin.com/in/ada-quell-1a2b3c";
    let eve = "https://linkedin.com/in/eve-nuvel-2b3c4d";
    let nobody = "https://linkedin.com/in/nobody-dornwett-5e6f70";
    let expected = format!(
        "name,LinkedIn URL,email,canonicalUrl,phoneNumber,phoneNumberStatus,contactdEmail,contactdEmailStatus\n\
         \"Quell, Ada\",{ADA},old@example.com,{ada},{ADA_PHONE},ok,ada@example.com,ok\n\
         Eve,{EVE},,{eve},,not_found,{EVE_EMAIL},ok\n\
         Nobody,{NOBODY},,{nobody},,not_found,,not_found\n\
         Again,{ADA},,{ada},{ADA_PHONE},ok,ada@example.com,ok\n\
         Company,https://linkedin.com/company/quellcorp,,,,invalid: not_person,,invalid: not_person\n\
         None,,,,,invalid: empty,,invalid: empty\n\
         Elsewhere,https://example.com/in/x,,,,invalid: bad_host,,invalid: bad_host\n"
    );
    assert_eq!(enriched, expected);
    let summary = output.json();
    assert_has(&summary, json!({ "rows": 7, "distinctUrls": 5, "asked": 10 }));
    assert_eq!(summary["phone"]["ok"], 2);
    assert!(!service.site.path("out.csv.journal").exists());
    enrich(&service, &token, &input, "out.csv", &["--column", "linkedin url"])
        .mentions(1, "exists; choose another file name");
}

#[test]
fn the_canonical_column_comes_from_the_service_also_with_one_kind_and_its_name_is_free() {
    let (service, token) = Service::with_people();
    let input = service.site.file("in.csv", format!("canonicalUrl,profileUrl\nx,{NOBODY}\ny,{EVE}\n"));
    assert_eq!(enrich(&service, &token, &input, "out.csv", &["--only", "phone"]).code, 0);
    let out = std::fs::read_to_string(service.site.path("out.csv")).expect("an output");
    let expected = format!(
        "canonicalUrl,profileUrl,contactdCanonicalUrl,phoneNumber,phoneNumberStatus\n\
         x,{NOBODY},https://linkedin.com/in/nobody-dornwett-5e6f70,,not_found\n\
         y,{EVE},https://linkedin.com/in/eve-nuvel-2b3c4d,,not_found\n"
    );
    assert_eq!(out, expected);
}

#[test]
fn no_cell_is_run_as_a_formula() {
    let (service, token) = Service::with_people();
    let input = service.site.file(
        "in.csv",
        format!("=a,profileUrl,phone\n=1+2,{ADA},+1 415 555 0100\n@x,{ADA},+14155550100\n-1,=x,'=1\n\"\tx\",,\"\rx\"\n"),
    );
    assert_eq!(enrich(&service, &token, &input, "out.csv", &["--only", "phone"]).code, 0);
    let out = std::fs::read_to_string(service.site.path("out.csv")).expect("an output");
    let ada = "https://linkedin.com/in/ada-quell-1a2b3c";
    let expected = format!(
        "'=a,profileUrl,phone,canonicalUrl,phoneNumber,phoneNumberStatus\n\
         '=1+2,{ADA},'+1 415 555 0100,{ada},{ADA_PHONE},ok\n\
         '@x,{ADA},+14155550100,{ada},{ADA_PHONE},ok\n\
         '-1,'=x,'=1,,,invalid: not_a_url\n\
         '\tx,,\"'\rx\",,,invalid: empty\n"
    );
    assert_eq!(out, expected);
}

#[test]
fn answers_are_kept_only_in_a_file_that_nobody_else_can_read_or_choose() {
    let site = Site::with_people();
    let token = site.token(&["--quota", "1/month"]);
    let service = site.serve();
    let site = &service.site;
    let input = site.file("in.csv", format!("profileUrl\n{ADA}\n{EVE}\n"));
    let run =
        |output: &str| enrich(&service, &token, &input, output, &["--only", "email", "--concurrency", "1"]);
    let refused = |journal: &str| {
        format!("contactd: {journal} is not a file that only you can read; move it away to start again\n")
    };

    let target = site.file("target", "do not touch\n");
    for (output, to) in [("linked.csv", target.as_str()), ("dangling.csv", "nowhere")] {
        let journal = site.path(&format!("{output}.journal"));
        std::os::unix::fs::symlink(to, &journal).expect("links");
        run(output).says(1, refused(&format!("{output}.journal")));
        assert!(journal.symlink_metadata().expect("there").is_symlink() && !site.path(output).exists());
    }
    assert_eq!(std::fs::read_to_string(&target).expect("a file"), "do not touch\n");
    assert!(!site.path("nowhere").exists());

    let open = site.file("open.csv.journal", "{\"contactd\":\"enrich\"}\n");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o644)).expect("sets");
    run("open.csv").says(1, refused("open.csv.journal"));

    run("out.csv").mentions(1, "quota is used up");
    let journal = site.path("out.csv.journal").metadata().expect("a journal");
    assert_eq!(journal.permissions().mode() & 0o777, 0o600);
    let left = std::fs::read_dir(site.path("")).expect("a directory");
    let left = left.filter(|entry| {
        entry.as_ref().expect("an entry").file_name().to_string_lossy().contains(".unfinished")
    });
    assert_eq!(left.count(), 0, "no file with a temporary name is left");
}

#[test]
fn it_waits_for_a_rate_limit_and_a_bad_token_stops_it_at_once() {
    let site = Site::with_people();
    let token = site.token(&["--rate", "10/s", "--burst", "3"]);
    let service = site.serve();
    let rows: String = (0..20).map(|n| format!("https://linkedin.com/in/wait-quell-{n}\n")).collect();
    let input = service.site.file("in.csv", format!("profileUrl\n{rows}"));
    let started = std::time::Instant::now();
    let output = enrich(&service, &token, &input, "out.csv", &["--only", "phone", "--json"]);
    assert_eq!((output.code, &output.json()["phone"]["not_found"]), (0, &20.into()), "{output:?}");
    assert!(started.elapsed().as_secs_f64() > 1.0, "it waited");
    enrich(&service, "nobody", &input, "other.csv", &["--only", "phone"]).says(1, "contactd: stopped after 0 answers, which are kept; once this is solved, run the same command again to continue: \
             the service refuses the token for phone lookups (unknown): No authorization found. If the token is for the \
             other kind only, use --only\n");
    assert!(!service.site.path("other.csv").exists());
}

#[test]
fn errors_are_reported_and_no_value_is_written_to_the_wrong_place() {
    let site = Site::with_people();
    let token = site.token(&["--quota", "1/month"]);
    let service = site.serve();
    let long = format!("https://linkedin.com/in/{}", "x".repeat(20_000));
    let input = service.site.file("long.csv", format!("profileUrl\n{long}\n"));
    assert_eq!(enrich(&service, &token, &input, "long-out.csv", &["--only", "phone"]).code, 0);
    let out = std::fs::read_to_string(service.site.path("long-out.csv")).expect("an output");
    assert!(out.ends_with(",,invalid: too_long\n"), "{}", &out[out.len() - 60..]);

    let input = service.site.file("quota.csv", format!("profileUrl\n{ADA}\n{EVE}\n"));
    let stopped =
        enrich(&service, &token, &input, "quota-out.csv", &["--only", "email", "--concurrency", "1"]);
    assert!(stopped.code == 1 && stopped.stderr.contains("quota is used up"), "{stopped:?}");
    service
        .site
        .run(&["enrich", &input, "quota-out.csv", "--url", "http://127.0.0.1:9", "--token", &token])
        .mentions(1, "another --url");

    let input = service.site.file("wide.csv", format!("profileUrl,name\n{NOBODY},a,b\n"));
    enrich(&service, &token, &input, "wide-out.csv", &[]).mentions(1, "line 2: there are more fields");
    let input = service.site.file("open.csv", format!("profileUrl,name\n{NOBODY},a\n{NOBODY},\"b\n"));
    enrich(&service, &token, &input, "open-out.csv", &[]).mentions(1, "opened on line 3");
}

#[test]
fn a_killed_run_continues_where_it_stopped() {
    const URLS: usize = 3_000;
    let (service, token) = Service::with_people();
    let rows: String =
        (0..URLS + 500).map(|n| format!("{n},https://linkedin.com/in/kill-quell-{}\n", n % URLS)).collect();
    let input = service.site.file("in.csv", format!("id,profileUrl\n{ADA},{ADA}\n{rows}"));
    let url = format!("http://{}", service.public);
    let args = ["enrich", &input, "out.csv", "--url", &url, "--token", &token];
    let misses = || {
        let name = "contactd_requests_total{operation=\"phone\",outcome=\"miss\"}";
        usize::try_from(service.metric(name).expect("a count")).expect("small")
    };
    for wanted in [300, 1_500] {
        let mut child = service.site.spawn(&args);
        crate::service::eventually("it is on its way", || misses() > wanted);
        child.kill().expect("kills");
        child.wait().expect("ends");
        assert!(!service.site.path("out.csv").exists());
    }
    service.site.run(&args).mentions(0, "continuing");
    let asked = misses();
    assert!((URLS..=URLS + 2 * 8).contains(&asked), "{asked} requests for {URLS} URLs");
    let (first, second) = ("out.csv", "uninterrupted.csv");
    assert_eq!(enrich(&service, &token, &input, second, &[]).code, 0);
    let [first, second] =
        [first, second].map(|name| std::fs::read(service.site.path(name)).expect("an output"));
    assert!(first == second, "the outputs differ");
}
