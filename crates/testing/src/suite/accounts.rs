//! Users and admin tokens.

use contactd_core::store::{EntityRow, EntityTable, Store, StoreError, TakenOver, Withdrawals};
use contactd_core::{
    AdminToken, NewPassword, PasswordHash, Role, TokenSecret, TotpSeed, User, UserChange, UserChanged,
};

use super::outbox::entry;
use super::{day, now};

pub(super) fn user(name: &str, role: Role) -> User {
    let password = PasswordHash::from_store(format!("the hash of {name}"));
    User::new(name, role, password, now()).expect("randomness")
}

fn disabling() -> UserChange {
    let generation = Some("gen_next".to_owned());
    UserChange { disabled_at: Some(Some(day("2026-06-02"))), generation, ..UserChange::default() }
}

async fn recorded(store: &dyn Store) -> Vec<String> {
    let entries = store.list_entries().await.expect("lists");
    entries.into_iter().map(|entry| entry.operation).collect()
}

/// No field of a user is lost, and a name is given once.
pub async fn a_user_is_found_as_it_was_created_and_a_name_is_given_once(store: &dyn Store) {
    let pavel = user("pavel", Role::Auditor);
    let olga = User {
        disabled_at: Some(day("2026-06-02")),
        must_change_password: false,
        totp: Some(TotpSeed { key: "k1".to_owned(), salt: "a0".to_owned(), last_step: 7 }),
        last_login_at: Some(day("2026-06-03")),
        ..user("olga", Role::Admin)
    };
    for user in [&pavel, &olga] {
        assert!(store.create_user(user, Some(&entry("user create"))).await.expect("creates"));
        assert_eq!(store.find_user(&user.name).await.expect("reads").as_ref(), Some(user));
    }
    let other = user("olga", Role::Operator);
    assert!(!store.create_user(&other, Some(&entry("user create"))).await.expect("asks"));
    assert_eq!(store.find_user("nobody").await.expect("reads"), None);
    assert_eq!(store.find_user("Olga").await.expect("reads"), None);
    assert_eq!(store.list_users().await.expect("lists"), [olga, pavel], "in the order of names");
    assert_eq!(recorded(store).await, ["user create", "user create"], "not the one that was refused");
}

/// Only what is named changes, and the generation with it.
pub async fn a_change_of_a_user_changes_what_it_names(store: &dyn Store) {
    let mut olga = user("olga", Role::Operator);
    let pavel = user("pavel", Role::Operator);
    for user in [&olga, &pavel] {
        store.create_user(user, None).await.expect("creates");
    }
    let seed = TotpSeed { key: "k1".to_owned(), salt: "a0".to_owned(), last_step: 0 };
    let hash = PasswordHash::from_store("another hash".to_owned());
    let change = UserChange {
        if_generation: Some(olga.generation.clone()),
        role: Some(Role::Privacy),
        password: Some(NewPassword { hash: hash.clone(), must_change: false }),
        totp: Some(Some(seed.clone())),
        totp_step: Some(41),
        last_login_at: Some(now()),
        generation: Some("gen_next".to_owned()),
        ..UserChange::default()
    };
    olga = User {
        role: Role::Privacy,
        password: hash,
        must_change_password: false,
        totp: Some(TotpSeed { last_step: 41, ..seed }),
        last_login_at: Some(now()),
        generation: "gen_next".to_owned(),
        ..olga
    };
    let changed = store.change_user("olga", &change, Some(&entry("user role"))).await.expect("changes");
    assert_eq!(changed, UserChanged::Done(olga.clone()));
    assert_eq!(store.list_users().await.expect("lists"), [olga.clone(), pavel.clone()]);
    // Whoever decided on what was there before, or has a code that was used, comes too late.
    let used = UserChange { totp_step: Some(41), ..UserChange::default() };
    for (change, outcome) in [(&change, UserChanged::Outdated), (&used, UserChanged::Outdated)] {
        let refused = store.change_user("olga", change, Some(&entry("log in"))).await.expect("asks");
        assert_eq!(refused, outcome);
    }
    let unknown = store.change_user("nobody", &disabling(), Some(&entry("user disable"))).await;
    assert_eq!(unknown.expect("asks"), UserChanged::Unknown);
    let removed = UserChange { totp: Some(None), ..UserChange::default() };
    store.change_user("olga", &removed, None).await.expect("changes");
    assert_eq!(store.list_users().await.expect("lists"), [User { totp: None, ..olga }, pavel]);
    assert_eq!(recorded(store).await, ["user role"], "only what was done");
}

