//! Accounts: users of the console, and tokens of the admin API.

use contactd_testing::TestServer;
use serde_json::{Value, json};

use crate::service::Site;

const ADMIN: [&str; 2] = ["--role", "admin"];

fn create(site: &Site, name: &str, role: &str) -> String {
    site.ok(&["user", "create", name, "--role", role])
}

fn users(site: &Site) -> Vec<Value> {
    site.run(&["user", "list", "--json"]).json().as_array().expect("a list").clone()
}

fn admin_tokens(site: &Site) -> Vec<Value> {
    site.run(&["admin-token", "list", "--json"]).json().as_array().expect("a list").clone()
}

/// The actions on record, oldest first: operation, outcome, and what it was about.
fn actions(site: &Site) -> Vec<String> {
    let shown = site.run(&["audit", "show", "--json"]).json();
    let text = |event: &Value| {
        let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", field("operation"), field("outcome"), field("what")).trim_end().to_owned()
    };
    shown.as_array().expect("a list").iter().rev().map(text).collect()
}

#[test]
fn a_one_time_password_is_alone_on_stdout_and_a_list_shows_no_secret() {
    let site = Site::empty();
    let created = site.run(&["user", "create", "olga", "--role", "admin"]);
    let password = created.stdout.trim_end();
    assert_eq!((created.code, created.stdout.as_str()), (0, format!("{password}\n").as_str()));
    let is_clear = |c: char| c == '-' || (c.is_ascii_alphanumeric() && !"01ilo".contains(c));
    assert!(password.len() == 29 && password.chars().all(is_clear), "{password}");
    assert_eq!(
        created.stderr,
        format!(
            "olga is created with the role admin {}\n\
             the password is shown only once, and olga has to change it at the first log-in\n",
            site.used()
        )
    );
    let again = site.run(&["user", "password", "olga"]);
    assert_ne!(again.stdout.trim_end(), password);
    assert_eq!(
        again.stderr,
        format!(
            "olga has a new password, and all sessions have ended {}\n\
             the password is shown only once, and olga has to change it at the first log-in\n",
            site.used()
        )
    );
    create(&site, "anna.k", "auditor");
    let (list, table) = (users(&site), site.ok(&["user", "list"]));
    assert_eq!(
        list[1],
        json!({
            "name": "olga", "role": "admin", "createdAt": list[1]["createdAt"], "disabledAt": null,
            "hasTotp": false, "mustChangePassword": true, "lastLoginAt": null,
        })
    );
    assert!(list[0]["name"] == "anna.k" && list[1]["createdAt"].is_string(), "{list:?}");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["NAME", "ROLE", "CREATED", "LAST", "LOG-IN", "TOTP", "STATE"]);
    assert_eq!(
        (lines[1][..2].to_vec(), lines[1][3..].to_vec()),
        (vec!["anna.k", "auditor"], vec!["-", "no", "one-time", "password"])
    );
    for secret in ["argon2", password, again.stdout.trim_end(), "gen_"] {
        assert!(!format!("{list:?}{table}").contains(secret), "{secret}");
    }
}

#[test]
fn every_change_of_a_user_says_what_it_did_and_is_on_record() {
    let site = Site::empty();
    create(&site, "olga", "admin");
    create(&site, "pavel", "operator");
    let used = site.used();
    for (args, expected) in [
        (&["role", "pavel", "auditor"][..], "pavel has the role auditor"),
        (&["disable", "pavel"], "pavel is disabled, and all sessions have ended"),
        (&["disable", "pavel"], "pavel is disabled, and all sessions have ended"),
        (&["enable", "pavel"], "pavel can log in"),
        (&["reset-totp", "pavel"], "pavel logs in without a second factor"),
    ] {
        let output = site.run(&[&["user"], args].concat());
        let expected = (0, "", format!("{expected} {used}\n"));
        assert_eq!((output.code, output.stdout.as_str(), output.stderr), expected, "{args:?}");
    }
    assert!(users(&site)[1]["role"] == "auditor" && users(&site)[1]["disabledAt"].is_null());
    site.ok(&["user", "disable", "pavel"]);
    assert!(users(&site)[1]["disabledAt"].is_string());
    assert!(site.ok(&["user", "list"]).contains("disabled"));
    assert_eq!(
        actions(&site),
        [
            "user create done olga as admin",
            "user create done pavel as operator",
            "user role done pavel as auditor",
            "user disable done pavel",
            "user disable done pavel",
            "user enable done pavel",
            "user reset-totp done pavel",
            "user disable done pavel",
        ]
    );
}

