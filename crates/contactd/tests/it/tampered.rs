//! Somebody who administers the database changes rows by hand.

use std::process::Command;

use contactd_testing::{program, psql};

use crate::admin_api::AdminApi;
use crate::cluster::{machine, named, nodes};
use crate::fixture::{ADA, EVE};
use crate::http::Request;
use crate::service::{PHONE, Service, Site, eventually, sqlite};
use crate::shipping::sql;

const LEASE: &str = "lease = \"2s\"\n";

const HAND: &str =
    "rows were changed, added or removed by hand. `contactd node reconcile` shows the difference";

fn url(site: &Site) -> String {
    site.database().expect("a database").to_owned()
}

/// Everything that looks for it finds it, and names the way back.
fn is_noticed(site: &Site, rows: &str) {
    let words = format!("the {rows} in the database are not those that contactd stored: {HAND}");
    for command in [&["doctor"][..], &["audit", "verify"], &["node", "verify"], &["node", "reconcile"]] {
        site.run(command).mentions(1, &words);
    }
}

fn is_whole(site: &Site) {
    for command in [&["audit", "verify"][..], &["node", "verify"], &["node", "reconcile"]] {
        site.ok(command);
    }
}

fn says(node: &Service, words: &str) {
    eventually("the node says it", || node.logged("ERROR").iter().any(|line| line.contains(words)));
}

#[test]
fn a_changed_opt_out_is_refused_by_a_new_node_and_put_back_from_one_that_holds_it() {
    let (mut nodes, token) = nodes(&["a"], LEASE);
    let node = nodes.pop().expect("a node");
    let url = url(&node.site);
    node.site.ok(&["suppress", ADA]);
    let site = node.stop();
    sql(&site, "UPDATE suppressions SET digest = sha256(digest)");
    let node = site.serve_with(&[], &named("a", LEASE));
    says(&node, "this node goes on with the tokens and opt-outs that it holds");
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    is_noticed(&node.site, "tokens and opt-outs");
    let verified = node.site.run(&["audit", "verify"]).stdout;
    assert!(
        verified.contains("is on record since") && verified.contains("and not in the store"),
        "{verified}"
    );
    let advice = node.site.run(&["node", "verify"]).stdout;
    assert!(advice.contains("Keep this data directory") && !advice.contains("node forget"), "{advice}");

    let fresh = machine(&url, &node.site).serve_unready(&named("b", LEASE));
    says(&fresh, "this node holds nothing yet and takes nothing over");
    assert_eq!(fresh.send(&Request::get("/readyz")).status, 503);
    assert_eq!(fresh.look_up(PHONE, &token, ADA).status, 503);
    let refused = fresh.site.run(&["node", "reconcile", "--yes"]);
    refused.mentions(1, "run this on the machine of node a, which holds tokens and opt-outs");

    node.site
        .run(&["node", "reconcile", "--yes"])
        .mentions(0, "missing")
        .mentions(0, "added")
        .mentions(0, "put back and sealed\n");
    fresh.wait_until_ready();
    for node in [&node, &fresh] {
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
        is_whole(&node.site);
    }
    let lines = node.site.events(&["--operation", "node reconcile"]);
    assert!(lines.iter().any(|line| line["counts"]["missing"] == 1), "{lines:?}");
    eventually("it is over", || node.metric("contactd_state_changed_by_hand") == Some(0));
}

