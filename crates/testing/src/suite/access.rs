//! Tokens, suppressions and usage.

use std::time::Duration;

use contactd_core::store::{DayHits, ImportPlan, Store};
use contactd_core::{
    DigestKey, DigestKeys, Lifetime, OrNone, Rate, Scopes, Subject, SubjectDigest, Timestamp, Token,
    TokenSecret, TokenUpdate, UsageDelta,
};

use super::{created, day, now, profile, token};

/// No field of a token is lost.
pub async fn tokens_are_listed_as_they_were_created(store: &dyn Store) {
    let (first_secret, first) = token("crm");
    let (second_secret, second) = token("ats");
    let second = Token {
        created_at: day("2026-06-02"),
        scopes: Scopes { email: false, ..Scopes::ALL },
        expires_at: Some(day("2027-01-01")),
        rate: Some(Rate { count: 50, seconds: 60, burst: 100 }),
        quota: "10/month".parse().ok(),
        lifetime: Lifetime::For(Duration::from_secs(90 * 86_400)),
        family: first.id.clone(),
        rotated_from: Some(first.id.clone()),
        ..second
    };
    store.create_token(&second_secret.hash(), &second, None).await.expect("creates");
    store.create_token(&first_secret.hash(), &first, None).await.expect("creates");
    let listed = store.list_tokens().await.expect("lists");
    assert_eq!(listed, [(first_secret.hash(), first), (second_secret.hash(), second)]);
}

/// Revoking again changes nothing; an unknown token gives `None`.
pub async fn revoking_twice_keeps_the_first_time(store: &dyn Store) {
    let token = created(store, "crm").await;
    let revoked =
        store.revoke_token(&token.id, day("2026-06-02"), None).await.expect("revokes").expect("known");
    assert_eq!(revoked.revoked_at, Some(day("2026-06-02")));
    let again =
        store.revoke_token(&token.id, day("2026-06-03"), None).await.expect("revokes").expect("known");
    assert_eq!(again.revoked_at, Some(day("2026-06-02")));
    assert!(store.revoke_token("tok_unknown", now(), None).await.expect("asks").is_none());
}