#[test]
fn the_last_admin_is_kept_and_mistakes_repeat_nothing_that_was_typed() {
    let site = Site::empty();
    create(&site, "olga", "admin");
    create(&site, "pavel", "admin");
    site.ok(&["user", "disable", "pavel"]);
    let last = "nothing was changed: olga is the last admin who can log in; make somebody else an admin first, with \
                `contactd user role NAME admin`";
    let name = "the name of a user has 1 to 64 lower-case letters, digits, dots, dashes or underscores, and begins with a \
                letter or a digit";
    let unknown = "there is no user with that name; `contactd user list` shows them";
    let token = "there is no admin token with that id or name; `contactd admin-token list` shows them";
    let secret = "Tr0ub4dor&3-hunter2";
    let before = users(&site);
    let noted = actions(&site).len();
    for (args, expected) in [
        (&["user", "disable", "olga"][..], last),
        (&["user", "role", "olga", "privacy"], last),
        (
            &["user", "create", "olga", ADMIN[0], ADMIN[1]],
            "there is a user olga already; `contactd user password olga` makes a new password, `contactd user role olga ROLE` \
             changes the role",
        ),
        (&["user", "create", secret, ADMIN[0], ADMIN[1]], name),
        (&["user", "create", "", ADMIN[0], ADMIN[1]], name),
        (&["user", "disable", secret], unknown),
        (&["user", "password", secret], unknown),
        (&["user", "reset-totp", secret], unknown),
        (&["user", "role", secret, "admin"], unknown),
        (&["admin-token", "revoke", secret], token),
        (
            &["admin-token", "create", " ", ADMIN[0], ADMIN[1]],
            "the name of an admin token has 1 to 100 printable characters",
        ),
    ] {
        let output = site.run(args);
        let expected = (1, "", format!("contactd: {expected}\n"));
        assert_eq!((output.code, output.stdout.as_str(), output.stderr), expected, "{args:?}");
    }
    assert_eq!(users(&site), before);
    assert_eq!(
        actions(&site)[noted..],
        [
            "user disable failed olga",
            "user role failed olga as privacy",
            "user create failed olga as admin",
            "user disable failed",
            "user password failed",
            "user reset-totp failed",
            "user role failed",
            "admin-token revoke failed",
        ]
    );
    let journal = site.ok(&["audit", "show", "--json"]);
    assert!(!journal.contains(secret));
    for args in [
        &["user", "create", "rita"][..],
        &["user", "create", "rita", "--role", "boss"],
        &["user", "role", "olga", "boss"],
    ] {
        let output = site.run(args);
        assert_eq!(output.code, 2, "{args:?}: {output:?}");
        assert!(output.stderr.contains("--role") || output.stderr.contains("auditor"), "{}", output.stderr);
    }
}

#[test]
fn an_admin_token_is_shown_once_and_revoked_by_id_or_name() {
    let site = Site::empty();
    create(&site, "olga", "admin");
    let created = site.run(&["admin-token", "create", "nightly", "--role", "operator", "--expires", "never"]);
    let secret = created.stdout.trim_end();
    assert!(secret.starts_with("cta_") && secret.len() == 42, "{created:?}");
    let listed = admin_tokens(&site);
    let id = listed[0]["id"].as_str().expect("an id");
    assert_eq!(
        (created.code, created.stderr),
        (
            0,
            format!(
                "{id} for nightly with the role operator, with no expiry; the token is shown only once {}\n",
                site.used()
            )
        )
    );
    assert_eq!(
        listed[0],
        json!({
            "id": id, "name": "nightly", "role": "operator", "state": "live", "createdAt": listed[0]["createdAt"],
            "expiresAt": null, "revokedAt": null, "lastUsedAt": null,
        })
    );
    site.ok(&["admin-token", "create", "deploy", "--role", "admin"]);
    let table = site.ok(&["admin-token", "list"]);
    assert!(table.starts_with("ID ") && !table.contains("cta_") && table.contains("never"), "{table}");
    assert!(admin_tokens(&site)[1]["expiresAt"].is_string(), "90 days, unless something else is said");
    for which in [id, "nightly"] {
        let revoked = site.run(&["admin-token", "revoke", which]);
        assert_eq!(
            (revoked.code, revoked.stderr),
            (0, format!("{id} for nightly is revoked {}\n", site.used()))
        );
    }
    let states: Vec<Value> = admin_tokens(&site).iter().map(|token| token["state"].clone()).collect();
    assert_eq!(states, ["revoked", "live"]);
    let pasted = site.run(&["admin-token", "revoke", secret]);
    assert!(pasted.code == 1 && !pasted.stderr.contains(secret), "{pasted:?}");
    assert!(!site.ok(&["audit", "show", "--json"]).contains("cta_"));
    assert_eq!(
        site.run(&["lookup", "phone", crate::fixture::ADA, "--token", secret]).code,
        1,
        "it looks nothing up"
    );
}

#[test]
fn a_restore_revives_no_account_that_ended_after_the_backup() {
    let site = Site::embedded();
    create(&site, "olga", "admin");
    create(&site, "pavel", "operator");
    site.ok(&["admin-token", "create", "nightly", "--role", "operator"]);
    site.ok(&["backup", "a.backup"]);
    site.ok(&["user", "disable", "pavel"]);
    site.ok(&["admin-token", "revoke", "nightly"]);
    let (backup, old, other) = (site.path("a.backup"), site.data(), Site::embedded());
    let (backup, old) = (backup.to_str().expect("UTF-8"), old.to_str().expect("UTF-8"));
    let restored = other.run(&["restore", backup, "--suppressions-from", old]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let words =
        "2 accounts disabled or revoked since then stayed so; passwords and roles are those of the backup";
    assert!(restored.stderr.lines().any(|line| line == words), "{restored:?}");
    assert_eq!((users(&other), admin_tokens(&other)), (users(&site), admin_tokens(&site)));
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
    let migrated = site.run(&["migrate", "--to", &url]);
    assert_eq!(migrated.code, 0, "{migrated:?}");
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
