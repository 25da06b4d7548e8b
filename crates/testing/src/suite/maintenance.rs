//! Facts, change detection, maintenance.

use contactd_core::store::{DetailFilter, Store, StoreError, TakenOver, Withdrawals};
use contactd_core::{
    AdminToken, Kind, Role, Scopes, SubjectDigest, Token, TokenUpdate, UsageDelta, UserChange,
};

use super::accounts::user;
use super::{best, created, day, email, now, phone, profile, put, token};

/// The first value counts until it is forgotten.
pub async fn a_fact_is_remembered_once_and_can_be_forgotten(store: &dyn Store) {
    assert_eq!(store.fact("node").await.expect("reads"), None);
    assert_eq!(store.remember("node", "a1").await.expect("remembers"), "a1");
    assert_eq!(store.remember("node", "b2").await.expect("remembers"), "a1");
    assert_eq!(store.fact("node").await.expect("reads").as_deref(), Some("a1"));
    assert_eq!(store.fact("other").await.expect("reads"), None);
    store.forget("node").await.expect("forgets");
    assert_eq!(store.fact("node").await.expect("reads"), None);
    store.forget("node").await.expect("forgetting nothing is not an error");
    // Unlike remembering, replacing counts in any case. Its entry comes with it.
    store.replace_fact("roots", "a", None).await.expect("replaces");
    let entry = super::outbox::entry("configuration");
    store.replace_fact("roots", "a,b", Some(&entry)).await.expect("replaces");
    assert_eq!(store.fact("roots").await.expect("reads").as_deref(), Some("a,b"));
    assert_eq!(store.list_entries().await.expect("lists"), [entry]);
}

/// Tokens and suppressions have one number, details the other.
pub async fn every_change_is_detected_and_usage_is_not_a_change(store: &dyn Store) {
    let (other_secret, other) = token("ats");
    let digest = SubjectDigest { key: "k".to_owned(), bytes: [7; 32] };
    let ada = profile("ada-quell");
    let mut before = store.changes().await.expect("watches");
    assert_eq!(store.changes().await.expect("watches"), before, "nothing happened");
    assert_eq!(store.confirm_server().await.expect("confirms"), store.server(), "it is the same server");
    let mut expect = async |access: bool, details: bool, what: &str| {
        let after = store.changes().await.expect("watches");
        assert_eq!(
            (after.access != before.access, after.details != before.details),
            (access, details),
            "{what}"
        );
        before = after;
    };
    let token = created(store, "crm").await;
    expect(true, false, "a token is created").await;
    store.rotate_token(&token.id, now(), &other_secret.hash(), &other, None).await.expect("rotates");
    expect(true, false, "a token is rotated").await;
    store.update_token(&other.id, &TokenUpdate::default(), now(), None).await.expect("updates");
    expect(true, false, "a token is updated").await;
    store.revoke_token(&token.id, now(), None).await.expect("revokes");
    expect(true, false, "a token is revoked").await;
    store.suppress(std::slice::from_ref(&digest), now(), None).await.expect("suppresses");
    expect(true, false, "a suppression is added").await;
    store.unsuppress(&[digest], None).await.expect("unsuppresses");
    expect(true, false, "a suppression is removed").await;
    let used = UsageDelta { token: token.id, hits: 1, last_used_at: Some(now()), ..UsageDelta::default() };
    store.record_usage(&[used], now()).await.expect("records");
    expect(false, false, "a token is used").await;
    // Lookups do not read accounts, so nodes and servers have nothing to reload.
    store.create_user(&user("olga", Role::Admin), None).await.expect("creates");
    expect(false, false, "a user is created").await;
    let change = UserChange { last_login_at: Some(now()), ..UserChange::default() };
    store.change_user("olga", &change, None).await.expect("changes");
    expect(false, false, "a user is changed").await;
    let deploy = AdminToken::new("deploy", Role::Operator, now(), None).expect("randomness");
    store.create_admin_token(&super::token("deploy").0.hash(), &deploy, None).await.expect("creates");
    store.note_admin_token_use(&deploy.id, now()).await.expect("notes");
    expect(false, false, "an admin token is created and used").await;
    put(store, &ada, &[phone("01", 90)]).await;
    expect(false, true, "an import").await;
    store.remove_details(&ada, &DetailFilter::all(), None).await.expect("removes");
    expect(false, true, "a removal").await;
}

/// No maintenance method changes the details that are held.
pub async fn maintenance_changes_no_details(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90), email("ada")]).await;
    put(store, &eve, &[phone("02", 90)]).await;
    store.remove_details(&eve, &DetailFilter::all(), None).await.expect("removes");
    store.tidy().await.expect("tidies");
    store.wipe_removed().await.expect("wipes");
    assert!(store.flush_removed().await.expect("flushes"));
    assert_eq!(store.check().await.expect("checks"), [""; 0]);
    assert_eq!(store.list_details(&ada).await.expect("reads"), [phone("01", 90), email("ada")]);
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550101"));
}

