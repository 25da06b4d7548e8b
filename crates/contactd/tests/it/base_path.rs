//! A base path moves every public path and nothing else.

use crate::fixture::ADA;
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Site};

#[test]
fn every_public_path_moves_and_messages_do_not() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve_with(&["--base-path", "/contacts/"], "");
    let lookup =
        |path: &str, url: &str| service.send(&Request::lookup(path, profile_body(url)).token(&token));
    assert_eq!(lookup("/contacts/api/fetchPhoneNumber", ADA).status, 200);
    let refused = lookup("/contacts/api/fetchPhoneNumber", "x").json();
    assert_eq!(refused["message"], "Invalid profileUrl: x on /api/fetchPhoneNumber api call.");
    assert_eq!(lookup(PHONE, ADA).status, 404);
    assert_eq!(lookup("/contactsapi/fetchPhoneNumber", ADA).status, 404);
    for path in
        ["/healthz", "/readyz", "/openapi.json", "/openapi.yaml", "/docs", "/docs/app.js", "/docs/style.css"]
    {
        assert_eq!(service.send(&Request::get(&format!("/contacts{path}"))).status, 200, "{path}");
        assert_eq!(service.send(&Request::get(path)).status, 404, "{path}");
    }
    for path in ["/contacts", "/contacts/"] {
        let root = service.send(&Request::get(path));
        assert_eq!((root.status, root.header("location")), (307, Some("/contacts/docs")), "{path}");
    }
    assert_eq!(service.send(&Request::get("/")).status, 404);
    let openapi = service.send(&Request::get("/contacts/openapi.json")).json();
    assert_eq!(openapi["servers"][0]["url"], "/contacts");
    assert_eq!(service.ask_admin(&Request::get("/metrics")).status, 200, "the admin listener does not move");
}
