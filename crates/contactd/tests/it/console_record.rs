//! Everything that is done through the admin API is on record, with the name of who did it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admin_api::{AdminApi, BASE};
use crate::fixture::ADA;
use crate::http::{Reply, Request};
use crate::service::{Site, assert_has};

/// The operations that the calls below leave in the journal. Views of the journal itself, of counts and of settings show nobody, and
/// leave none.
const RECORDED: [&str; 27] = [
    "admin-token create",
    "admin-token revoke",
    "admin-token take-over",
    "erase",
    "export",
    "export download",
    "import",
    "import check",
    "import preview",
    "import rejects",
    "imports undo",
    "put",
    "remove",
    "subject",
    "subject search",
    "suppress",
    "sweep",
    "token create",
    "token revoke",
    "token rotate",
    "token update",
    "unsuppress",
    "user create",
    "user disable",
    "user enable",
    "user password",
    "user role",
];

/// What the console calls operations.
const WORDS: &str = include_str!("../../../admin/assets/console/operations.js");

#[test]
fn every_view_of_personal_data_and_every_change_has_its_line_with_the_name() {
    let service = Site::with_people().serve();
    let api = AdminApi::with_role(&service, "admin");
    let done = |reply: Reply| {
        assert!((200..300).contains(&reply.status), "{}", reply.shown());
        reply
    };
    let post = |path: &str, body: Value| done(api.post(path, &body));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();

    let token = text(&post("/tokens", json!({ "name": "shop" })).json()["id"]);
    let patch = Request::new("PATCH", &format!("{BASE}/tokens/{token}"));
    done(api.send(patch.header("Content-Type", "application/json").body(r#"{"rate":"50/s"}"#)));
    let next = text(&post(&format!("/tokens/{token}/rotate"), json!({})).json()["id"]);
    post(&format!("/tokens/{next}/revoke"), json!({}));

    post("/people/search", json!({ "q": ADA }));
    post("/people/report", json!({ "q": ADA, "ticket": "DSR-1" }));
    post(
        "/people/correct",
        json!({ "profileUrl": ADA, "kind": "phone", "value": "+14155550199", "label": "personal", "ticket": "DSR-1" }),
    );
    post(
        "/people/remove",
        json!({ "profileUrl": ADA, "kind": "phone", "value": "+14155550199", "source": "manual", "ticket": "DSR-1" }),
    );
    post("/people/opt-out", json!({ "q": ADA, "ticket": "DSR-1" }));
    post("/opt-outs/withdraw", json!({ "q": ADA, "ticket": "DSR-1" }));
    post("/people/erase", json!({ "q": ADA, "ticket": "DSR-1" }));

    let people =
        "profileUrl,phone\nhttps://www.linkedin.com/in/bo-quell-2b3c4d,+14155550142\nnobody,+14155550143\n";
    let upload = Request::new("POST", &format!("{BASE}/uploads")).header("X-File-Name", "people.csv");
    let upload =
        done(api.send(upload.header("Content-Type", "application/octet-stream").body(people))).json();
    let mut import = json!({ "upload": upload["id"], "source": "fair", "mapping": {}, "requireBasis": false, "replaceSource": false,
        "maxRejects": "50%", "dryRun": true });
    api.ended(&post("/imports", import.clone()));
    import["dryRun"] = json!(false);
    let imported = api.ended(&post("/imports", import));
    assert_eq!(imported["state"], "done", "{imported}");
    done(api.download(&format!("/jobs/{}/rejects", text(&imported["id"]))));
    let number = imported["result"]["id"].as_i64().expect("a number");
    for started in [
        post(&format!("/imports/{number}/undo"), json!({})),
        post("/exports", json!({ "format": "csv", "ticket": "DSR-2" })),
        post("/retention/sweep", json!({ "dryRun": false })),
        post("/audit/verify", json!({})),
        post("/audit/proof", json!({ "since": "2026-01-01", "until": "2100-01-01" })),
    ] {
        let ended = api.ended(&started);
        assert_eq!(ended["state"], "done", "{ended}");
        if ended["kind"] == "export" {
            done(api.download(&format!("/jobs/{}/file", text(&ended["id"]))));
        }
    }
    for path in
        ["/audit", "/audit/summary", "/usage?by=token", "/tokens", "/imports", "/overview", "/retention"]
    {
        done(api.get(path));
    }

    post("/users", json!({ "name": "uwe", "role": "auditor" }));
    post("/users/uwe/role", json!({ "role": "privacy" }));
    post("/users/uwe/password", json!({}));
    post("/users/uwe/disable", json!({}));
    post("/users/uwe/enable", json!({}));
    let other = text(&post("/admin-tokens", json!({ "name": "other", "role": "auditor" })).json()["id"]);
    post(&format!("/admin-tokens/{other}/take-over"), json!({}));
    post(&format!("/admin-tokens/{other}/revoke"), json!({}));

    let lines = service.site.events(&["--actor", "admin"]);
    let found: BTreeSet<&str> =
        lines.iter().map(|line| line["operation"].as_str().expect("a name")).collect();
    assert_eq!(found, BTreeSet::from(RECORDED));
    for operation in found {
        assert!(WORDS.contains(&format!("['{operation}', '")), "the console has no words for {operation}");
    }
    let tokens = service.site.list(&["admin-token", "list"]);
    let actor = format!("admin ({})", tokens[0]["id"].as_str().expect("an id"));
    for line in &lines {
        assert_has(line, json!({ "actor": actor, "via": "admin API" }));
    }
    let of_case = lines.iter().filter(|line| line["ticket"] == "DSR-1");
    let of_case: BTreeSet<&str> = of_case.filter_map(|line| line["operation"].as_str()).collect();
    assert_eq!(of_case, BTreeSet::from(["erase", "put", "remove", "subject", "suppress", "unsuppress"]));
    let fetched = lines.iter().find(|line| line["operation"] == "export download").expect("a line");
    assert_eq!(fetched["ticket"], "DSR-2", "{fetched}");
    let previews = lines.iter().filter(|line| line["operation"] == "import preview");
    assert_eq!(previews.count(), 1, "sending a file shows its first values");
}