/// The first time counts, and the last admin who can log in stays one.
pub async fn the_last_admin_stays_enabled(store: &dyn Store) {
    let (olga, pavel) = (user("olga", Role::Admin), user("pavel", Role::Admin));
    for user in [&olga, &pavel] {
        store.create_user(user, None).await.expect("creates");
    }
    let out =
        User { disabled_at: Some(day("2026-06-02")), generation: "gen_next".to_owned(), ..pavel.clone() };
    let again = UserChange { disabled_at: Some(Some(day("2026-06-09"))), ..disabling() };
    for change in [&disabling(), &again] {
        let changed = store.change_user("pavel", change, None).await.expect("changes");
        assert_eq!(changed, UserChanged::Done(out.clone()));
    }
    let demoting = UserChange { role: Some(Role::Operator), ..UserChange::default() };
    for change in [&disabling(), &demoting] {
        let refused = store.change_user("olga", change, Some(&entry("user disable"))).await.expect("asks");
        assert_eq!(refused, UserChanged::LastAdmin);
    }
    assert_eq!(store.list_users().await.expect("lists"), [olga.clone(), out.clone()]);
    assert_eq!(recorded(store).await, [""; 0]);
    let enabling = UserChange { disabled_at: Some(None), ..UserChange::default() };
    let enabled = store.change_user("pavel", &enabling, None).await.expect("changes");
    assert_eq!(enabled, UserChanged::Done(User { disabled_at: None, ..out }));
    let demoted = store.change_user("olga", &demoting, None).await.expect("changes");
    assert_eq!(demoted, UserChanged::Done(User { role: Role::Operator, ..olga }));
}

/// No field of an admin token is lost, and it is found by its hash only.
pub async fn an_admin_token_is_found_by_its_hash(store: &dyn Store) {
    let new = |name: &str, at: &str| {
        let token = AdminToken::new(name, Role::Operator, day(at), Some(day("2027-01-01")));
        (TokenSecret::generate_admin().expect("randomness").hash(), token.expect("randomness"))
    };
    let ((late_hash, late), (early_hash, early)) =
        (new("deploy", "2026-06-02"), new("nightly", "2026-06-01"));
    let early = AdminToken { expires_at: None, role: Role::Admin, ..early };
    for (hash, token) in [(&late_hash, &late), (&early_hash, &early)] {
        let created = store.create_admin_token(hash, token, Some(&entry("admin-token create"))).await;
        assert_eq!(created.expect("creates"), None);
    }
    let (taken_hash, taken) = new(" DEPLOY", "2026-06-03");
    let refused = store.create_admin_token(&taken_hash, &taken, Some(&entry("admin-token create"))).await;
    assert_eq!(refused.expect("asks").as_ref(), Some(&late), "a name is given once");
    let found = store.find_admin_token(&early_hash).await.expect("reads");
    assert_eq!(found.as_ref(), Some(&early));
    let unknown = TokenSecret::generate_admin().expect("randomness").hash();
    assert_eq!(store.find_admin_token(&unknown).await.expect("reads"), None);
    assert_eq!(store.list_admin_tokens().await.expect("lists"), [early.clone(), late.clone()]);
    for at in ["2026-06-05", "2026-06-04"] {
        store.note_admin_token_use(&late.id, day(at)).await.expect("notes");
    }
    let revoked = AdminToken {
        revoked_at: Some(day("2026-06-06")),
        last_used_at: Some(day("2026-06-05")),
        ..late.clone()
    };
    for at in ["2026-06-06", "2026-06-07"] {
        let entry = entry("admin-token revoke");
        let done = store.revoke_admin_token(&late.id, day(at), Some(&entry)).await.expect("revokes");
        assert_eq!(done.as_ref(), Some(&revoked), "the first time counts");
    }
    for owner in [Some("olga"), None] {
        let given = store.give_admin_token(&early.id, owner, None).await.expect("gives").expect("known");
        assert_eq!(given, AdminToken { owner: owner.map(str::to_owned), ..early.clone() });
    }
    assert_eq!(store.give_admin_token("adm_unknown", None, None).await.expect("asks"), None);
    let nothing = store.revoke_admin_token("adm_unknown", now(), Some(&entry("admin-token revoke"))).await;
    assert_eq!(nothing.expect("asks"), None);
    assert_eq!(store.find_admin_token(&late_hash).await.expect("reads"), Some(revoked.clone()));
    assert_eq!(store.list_admin_tokens().await.expect("lists"), [early, revoked]);
    assert_eq!(recorded(store).await.len(), 4);
}

