//! What the two operations answer to valid requests.

use crate::fixture::{ADA, ADA_CANONICAL, ADA_EMAIL, ADA_PHONE, EVE, MIRA, MIRA_PHONE, NOBODY, OLD, UNA};
use crate::http::Request;
use crate::service::{EMAIL, PHONE, Service};

#[test]
fn a_detail_is_returned_with_exactly_the_two_fields() {
    let (service, token) = Service::with_people();
    for (path, field, value) in [(PHONE, "phoneNumber", ADA_PHONE), (EMAIL, "email", ADA_EMAIL)] {
        let body = format!(r#"{{"{field}":"{value}","profileUrl":"{ADA_CANONICAL}"}}"#);
        let expected = format!(
            "200\ncache-control: no-store\ncontent-length: {}\ncontent-type: application/json\n\n{body}",
            body.len()
        );
        assert_eq!(service.look_up(path, &token, ADA).shown(), expected);
    }
}

#[test]
fn every_spelling_of_a_profile_is_echoed_in_its_canonical_form() {
    let (service, token) = Service::with_people();
    for spelling in [
        "linkedin.com/in/ada-quell-1a2b3c",
        "http://de.linkedin.com/in/Ada-Quell-1A2B3C/?trk=x#top",
        "//m.linkedin.com/mwlite/in/ada%2Dquell-1a2b3c/details/skills/",
        " https://www.linkedin.com/comm/in/ada-quell-1a2b3c ",
    ] {
        let reply = service.look_up(PHONE, &token, spelling);
        assert_eq!(
            (reply.status, reply.json()["profileUrl"].as_str()),
            (200, Some(ADA_CANONICAL)),
            "{spelling}"
        );
    }
    let mira = service.look_up(PHONE, &token, MIRA);
    assert_eq!(mira.json()["phoneNumber"], MIRA_PHONE);
    assert_eq!(service.look_up(PHONE, &token, &MIRA.to_lowercase()).status, 404, "case matters on XING");
}

const ERASED: &str = "https://linkedin.com/in/erased-quell";

#[test]
fn unknown_empty_work_expired_suppressed_and_erased_cannot_be_told_apart() {
    let (service, token) = Service::with_people();
    service.site.ok(&["suppress", ADA]);
    service.site.ok(&["put", ERASED, "--phone", "+14155550177"]);
    assert_eq!(service.look_up(PHONE, &token, ERASED).status, 200);
    service.site.ok(&["erase", ERASED]);
    let shape = |url: &str| {
        let reply = service.look_up(PHONE, &token, url);
        let slug = url.rsplit('/').next().expect("a slug");
        let length = format!("content-length: {}", reply.body.len());
        reply.shown().replace(slug, "SLUG").replace(&length, "content-length: N")
    };
    let unknown = shape(NOBODY);
    assert_eq!(
        unknown,
        "404\ncache-control: no-store\ncontent-length: N\ncontent-type: application/json\n\n\
         {\"status\":\"contact_not_found\",\"message\":\"No phone number found for https://linkedin.com/in/SLUG.\"}"
    );
    for (url, what) in [
        (EVE, "without a phone"),
        (UNA, "work only"),
        (OLD, "expired"),
        (ADA, "suppressed"),
        (ERASED, "erased"),
    ] {
        assert_eq!(shape(url), unknown, "{what}");
    }
}

#[test]
fn unknown_fields_an_absent_content_type_and_a_bom_are_accepted() {
    let (service, token) = Service::with_people();
    let body = format!("\u{FEFF} {{\"x\":[1],\"profileUrl\":\"{ADA}\",\"y\":{{\"profileUrl\":1}}}}");
    let request = Request::lookup(PHONE, body).token(&token);
    assert_eq!(service.send(&request).status, 200);
    assert_eq!(service.send(&request.clone().without("Content-Type")).status, 200);
    let merge = request.without("Content-Type").header("Content-Type", "application/merge-patch+json; x=y");
    assert_eq!(service.send(&merge).status, 200);
}
