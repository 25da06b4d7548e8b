//! Configuration: which setting takes precedence, and the messages for errors.

use crate::http::Request;
use crate::service::{PHONE, Service, Site};
use crate::transcript::{check, transcripts};

#[test]
fn a_network_from_the_file_is_served_like_the_others() {
    let config = "[networks]\nxing = false\n[[network]]\nname = \"people\"\nhost = \"people.example.com\"\nroute = \"/in/{slug}\"\n";
    let site = Site::empty();
    let file = site.file("networks.toml", config);
    site.ok(&[
        "put",
        "https://people.example.com/in/Zoe-Quell",
        "--phone",
        "+14155550123",
        "--config",
        &file,
    ]);
    let token = site.token(&[]);
    let service = site.serve_with(&[], config);
    let reply = service.look_up(PHONE, &token, "www.people.example.com/in/zoe-quell?x");
    assert_eq!(reply.json()["profileUrl"], "https://people.example.com/in/zoe-quell");
    let off = service.look_up(PHONE, &token, "https://www.xing.com/profile/Zoe_Quell");
    assert_eq!((off.status, off.header("x-invalid-reason")), (400, Some("bad_host")));
}

#[test]
fn limits_from_the_file_are_applied() {
    let (service, token) = Service::with(&[], "[limits]\nbody_bytes = 60\nprofile_url_chars = 40\n");
    let reply = service.look_up(PHONE, &token, "https://linkedin.com/in/ada-quell-1a2b3c4");
    assert_eq!((reply.status, reply.header("x-invalid-reason")), (400, Some("too_long")));
    let reply = service.send(&Request::lookup(PHONE, " ".repeat(61)).token(&token));
    assert_eq!(reply.status, 413);
}

transcripts! {
    fn a_store_that_cannot_be_used_is_refused_and_its_password_is_never_shown() { check(&Site::empty(), "store") }
    fn a_check_reports_every_error_with_its_line_and_a_suggestion() { check(&Site::empty(), "config") }
}
