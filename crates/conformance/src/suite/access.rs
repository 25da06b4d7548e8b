//! Tokens, suppressions and usage.

use contactd_core::store::ImportPlan;
use contactd_core::{
    DigestKey, DigestKeys, Rate, Scopes, Subject, SubjectDigest, Timestamp, Token, UsageDelta,
};

use super::{FullStore, day, now, profile, token};

/// No field of a token is lost.
pub async fn tokens_are_listed_as_they_were_created(store: &impl FullStore) {
    let (first_secret, first) = token("crm");
    let (second_secret, second) = token("ats");
    let second = Token {
        created_at: day("2026-06-02"),
        scopes: Scopes { phone: true, email: false },
        expires_at: Some(day("2027-01-01")),
        rate: Some(Rate { count: 50, seconds: 60, burst: 100 }),
        quota: "10/month".parse().ok(),
        ..second
    };
    store.create_token(&second_secret.hash(), &second, None).await.expect("creates");
    store.create_token(&first_secret.hash(), &first, None).await.expect("creates");
    let listed = store.list_tokens().await.expect("lists");
    assert_eq!(listed, [(first_secret.hash(), first), (second_secret.hash(), second)]);
}

/// Revoking again changes nothing; an unknown token gives `None`.
pub async fn revoking_twice_keeps_the_first_time(store: &impl FullStore) {
    let (secret, token) = token("crm");
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let revoked =
        store.revoke_token(&token.id, day("2026-06-02"), None).await.expect("revokes").expect("known");
    assert_eq!(revoked.revoked_at, Some(day("2026-06-02")));
    let again =
        store.revoke_token(&token.id, day("2026-06-03"), None).await.expect("revokes").expect("known");
    assert_eq!(again.revoked_at, Some(day("2026-06-02")));
    assert!(store.revoke_token("tok_unknown", now(), None).await.expect("asks").is_none());
}

/// Rotating again can only make the old token expire earlier.
pub async fn rotating_keeps_both_until_the_overlap_ends(store: &impl FullStore) {
    let (old_secret, old) = token("crm");
    store.create_token(&old_secret.hash(), &old, None).await.expect("creates");
    for (ends_at, expected) in
        [("2026-06-05", "2026-06-05"), ("2026-06-09", "2026-06-05"), ("2026-06-03", "2026-06-03")]
    {
        let (new_secret, new) = token("crm");
        let done = store.rotate_token(&old.id, day(ends_at), &new_secret.hash(), &new, None).await;
        assert!(done.expect("rotates"));
        let listed = store.list_tokens().await.expect("lists");
        let kept = listed.iter().find(|(_, token)| token.id == old.id).expect("kept");
        assert_eq!(kept.1.expires_at, Some(day(expected)));
        assert!(listed.iter().any(|(hash, _)| *hash == new_secret.hash()));
    }
}

/// Either both tokens change or neither does.
pub async fn rotating_an_unknown_or_revoked_token_creates_none(store: &impl FullStore) {
    let (secret, new) = token("crm");
    assert!(!store.rotate_token("tok_unknown", now(), &secret.hash(), &new, None).await.expect("asks"));
    assert!(store.list_tokens().await.expect("lists").is_empty());
    let (old_secret, old) = token("ats");
    store.create_token(&old_secret.hash(), &old, None).await.expect("creates");
    store.revoke_token(&old.id, now(), None).await.expect("revokes");
    assert!(!store.rotate_token(&old.id, now(), &secret.hash(), &new, None).await.expect("asks"));
    assert_eq!(store.list_tokens().await.expect("lists").len(), 1, "a revoked token cannot be rotated");
}

fn digests() -> Vec<SubjectDigest> {
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key");
    let profiles = [profile("ada-quell"), profile("eve-nuvel")];
    profiles.iter().filter_map(|profile| keys.digest(Subject::Profile(profile))).collect()
}

/// Suppressing twice is not an error.
pub async fn suppressing_twice_is_one_suppression(store: &impl FullStore) {
    assert_eq!(store.suppress(&digests()[..1], now(), None).await.expect("suppresses"), 1);
    assert_eq!(store.suppress(&digests(), now(), None).await.expect("suppresses"), 1);
    assert_eq!(store.list_suppressions().await.expect("lists").len(), 2);
}

/// Only the named suppressions are removed.
pub async fn suppressions_can_be_removed(store: &impl FullStore) {
    store.suppress(&digests(), now(), None).await.expect("suppresses");
    assert_eq!(store.unsuppress(&digests()[..1], None).await.expect("unsuppresses"), 1);
    assert_eq!(store.unsuppress(&digests()[..1], None).await.expect("unsuppresses"), 0);
    assert_eq!(store.list_suppressions().await.expect("lists"), digests()[1..]);
}

/// The earliest time counts, whichever key it was made with.
pub async fn a_suppression_is_found_with_its_time(store: &impl FullStore) {
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32]), DigestKey::new(&[2; 32])]).expect("keys");
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let digests = keys.all_digests(Subject::Profile(&ada));
    assert_eq!(store.find_suppression(&digests).await.expect("reads"), None);
    store.suppress(&digests[1..], day("2026-05-02"), None).await.expect("suppresses");
    store.suppress(&digests[..1], day("2026-05-01"), None).await.expect("suppresses");
    assert_eq!(store.find_suppression(&digests).await.expect("reads"), Some(day("2026-05-01")));
    let others = keys.all_digests(Subject::Profile(&bo));
    assert_eq!(store.find_suppression(&others).await.expect("reads"), None);
}

/// Counts of one day add up, and the token's last use is stored.
pub async fn usage_adds_up_by_day(store: &impl FullStore) {
    let (secret, token) = token("crm");
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let delta = |at: Timestamp| UsageDelta {
        token: token.id.clone(),
        hits: 2,
        misses: 1,
        refused: 0,
        last_used_at: Some(at),
    };
    for date in ["2026-06-01", "2026-06-01", "2026-06-02"] {
        store.record_usage(&[delta(day(date))], day(date)).await.expect("records");
    }
    assert_eq!(store.hits_since(&token.id, day("2026-06-01").day()).await.expect("reads"), 6);
    assert_eq!(store.hits_since(&token.id, day("2026-06-02").day()).await.expect("reads"), 2);
    let (_, listed) = store.list_tokens().await.expect("lists").remove(0);
    assert_eq!((listed.hits, listed.last_used_at), (6, Some(day("2026-06-02"))));
}

/// A long import never delays a revocation or an opt-out.
pub async fn opt_outs_and_revocations_do_not_wait_for_an_import(store: &impl FullStore) {
    let (secret, token) = token("crm");
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let import = store.begin_import(&ImportPlan::of(1, now())).await.expect("begins");
    assert_eq!(store.suppress(&digests(), now(), None).await.expect("suppresses"), 2);
    assert!(store.revoke_token(&token.id, now(), None).await.expect("revokes").is_some());
    drop(import);
}
