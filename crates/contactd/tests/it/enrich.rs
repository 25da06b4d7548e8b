//! Enriching a CSV through a running service.

use crate::fixture::ADA;
use crate::service::Service;
use crate::transcript::{check_serving, check_with_people, transcripts};

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

transcripts! {
    fn no_cell_is_run_as_a_formula() { check_with_people("enrich") }
    fn errors_are_reported_and_no_value_is_written_to_the_wrong_place() {
        check_serving(&Service::with(&["--quota", "1/month"], ""), "enrich_refused")
    }
}

#[test]
fn it_waits_for_a_rate_limit() {
    let (service, token) = Service::with(&["--rate", "10/s", "--burst", "3"], "");
    let rows: String = (0..20).map(|n| format!("https://linkedin.com/in/wait-quell-{n}\n")).collect();
    let input = service.site.file("in.csv", format!("profileUrl\n{rows}"));
    let started = std::time::Instant::now();
    let output = enrich(&service, &token, &input, "out.csv", &["--only", "phone", "--json"]);
    assert_eq!((output.code, &output.json()["phone"]["not_found"]), (0, &20.into()), "{output:?}");
    assert!(started.elapsed().as_secs_f64() > 1.0, "it waited");
}

#[test]
fn a_killed_run_continues_where_it_stopped() {
    const URLS: usize = 1_000;
    let (service, token) = Service::with_people();
    let rows: String =
        (0..URLS + 200).map(|n| format!("{n},https://linkedin.com/in/kill-quell-{}\n", n % URLS)).collect();
    let input = service.site.file("in.csv", format!("id,profileUrl\n{ADA},{ADA}\n{rows}"));
    let url = format!("http://{}", service.public);
    let args = ["enrich", &input, "out.csv", "--url", &url, "--token", &token];
    let misses = || {
        let name = "contactd_requests_total{operation=\"phone\",outcome=\"miss\"}";
        usize::try_from(service.metric(name).expect("a count")).expect("small")
    };
    for wanted in [100, 500] {
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
