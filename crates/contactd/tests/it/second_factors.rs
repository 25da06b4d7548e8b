//! The key of second factors: what a backup does not tell, and what a restore keeps of accounts.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::console::{Browser, OWN_PASSWORD, code, log_in, log_in_with};
use crate::service::{Service, Site, eventually};

fn key(site: &Site) -> PathBuf {
    site.data().join("keys/second-factor.key")
}

/// The role of a user, and the state of the account.
fn user(site: &Site, name: &str) -> Value {
    let users = site.list(&["user", "list"]);
    let user = users.into_iter().find(|user| user["name"] == name).unwrap_or_default();
    json!([user["role"], user["hasTotp"], user["disabledAt"].is_string()])
}

/// The codes of refused log-ins: without a code, and with the one that an app shows.
fn refused(service: &Service, name: &str, secret: &str) -> [(u16, Value); 2] {
    [None, Some(code(secret, 1))].map(|code| {
        let reply = log_in_with(service, name, OWN_PASSWORD, code);
        (reply.status, reply.json()["status"].clone())
    })
}

#[test]
fn a_backup_tells_no_second_factor_and_without_the_key_nobody_logs_in_until_it_is_reset() {
    let service = Site::embedded().serve();
    assert!(!key(&service.site).exists(), "it is made when it is needed");
    let secret = Browser::with_role(&service, "olga", "admin").set_up_totp();
    let mode = std::fs::metadata(key(&service.site)).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    service.site.ok(&["backup", "a.backup"]);
    let other = Site::embedded();
    let restored = other.run(&["restore", &service.site.place("a.backup"), "--accept-lost-opt-outs"]);
    let lacks = "these users cannot log in, because the key of their second factor is not the one in keys/second-factor.key: olga";
    restored.mentions(0, lacks);
    restored.mentions(0, "\n  users: olga (admin)\n  admin tokens: none\n  tokens: none\n");
    assert!(!key(&other).exists());
    other.run(&["doctor"]).mentions(1, lacks);

    let other = other.serve();
    let unavailable = (503, json!("second_factor_unavailable"));
    assert_eq!(refused(&other, "olga", &secret), [unavailable.clone(), unavailable.clone()]);
    assert_eq!(log_in(&other, "olga", "a wrong password").status, 401);
    let told = "\"a second factor cannot be checked, so its user is not logged in\"";
    eventually("it is logged", || other.log.text().contains(told));
    let pavel = Browser::with_role(&other, "pavel", "operator");
    let second = pavel.post("/me/totp", &json!({}));
    assert_eq!((second.status, &second.json()["status"]), (503, &unavailable.1), "there is one key");
    std::fs::copy(key(&service.site), key(&other.site)).expect("copies");
    other.site.ok(&["doctor"]);
    assert_eq!(log_in_with(&other, "olga", OWN_PASSWORD, Some(code(&secret, 1))).status, 200);
    // Another key is no better than none, and one that cannot be read neither.
    for damaged in ["0".repeat(64), "not a key".to_owned()] {
        std::fs::write(key(&other.site), damaged).expect("writes");
        assert_eq!(refused(&other, "olga", &secret), [unavailable.clone(), unavailable.clone()]);
    }
    std::fs::remove_file(key(&other.site)).expect("removes");
    other.site.ok(&["user", "reset-totp", "olga"]);
    assert_eq!(log_in(&other, "olga", OWN_PASSWORD).status, 200);
    let new = pavel.set_up_totp();
    assert_eq!(log_in_with(&other, "pavel", OWN_PASSWORD, Some(code(&new, 1))).status, 200);
    assert_ne!(std::fs::read(key(&other.site)).ok(), std::fs::read(key(&service.site)).ok());
}

#[test]
fn a_restore_keeps_roles_passwords_second_factors_and_ended_accounts_of_since_then() {
    let service = Site::embedded().serve();
    let site = &service.site;
    let [_, rita, gone, old] =
        ["olga", "rita", "gone", "old"].map(|name| Browser::with_role(&service, name, "admin"));
    site.ok(&["admin-token", "create", "nightly", "--role", "operator"]);
    site.ok(&["backup", "a.backup"]);
    // A demoted admin, one who is disabled, a new password, a second factor, a new account.
    let secret = rita.set_up_totp();
    site.ok(&["user", "role", "rita", "auditor"]);
    site.ok(&["user", "disable", "gone"]);
    let password = site.ok(&["user", "password", "old"]);
    site.ok(&["admin-token", "revoke", "nightly"]);
    Browser::with_role(&service, "new", "privacy");
    drop((gone, old));

    let other = Site::embedded();
    let words = "of accounts, this was kept as it became since then: 2 disabled or revoked accounts, 1 new account, 1 role, \
                 1 password, 1 second factor\n";
    other.restore(site).mentions(0, words);
    let expected = |name: &str| user(site, name);
    for name in ["olga", "rita", "gone", "old", "new"] {
        assert_eq!(user(&other, name), expected(name), "{name}");
    }
    assert_eq!(user(&other, "rita"), json!(["auditor", true, false]));
    assert_eq!(other.list(&["admin-token", "list"]), site.list(&["admin-token", "list"]));
    let line = &other.events(&["--operation", "restore"])[0]["counts"];
    for (count, expected) in
        [("accountsEnded", 2), ("accountsAdded", 1), ("rolesKept", 1), ("passwordsKept", 1)]
    {
        assert_eq!(line[count], expected, "{line}");
    }
    let other = other.serve();
    assert_eq!(log_in(&other, "rita", OWN_PASSWORD).json()["status"], "code_needed");
    let rita = log_in_with(&other, "rita", OWN_PASSWORD, Some(code(&secret, 1)));
    assert_eq!(rita.json()["user"]["role"], "auditor", "{}", rita.shown());
    assert_eq!(log_in(&other, "gone", OWN_PASSWORD).status, 401);
    assert_eq!(log_in(&other, "old", OWN_PASSWORD).status, 401, "the password has ended");
    assert_eq!(log_in(&other, "old", &password).status, 200);
    assert_eq!(log_in(&other, "new", OWN_PASSWORD).status, 200);
}