#[test]
fn every_way_to_change_tokens_and_opt_outs_by_hand_is_noticed_and_has_no_effect_on_a_node() {
    let (nodes, token) = nodes(&["a"], LEASE);
    let node = &nodes[0];
    let url = url(&node.site);
    node.site.ok(&["suppress", EVE]);
    let older = Command::new(program("pg_dump"))
        .args(["--data-only", "--table=contactd.suppressions", &url])
        .output()
        .expect("runs");
    let older = node.site.file("older.sql", older.stdout);
    node.site.ok(&["suppress", ADA]);
    node.site.ok(&["token", "create", "narrow", "--scope", "email"]);
    for change in [
        "INSERT INTO tokens (id, family, body, number) SELECT 'tok_x', 'tok_x', replace(body, id, 'tok_x'), 1 FROM tokens LIMIT 1",
        "UPDATE tokens SET body = regexp_replace(body, 'phone.:true', 'phone\":false')",
        "DELETE FROM suppressions WHERE number = (SELECT max(number) FROM suppressions)",
        "UPDATE suppressions SET suppressed_at = (SELECT sum(suppressed_at) FROM suppressions) - suppressed_at",
        "UPDATE suppressions SET is_removed = TRUE",
        "UPDATE tokens SET body = (SELECT body FROM tokens WHERE id <> mine.id LIMIT 1) FROM tokens AS mine WHERE tokens.id = mine.id",
        "TRUNCATE suppressions",
    ] {
        sql(&node.site, change);
        if change.starts_with("TRUNCATE") {
            psql(&url, &["-f", &older]);
        }
        is_noticed(&node.site, "tokens and opt-outs");
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 404, "{change}");
        node.site.ok(&["node", "reconcile", "--yes"]);
        is_whole(&node.site);
    }
    says(node, "tokens and opt-outs in the database are not those");
    // A forged change does not begin another history.
    sql(&node.site, "UPDATE changes SET id = sha256(id) WHERE counter = 'access'");
    let doctor = node.site.run(&["doctor"]);
    assert!(doctor.stdout.contains("its newest change was not made by contactd"), "{doctor:?}");
    sql(&node.site, "UPDATE changes SET seal_tag = NULL WHERE counter = 'access'");
    let verified = node.site.run(&["audit", "verify"]);
    assert!(
        verified.stdout.contains("the newest change in the journal is not in the database"),
        "{verified:?}"
    );
    node.site.ok(&["node", "reconcile", "--yes"]);
    node.wait_until_ready();
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    is_whole(&node.site);
}

#[test]
fn a_role_that_was_changed_by_hand_lets_nobody_log_in_until_the_accounts_are_accepted() {
    let (nodes, _) = nodes(&["a"], LEASE);
    let node = &nodes[0];
    node.site.ok(&["user", "create", "anna", "--role", "admin"]);
    node.site.ok(&["user", "create", "olga", "--role", "operator"]);
    let api = AdminApi::with_role(node, "admin");
    assert_eq!(api.get("/users").status, 200);
    sql(&node.site, "UPDATE users SET body = replace(body, '\"operator\"', '\"admin\"')");
    let refused = api.get("/users");
    assert_eq!(refused.status, 503, "{}", refused.shown());
    assert!(
        refused.shown().contains("not those that contactd stored, so nobody can log in"),
        "{}",
        refused.shown()
    );
    is_noticed(&node.site, "users and admin tokens");
    says(node, "users and admin tokens in the database are not those");
    // A change that contactd makes does not take over what somebody else did.
    node.site.ok(&["user", "create", "otto", "--role", "operator"]);
    is_noticed(&node.site, "users and admin tokens");
    node.site.run(&["node", "reconcile"]).mentions(1, "nothing was changed: look at this list");
    node.site.ok(&["user", "role", "olga", "operator"]);
    let accepted = node.site.json(&["node", "reconcile", "--yes"]);
    let olga = &accepted["accounts"]["users"][1];
    assert_eq!(
        (olga["name"].as_str(), olga["role"].as_str()),
        (Some("olga"), Some("operator")),
        "{accepted}"
    );
    assert_eq!(api.get("/users").status, 200);
    is_whole(&node.site);
}

#[test]
fn a_database_without_seals_is_followed_until_it_is_sealed_but_not_by_a_new_node() {
    let (mut nodes, token) = nodes(&["a"], LEASE);
    let site = nodes.pop().expect("a node").stop();
    let url = url(&site);
    // As an earlier version made it, and as a copy of that version was.
    sql(&site, "UPDATE changes SET seal_key = NULL, seal_sum = NULL, seal_tag = NULL");
    sqlite(&site.data().join("contactd.db"), "DELETE FROM facts WHERE name = 'follows_seals'");
    let node = site.serve_with(&[], &named("a", LEASE));
    node.site.ok(&["suppress", ADA]);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404);
    says(&node, "its newest change has no seal");
    let fresh = machine(&url, &node.site).serve_unready(&named("b", LEASE));
    says(&fresh, "this node holds nothing yet and takes nothing over");
    node.site.run(&["node", "reconcile", "--yes"]).mentions(0, "put back and sealed");
    fresh.wait_until_ready();
    assert_eq!(fresh.look_up(PHONE, &token, ADA).status, 404);
    is_whole(&node.site);
    // From now on it does not do without.
    sql(&node.site, "UPDATE changes SET seal_tag = NULL; DELETE FROM suppressions");
    node.site.ok(&["put", EVE, "--phone", "+14155550144", "--source", "hand"]);
    node.site.ok(&["token", "create", "later"]);
    says(&fresh, "goes on with the tokens and opt-outs that it holds");
    assert_ne!(fresh.look_up(PHONE, &token, ADA).status, 200);
}
