//! The inputs of the fuzz targets of this crate, replayed. The one for HTTP compares with hyper and llhttp and needs `node`.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/checks/http.rs"]
mod http;
#[path = "../../../fuzz/checks/seeds.rs"]
mod seeds;
#[path = "../../../fuzz/checks/submission.rs"]
mod submission;

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
