//! Tokens for agents: they have a quota, and something to look up.

use serde_json::json;

use super::{AGENT, call, modern, structured};
use crate::admin_api::{AdminApi, BASE};
use crate::fixture::ADA;
use crate::http::Request;
use crate::service::{PHONE, Site};

#[test]
fn a_token_for_agents_needs_a_quota_and_a_scope_to_look_up() {
    let site = Site::embedded();
    let create = |flags: &[&str]| site.run(&[&["token", "create", "assistant"], flags].concat());
    create(&["--scope", "mcp", "--scope", "phone"]).says(
        2,
        "contactd: the scope mcp needs a quota, such as --quota 100/day: an agent decides by itself how often it asks\n",
    );
    create(&["--scope", "mcp", "--quota", "5/day"]).says(
        2,
        "contactd: the scope mcp needs the scope phone or email beside it: add --scope phone or --scope email\n",
    );
    assert!(!site.data().exists(), "nothing was made");
    create(&["--scope", "mcp", "--scope", "email", "--quota", "5/day"]).mentions(0, "ctd_");
    assert_eq!(site.list(&["token", "list"])[0]["scopes"], json!(["email", "mcp"]));
}

#[test]
fn a_token_for_agents_cannot_lose_its_quota() {
    let site = Site::with_people();
    let token = site.token(&AGENT);
    let plain = site.token(&[]);
    let update = |name: &str, flags: &[&str]| site.run(&[&["token", "update", name], flags].concat());
    let refused = "contactd: the scope mcp needs a quota\n";
    update("test", &["--quota", "none"]).says(1, refused);
    update("test-2", &["--scope", "mcp", "--scope", "phone"]).says(1, refused);
    update("test", &["--scope", "mcp"])
        .says(1, "contactd: the scope mcp needs the scope phone or email beside it\n");
    update("test-2", &["--scope", "mcp", "--scope", "phone", "--quota", "5/day"])
        .mentions(0, "phone+email -> phone+mcp");
    let rotated = site.ok(&["token", "rotate", "test"]);
    let ids: Vec<_> = site.list(&["token", "list"]).iter().map(|token| token["id"].clone()).collect();
    let newest = ids[2].as_str().expect("an id");
    update(newest, &["--scope", "phone", "--quota", "none"]).says(1, refused);
    let service = site.serve();
    for token in [&token, &plain, &rotated] {
        assert_eq!(structured(&service.send(&call(token, "fetch_phone_number", ADA)))["found"], true);
    }
    let update = |name: &str, flags: &[&str]| service.site.run(&[&["token", "update", name], flags].concat());
    update("test-2", &["--scope", "phone"]).mentions(0, "phone+mcp -> phone");
    assert_eq!(service.send(&modern(&plain, "tools/list", &json!({}))).status, 401);
    assert_eq!(service.look_up(PHONE, &plain, ADA).status, 200);
}

#[test]
fn the_admin_api_refuses_the_same() {
    let service = Site::empty().serve();
    let admin = AdminApi::with_role(&service, "admin");
    let create = |body| admin.post("/tokens", &body);
    let reply = create(json!({ "name": "assistant", "scopes": ["mcp", "phone"] }));
    assert_eq!((reply.status, &reply.json()["message"]), (400, &json!("The scope mcp needs a quota.")));
    let reply = create(json!({ "name": "assistant", "scopes": ["mcp"], "quota": "5/day" }));
    assert_eq!(
        (reply.status, &reply.json()["message"]),
        (400, &json!("The scope mcp needs the scope phone or email beside it."))
    );
    let made = create(json!({ "name": "assistant", "scopes": ["mcp", "phone"], "quota": "5/day" }));
    assert_eq!((made.status, &made.json()["scopes"]), (201, &json!(["phone", "mcp"])));
    let id = made.json()["id"].as_str().expect("an id").to_owned();
    let change =
        Request::new("PATCH", &format!("{BASE}/tokens/{id}")).header("Content-Type", "application/json");
    let changed = admin.send(change.body(json!({ "quota": "none" }).to_string()));
    assert_eq!((changed.status, &changed.json()["message"]), (400, &json!("The scope mcp needs a quota.")));
}
