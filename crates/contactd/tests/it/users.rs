//! Accounts: users of the console, and tokens of the admin API.

use contactd_testing::TestServer;
use serde_json::Value;

use crate::fixture::ADA;
use crate::service::Site;
use crate::transcript::{check, transcripts};

fn create(site: &Site, name: &str, role: &str) -> String {
    site.ok(&["user", "create", name, "--role", role])
}

fn users(site: &Site) -> Vec<Value> {
    site.list(&["user", "list"])
}

fn admin_tokens(site: &Site) -> Vec<Value> {
    site.list(&["admin-token", "list"])
}

transcripts! {
    fn a_password_is_shown_once_and_every_change_of_a_user_is_on_record() { check(&Site::empty(), "users") }
    fn the_last_admin_is_kept_and_mistakes_repeat_nothing_that_was_typed() { check(&Site::empty(), "users_refused") }
}

#[test]
fn an_admin_token_is_shown_once_and_revoked_by_id_or_name() {
    let site = Site::empty();
    check(&site, "admin_tokens");
    let secret = site.issue("admin-token", "deploy", &["--role", "operator"]);
    assert_eq!(site.run(&["lookup", "phone", ADA, "--token", &secret]).code, 1, "it looks nothing up");
}

#[test]
fn a_migration_moves_accounts_into_the_database_and_leaves_none_in_the_files() {
    let site = Site::embedded();
    create(&site, "olga", "admin");
    create(&site, "pavel", "operator");
    site.ok(&["user", "disable", "pavel"]);
    site.ok(&["admin-token", "create", "nightly", "--role", "operator"]);
    let before = (users(&site), admin_tokens(&site));
    let url = TestServer::shared().database();
    site.ok(&["migrate", "--to", &url]);
    let bytes = std::fs::read(site.data().join("contactd.db")).expect("reads");
    assert!(
        !bytes.windows(7).any(|window| window == b"$argon2"),
        "no hash of a password is left in the files"
    );
    let site = site.moved_to(&url);
    assert_eq!((users(&site), admin_tokens(&site)), before);
    site.ok(&["user", "enable", "pavel"]);
    assert_eq!(users(&site)[1]["disabledAt"], Value::Null);
}
