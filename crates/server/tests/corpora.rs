//! The inputs of the fuzz targets of this crate, replayed. The one for HTTP compares with hyper and llhttp and needs `node`.
//! `requests.txt` says of further inputs which requests are served.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/checks/http.rs"]
mod http;
#[path = "../../../fuzz/checks/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/checks/submission.rs"]
mod submission;

use contactd_server::fuzzing::{Seen, requests};

#[test]
fn hyper_and_llhttp_read_what_we_accept_as_we_do() {
    let inputs = seeds::inputs("http");
    let mut others = http::Others::new();
    let accepted: Vec<usize> = inputs.iter().map(|input| http::check(&mut others, input)).collect();
    let has = |requests: fn(&usize) -> bool| accepted.iter().filter(|&found| requests(found)).count();
    let (refused, one, several) = (has(|&n| n == 0), has(|&n| n == 1), has(|&n| n > 1));
    assert!(refused > 200 && one > 100 && several > 100, "{refused}, {one}, {several}");
}

#[test]
fn a_profile_url_is_found_where_serde_finds_it() {
    for input in seeds::inputs("submission") {
        submission::check(&input);
    }
}

/// A line has the requests that are served, with their bodies, or `-`; then the bytes that arrive.
#[test]
fn only_requests_that_have_one_meaning_are_served() {
    for line in include_str!("requests.txt").lines() {
        let (expected, input) = line.split_once(" | ").expect("two columns");
        let input = seeds::unescaped(input);
        for piece in [1, 5, input.len()] {
            let served: Vec<String> = requests(&input, piece).iter().map(shown).collect();
            let served = if served.is_empty() { "-".to_owned() } else { served.join("; ") };
            assert_eq!(served, expected, "{line}, in pieces of {piece}");
        }
    }
}

fn shown(Seen { method, path, body, closes, .. }: &Seen) -> String {
    let body = if body.is_empty() { String::new() } else { format!(" {}", String::from_utf8_lossy(body)) };
    format!("{method} {path}{body}{}", if *closes { ", closes" } else { "" })
}