/// What a backup needs: files to copy, and their sizes. An engine whose copies are made with other tools says so.
pub async fn a_copy_has_files_and_the_sizes_are_reported(store: &dyn Store) {
    put(store, &profile("ada-quell"), &[phone("01", 90)]).await;
    let sizes = store.sizes().await.expect("tells");
    assert!(sizes.iter().map(|part| part.bytes).sum::<u64>() > 0, "{sizes:?}");
    let dir = std::env::temp_dir().join(format!("contactd-copy-{:p}-{}", store, std::process::id()));
    std::fs::create_dir(&dir).expect("a directory");
    match store.copy_to(&dir).await {
        Ok(names) => {
            assert!(!names.is_empty());
            for name in names {
                assert!(dir.join(&name).metadata().expect("a file").len() > 0, "{name}");
            }
        }
        Err(StoreError::Unavailable(what)) => {
            assert!(what.contains("back it up"), "{what}");
            assert_eq!(std::fs::read_dir(&dir).expect("a directory").count(), 0, "nothing is written");
        }
        Err(error) => panic!("neither copies nor says who does: {error}"),
    }
    std::fs::remove_dir_all(&dir).expect("removes");
}

/// Suppressions keep their times; tokens of the other store are stored as revoked.
pub async fn withdrawals_of_another_store_are_applied_with_their_times(store: &dyn Store) {
    let ((known_secret, known), (new_secret, new)) = (token("crm"), token("ats"));
    let (old_secret, mut old) = token("old");
    old.revoked_at = Some(day("2026-01-05"));
    store.create_token(&known_secret.hash(), &known, None).await.expect("creates");
    let digest = |byte| SubjectDigest { key: "k".to_owned(), bytes: [byte; 32] };
    store.suppress(&[digest(1)], day("2026-01-01"), None).await.expect("suppresses");
    let mut revoked = known.clone();
    revoked.revoked_at = Some(day("2026-03-03"));
    let withdrawals = Withdrawals {
        suppressions: vec![(digest(1), day("2026-02-01")), (digest(2), day("2026-02-02"))],
        tokens: vec![
            (known_secret.hash(), revoked),
            (new_secret.hash(), new.clone()),
            (old_secret.hash(), old.clone()),
        ],
        ..Withdrawals::default()
    };
    let before = store.changes().await.expect("watches");
    let taken = store.take_over(&withdrawals, now()).await.expect("takes over");
    assert_eq!(taken, TakenOver { suppressions: 1, revocations: 1, ..TakenOver::default() });
    assert_ne!(store.changes().await.expect("watches").access, before.access);
    for (byte, since) in [(1, "2026-01-01"), (2, "2026-02-02")] {
        assert_eq!(store.find_suppression(&[digest(byte)]).await.expect("reads"), Some(day(since)));
    }
    let listed = store.list_tokens().await.expect("lists");
    let of = |id: &str| listed.iter().map(|(_, token)| token).find(|token| token.id == id).expect("listed");
    assert_eq!(of(&known.id).revoked_at, Some(day("2026-03-03")));
    for (token, name) in [(&new, "ats"), (&old, "old")] {
        assert_eq!((of(&token.id).revoked_at, of(&token.id).name.as_str()), (Some(now()), name));
    }
    let again = store.take_over(&withdrawals, now()).await.expect("takes over");
    assert_eq!(again, TakenOver::default());
}

/// A token that ends earlier in the other store, or has fewer scopes there, does here too; never the other way round.
pub async fn a_token_gets_the_earlier_end_and_the_fewer_scopes_of_another_store(store: &dyn Store) {
    let phone_only = Scopes { email: false, ..Scopes::ALL };
    let (early, late) = (Some(day("2026-05-01")), Some(day("2026-07-01")));
    // Its end and scopes here, those in the other store, and what it has afterwards. Now is 2026-06-01.
    let cases = [
        ((None, Scopes::ALL), (early, Scopes::ALL), (early, Scopes::ALL)),
        ((late, Scopes::ALL), (early, Scopes::ALL), (early, Scopes::ALL)),
        ((None, Scopes::ALL), (late, Scopes::ALL), (late, Scopes::ALL)),
        ((late, Scopes::ALL), (None, phone_only), (late, phone_only)),
        ((late, phone_only), (None, Scopes::ALL), (late, phone_only)),
        ((None, Scopes::ALL), (None, Scopes::ALL), (None, Scopes::ALL)),
    ];
    let (mut withdrawals, mut expected) = (Withdrawals::default(), Vec::new());
    for (number, (here, there, after)) in cases.into_iter().enumerate() {
        let (secret, token) = token(&number.to_string());
        let with = |(expires_at, scopes)| Token { expires_at, scopes, ..token.clone() };
        store.create_token(&secret.hash(), &with(here), None).await.expect("creates");
        withdrawals.tokens.push((secret.hash(), with(there)));
        expected.push((secret.hash(), with(after)));
    }
    let taken = store.take_over(&withdrawals, now()).await.expect("takes over");
    assert_eq!(taken, TakenOver { revocations: 2, restrictions: 2, ..TakenOver::default() });
    assert_eq!(store.list_tokens().await.expect("lists"), expected);
    let again = store.take_over(&withdrawals, now()).await.expect("takes over");
    assert_eq!(again, TakenOver::default());
}