/// Rotating again can only make the old token expire earlier.
pub async fn rotating_keeps_both_until_the_overlap_ends(store: &dyn Store) {
    let old = created(store, "crm").await;
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

/// An unknown token is not rotated. A revoked one stays as it is, and is continued.
pub async fn rotating_continues_what_has_ended_and_nothing_unknown(store: &dyn Store) {
    let (secret, new) = token("crm");
    assert!(!store.rotate_token("tok_unknown", now(), &secret.hash(), &new, None).await.expect("asks"));
    assert!(store.list_tokens().await.expect("lists").is_empty());
    let (old_secret, old) = token("ats");
    store.create_token(&old_secret.hash(), &old, None).await.expect("creates");
    let revoked = store.revoke_token(&old.id, now(), None).await.expect("revokes").expect("known");
    assert!(store.rotate_token(&old.id, now(), &secret.hash(), &new, None).await.expect("asks"));
    let listed = store.list_tokens().await.expect("lists");
    assert!(listed.contains(&(old_secret.hash(), revoked)) && listed.contains(&(secret.hash(), new)));
}

/// A name belongs to one family, also after all of it has ended.
pub async fn a_name_that_another_family_has_or_had_is_refused(store: &dyn Store) {
    let (secret, first) = token("crm");
    assert_eq!(store.create_token(&secret.hash(), &first, None).await.expect("creates"), None);
    for name in ["crm", " CRM"] {
        let (secret, other) = token(name);
        let namesake = store.create_token(&secret.hash(), &other, None).await.expect("asks");
        assert_eq!(namesake.map(|token| token.family).as_ref(), Some(&first.family));
        let again = Token { family: first.family.clone(), ..other };
        assert_eq!(store.create_token(&secret.hash(), &again, None).await.expect("creates"), None);
        store.revoke_token(&again.id, now(), None).await.expect("revokes");
        store.revoke_token(&first.id, now(), None).await.expect("revokes");
    }
    assert_eq!(store.list_tokens().await.expect("lists").len(), 3);
}

/// Only what is named changes, and only of a token that is live.
pub async fn an_update_changes_what_it_names(store: &dyn Store) {
    let (secret, token) = token("crm");
    let token = Token { rate: "50/s".parse().ok(), quota: "10/day".parse().ok(), ..token };
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    let phone_only = Scopes { email: false, ..Scopes::ALL };
    let lifetime = Lifetime::For(Duration::from_secs(86_400));
    let mut expected = token.clone();
    for update in [
        TokenUpdate { scopes: Some(phone_only), ..TokenUpdate::default() },
        TokenUpdate { lifetime: Some(lifetime), burst: Some(99), ..TokenUpdate::default() },
        TokenUpdate { rate: Some(OrNone("7/m".parse().ok())), ..TokenUpdate::default() },
        TokenUpdate { rate: Some(OrNone(None)), quota: Some(OrNone(None)), ..TokenUpdate::default() },
        TokenUpdate { lifetime: Some(Lifetime::Forever), ..TokenUpdate::default() },
        TokenUpdate { lifetime: Some(Lifetime::For(Duration::ZERO)), ..TokenUpdate::default() },
    ] {
        let updated = store.update_token(&token.id, &update, now(), None).await.expect("updates");
        let updated = updated.expect("live");
        assert_eq!((&updated.before, updated.sharing), (&expected, Vec::new()));
        expected = update.apply(&expected, now());
        assert_eq!(updated.after, expected);
        assert_eq!(store.list_tokens().await.expect("lists"), [(secret.hash(), expected.clone())]);
    }
    let again = TokenUpdate { lifetime: Some(Lifetime::Forever), ..TokenUpdate::default() };
    for id in [token.id.as_str(), "tok_unknown"] {
        let refused = store.update_token(id, &again, now(), None).await.expect("asks");
        assert_eq!(refused, None, "it has ended, or there is none");
    }
    assert_eq!(store.list_tokens().await.expect("lists"), [(secret.hash(), expected)]);
}

/// A family has one quota; everything else belongs to each token.
pub async fn a_new_quota_is_for_the_live_tokens_of_the_family(store: &dyn Store) {
    let ((_, first), (_, second), (_, ended), (_, stranger)) =
        (token("crm"), token("crm"), token("crm"), token("ats"));
    let family = || first.family.clone();
    let second = Token { family: family(), created_at: day("2026-06-02"), ..second };
    let ended = Token { family: family(), revoked_at: Some(now()), created_at: day("2026-06-03"), ..ended };
    let stranger = Token { created_at: day("2026-06-04"), ..stranger };
    for token in [&first, &second, &ended, &stranger] {
        let secret = TokenSecret::generate().expect("randomness");
        store.create_token(&secret.hash(), token, None).await.expect("creates");
    }
    let quota = "7/day".parse().ok();
    let scopes = Some(Scopes { phone: false, ..Scopes::ALL });
    let update = TokenUpdate { quota: Some(OrNone(quota)), scopes, ..TokenUpdate::default() };
    let updated = store.update_token(&second.id, &update, now(), None).await.expect("updates").expect("live");
    assert_eq!(updated.sharing, [first.id.as_str()]);
    let listed = store.list_tokens().await.expect("lists");
    let listed: Vec<Token> = listed.into_iter().map(|(_, token)| token).collect();
    let second = update.apply(&second, now());
    assert_eq!(listed, [Token { quota, ..first }, second, ended, stranger]);
}

/// Hits of a family are counted together, also those of tokens that have ended.
pub async fn hits_of_a_family_add_up(store: &dyn Store) {
    let (first, other) = (created(store, "crm").await, created(store, "ats").await);
    let (second_secret, second) = token("crm");
    let second = Token { family: first.family.clone(), ..second };
    let rotated = store.rotate_token(&first.id, now(), &second_secret.hash(), &second, None).await;
    assert!(rotated.expect("rotates"));
    let delta = |token: &Token, hits| UsageDelta { token: token.id.clone(), hits, ..UsageDelta::default() };
    let deltas = [delta(&first, 1), delta(&second, 10), delta(&other, 100)];
    store.record_usage(&deltas, now()).await.expect("records");
    assert_eq!(store.hits_since(&first.family, now().day()).await.expect("reads"), 11);
    assert_eq!(store.hits_since(&other.family, now().day()).await.expect("reads"), 100);
    assert_eq!(store.hits_since(&second.id, now().day()).await.expect("reads"), 0, "it is no family");
}

fn digests() -> Vec<SubjectDigest> {
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key");
    let profiles = [profile("ada-quell"), profile("eve-nuvel")];
    profiles.iter().filter_map(|profile| keys.digest(Subject::Profile(profile))).collect()
}

/// Suppressing twice is not an error.
pub async fn suppressing_twice_is_one_suppression(store: &dyn Store) {
    assert_eq!(store.suppress(&digests()[..1], now(), None).await.expect("suppresses"), 1);
    assert_eq!(store.suppress(&digests(), now(), None).await.expect("suppresses"), 1);
    assert_eq!(store.list_suppressions().await.expect("lists").len(), 2);
}

/// Only the named suppressions are removed.
pub async fn suppressions_can_be_removed(store: &dyn Store) {
    store.suppress(&digests(), now(), None).await.expect("suppresses");
    assert_eq!(store.unsuppress(&digests()[..1], None).await.expect("unsuppresses"), 1);
    assert_eq!(store.unsuppress(&digests()[..1], None).await.expect("unsuppresses"), 0);
    assert_eq!(store.list_suppressions().await.expect("lists"), digests()[1..]);
}

/// The earliest time counts, whichever key it was made with.
pub async fn a_suppression_is_found_with_its_time(store: &dyn Store) {
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
pub async fn usage_adds_up_by_day(store: &dyn Store) {
    let token = created(store, "crm").await;
    let delta = |at: Timestamp| UsageDelta {
        token: token.id.clone(),
        hits: 2,
        misses: 1,
        last_used_at: Some(at),
        ..UsageDelta::default()
    };
    for date in ["2026-06-01", "2026-06-01", "2026-06-02"] {
        store.record_usage(&[delta(day(date))], day(date)).await.expect("records");
    }
    assert_eq!(store.hits_since(&token.id, day("2026-06-01").day()).await.expect("reads"), 6);
    assert_eq!(store.hits_since(&token.id, day("2026-06-02").day()).await.expect("reads"), 2);
    let of = |date, hits| DayHits { token: token.id.clone(), day: day(date).day(), hits };
    let mut by_day = store.hits_by_day(day("2026-06-01").day()).await.expect("reads");
    by_day.sort_by_key(|hits| hits.day);
    assert_eq!(by_day, [of("2026-06-01", 4), of("2026-06-02", 2)]);
    let since = store.hits_by_day(day("2026-06-02").day()).await.expect("reads");
    assert_eq!(since, [of("2026-06-02", 2)]);
    let (_, listed) = store.list_tokens().await.expect("lists").remove(0);
    assert_eq!((listed.hits, listed.last_used_at), (6, Some(day("2026-06-02"))));
}

/// A long import never delays a revocation or an opt-out.
pub async fn opt_outs_and_revocations_do_not_wait_for_an_import(store: &dyn Store) {
    let token = created(store, "crm").await;
    let import = store.begin_import(&ImportPlan::of(1, now())).await.expect("begins");
    assert_eq!(store.suppress(&digests(), now(), None).await.expect("suppresses"), 2);
    assert!(store.revoke_token(&token.id, now(), None).await.expect("revokes").is_some());
    drop(import);
}