/// Accounts become as they are in another store, as a whole; those that only that store has are added, and others stay.
pub async fn accounts_become_as_they_are_in_another_store(store: &dyn Store) {
    let (olga, pavel) = (user("olga", Role::Admin), user("pavel", Role::Operator));
    let out = User { disabled_at: Some(day("2026-01-01")), ..user("rita", Role::Auditor) };
    for user in [&olga, &pavel, &out] {
        store.create_user(user, None).await.expect("creates");
    }
    let token = AdminToken::new("deploy", Role::Operator, now(), None).expect("randomness");
    let hash = TokenSecret::generate_admin().expect("randomness").hash();
    store.create_admin_token(&hash, &token, None).await.expect("creates");
    let at = day("2026-06-02");
    let seed = TotpSeed { key: "k2".to_owned(), salt: "b1".to_owned(), last_step: 9 };
    let password = PasswordHash::from_store("another".to_owned());
    let pavel = User { disabled_at: Some(at), role: Role::Auditor, totp: Some(seed), password, ..pavel };
    let rita = User { disabled_at: None, ..out };
    let new = user("zoe", Role::Operator);
    let revoked = AdminToken { revoked_at: Some(at), ..token };
    let withdrawals = Withdrawals {
        users: vec![pavel.clone(), rita.clone(), new.clone()],
        admin_tokens: vec![(hash, revoked.clone())],
        ..Withdrawals::default()
    };
    let taken = store.take_over(&withdrawals, now()).await.expect("takes over");
    let expected =
        TakenOver { ended_accounts: 2, new_accounts: 2, roles: 1, passwords: 1, ..TakenOver::default() };
    assert_eq!(taken, TakenOver { second_factors: 1, ..expected });
    assert_eq!(store.list_users().await.expect("lists"), [olga, pavel, rita, new]);
    assert_eq!(store.list_admin_tokens().await.expect("lists"), [revoked]);
    let again = store.take_over(&withdrawals, now()).await.expect("takes over");
    assert_eq!(again, TakenOver::default());
}

/// Where nobody changed rows by hand, nothing is wrong with them.
pub async fn accounts_and_state_are_those_that_were_stored(store: &dyn Store) {
    store.create_user(&user("olga", Role::Admin), None).await.expect("creates");
    store.check_accounts().await.expect("they are right");
    assert!(store.check_state(&[]).await.expect("checks").is_empty());
    assert_eq!(store.find_hooks().await.expect("looks"), None);
}

/// Rows keep the order in which they were first stored, and what was decided on them is stored or not.
pub async fn rows_are_stored_as_was_decided_on_them(store: &dyn Store) {
    let table = EntityTable::Tokens;
    let row = |id: &str, body: &str| {
        let (id, body, family) = (id.to_owned(), body.to_owned(), Some("family".to_owned()));
        EntityRow { id, family, body, last_used_at: None, hits: 0 }
    };
    let first = || Ok(Some(vec![row("b", "1"), row("a", "2")]));
    assert!(store.change_rows(table, &|_| first(), None).await.expect("stores").is_empty());
    store.note_use(table, "b", now()).await.expect("notes");
    let decided_on =
        store.change_rows(table, &|_| Ok(Some(vec![row("b", "3")])), None).await.expect("stores");
    let used = |body| EntityRow { last_used_at: Some(now().millis()), ..row("b", body) };
    assert!(decided_on == [used("1"), row("a", "2")]);
    let refused = |_: &[EntityRow]| Err(StoreError::Damaged("a row".to_owned()));
    let failed = store.change_rows(table, &refused, Some(&entry("token create"))).await;
    assert!(matches!(failed, Err(StoreError::Damaged(_))));
    assert!(store.list_rows(table).await.expect("lists") == [used("3"), row("a", "2")]);
    assert!(recorded(store).await.is_empty());
}
