//! The suite that every storage engine passes.
//!
//! An engine's crate has one test file, `contactd_core::conformance!(opener)`, where
//! `opener` is an async function that opens a fresh, empty store behind a pointer, which may
//! also hold what has to go away with it. An engine that cannot be
//! opened fails; it is never skipped.

#![expect(clippy::expect_used, reason = "test code that lives in the library")]

use std::cell::Cell;
use std::time::Duration;

use crate::store::{Aged, AuditFilter, Import, ImportSummary, PutCounts, Store, Swept, Verdict};
use crate::{
    AuditPosition, AuditRecord, ContactValue, Detail, DigestKey, DigestKeys, Kind, Label, Networks, Profile,
    ProfileDigest, Rate, Scopes, Subject, SubjectDigest, Timestamp, Token, TokenSecret, UsageDelta,
};

/// How many digests were made and how many reads done on this thread so far.
pub fn work_done() -> (u64, u64) {
    (DIGESTS.get(), READS.get())
}

thread_local! {
    /// Digests made and reads done on this thread.
    pub(crate) static DIGESTS: Cell<u64> = const { Cell::new(0) };
    pub(crate) static READS: Cell<u64> = const { Cell::new(0) };
}

/// Makes one test of every function of the suite.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!($open:
            a_lookup_returns_the_surest_then_newest_then_smallest,
            work_details_are_kept_and_never_returned,
            an_expired_detail_is_kept_and_not_returned,
            a_value_that_is_not_accepted_gives_way_to_the_next,
            the_two_kinds_are_apart,
            the_same_again_changes_nothing,
            a_new_date_or_confidence_updates_the_detail,
            a_profile_is_counted_once_in_an_import,
            the_same_value_from_two_sources_is_two_details,
            an_import_that_is_dropped_never_happened,
            what_is_taken_back_is_not_there_and_not_counted,
            an_import_in_order_does_the_same_as_one_in_any_order,
            what_has_expired_or_is_too_old_is_swept_and_nothing_else,
            a_number_or_an_address_is_found_under_every_profile,
            a_suppression_is_found_with_its_time,
            the_audit_index_takes_every_line_once,
            a_replaced_source_keeps_only_what_is_put,
            removing_takes_only_what_was_picked,
            totals_add_up,
            profiles_with_a_common_beginning_are_apart,
            tokens_are_listed_as_they_were_made,
            revoking_twice_keeps_the_first_time,
            rotating_keeps_both_until_the_overlap_ends,
            rotating_an_unknown_token_makes_none,
            suppressing_twice_is_one_suppression,
            suppressions_can_be_taken_back,
            usage_adds_up_by_day,
        );
    };
    ($open:path: $($case:ident,)*) => {
        $(#[tokio::test]
        async fn $case() {
            let opened = $open().await;
            $crate::conformance::$case(&*opened).await;
        })*
    };
}

fn day(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or(Timestamp::from_millis(0))
}

fn now() -> Timestamp {
    day("2026-06-01")
}

fn profile(slug: &str) -> Profile {
    Networks::built_in().canonicalize(&format!("https://linkedin.com/in/{slug}")).expect("a profile")
}

fn phone(last_digits: &str, confidence: u8) -> Detail {
    let value = ContactValue::from_store(format!("+141555501{last_digits}"));
    Detail { confidence, ..Detail::new(Kind::Phone, value, "crm") }
}

fn email(local: &str) -> Detail {
    Detail::new(Kind::Email, ContactValue::from_store(format!("{local}@example.com")), "crm")
}

async fn put(store: &impl Store, profile: &Profile, details: &[Detail]) -> PutCounts {
    let mut import = store.begin_import(now()).await.expect("begins");
    let counts = import.put(profile, details).expect("puts");
    import.commit(&ImportSummary { source: "crm".to_owned(), ..ImportSummary::default() }).expect("commits");
    store.renew();
    counts
}

async fn best(store: &impl Store, profile: &Profile, kind: Kind) -> Option<String> {
    let found = store.best_personal(profile, kind, now(), |_| Verdict::Take).await.expect("reads");
    found.map(|value| value.expose().to_owned())
}

/// Highest confidence, then newest observed, then smallest value; no date is oldest.
pub async fn a_lookup_returns_the_surest_then_newest_then_smallest(store: &impl Store) {
    let ada = profile("ada-quell");
    let dated = |detail: Detail, date: &str| Detail { observed_at: Some(day(date)), ..detail };
    let steps = [
        (phone("30", 50), "+14155550130"),
        (phone("20", 50), "+14155550120"),
        (dated(phone("40", 50), "2020-01-01"), "+14155550140"),
        (dated(phone("50", 50), "2021-01-01"), "+14155550150"),
        (phone("60", 51), "+14155550160"),
        (dated(phone("10", 49), "2026-01-01"), "+14155550160"),
    ];
    for (detail, expected) in steps {
        put(store, &ada, &[detail]).await;
        assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some(expected));
    }
}

/// Labels decide what is personal.
pub async fn work_details_are_kept_and_never_returned(store: &impl Store) {
    let ada = profile("ada-quell");
    let work = Detail { label: Label::Work, ..phone("01", 100) };
    put(store, &ada, &[work.clone(), phone("02", 1)]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550102"));
    assert!(store.list_details(&ada).await.expect("reads").contains(&work));
}

/// Not served from its last second on; the next best is.
pub async fn an_expired_detail_is_kept_and_not_returned(store: &impl Store) {
    let ada = profile("ada-quell");
    let ended = Detail { expires_at: Some(now()), ..phone("01", 90) };
    let ending = Detail { expires_at: Some(Timestamp::from_seconds(now().seconds() + 1)), ..phone("02", 80) };
    put(store, &ada, &[ended]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await, None);
    put(store, &ada, &[ending]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550102"));
}

/// A suppressed number must not hide the person's other one.
pub async fn a_value_that_is_not_accepted_gives_way_to_the_next(store: &impl Store) {
    let ada = profile("ada-quell");
    put(store, &ada, &[phone("01", 90), phone("02", 80)]).await;
    let not_the_first = |value: &str| if value == "+14155550101" { Verdict::Next } else { Verdict::Take };
    let found = store.best_personal(&ada, Kind::Phone, now(), not_the_first).await;
    assert_eq!(found.expect("reads").expect("the next").expose(), "+14155550102");
    let found = store.best_personal(&ada, Kind::Phone, now(), |_| Verdict::Next).await;
    assert!(found.expect("reads").is_none());
    let enough = |value: &str| if value == "+14155550101" { Verdict::Enough } else { Verdict::Take };
    let found = store.best_personal(&ada, Kind::Phone, now(), enough).await;
    assert_eq!(found.expect("reads"), None);
}

/// A phone is never returned for an e-mail.
pub async fn the_two_kinds_are_apart(store: &impl Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    put(store, &eve, &[email("eve")]).await;
    assert_eq!(best(store, &ada, Kind::Email).await, None);
    assert_eq!(best(store, &eve, Kind::Phone).await, None);
    assert_eq!(best(store, &eve, Kind::Email).await.as_deref(), Some("eve@example.com"));
}

/// Importing a file twice is importing it once.
pub async fn the_same_again_changes_nothing(store: &impl Store) {
    let ada = profile("ada-quell");
    let first = put(store, &ada, &[phone("01", 90), email("ada")]).await;
    assert_eq!(first, PutCounts { profiles_new: 1, new: 2, ..PutCounts::default() });
    let second = put(store, &ada, &[phone("01", 90), email("ada")]).await;
    assert_eq!(second, PutCounts { unchanged: 2, ..PutCounts::default() });
}

/// Identity is profile, kind, value and source; the rest is updated.
pub async fn a_new_date_or_confidence_updates_the_detail(store: &impl Store) {
    let ada = profile("ada-quell");
    put(store, &ada, &[phone("01", 90)]).await;
    let updated =
        Detail { observed_at: Some(day("2026-05-01")), basis: Some("consent".into()), ..phone("01", 10) };
    let counts = put(store, &ada, std::slice::from_ref(&updated)).await;
    assert_eq!(counts, PutCounts { profiles_changed: 1, changed: 1, ..PutCounts::default() });
    assert_eq!(store.list_details(&ada).await.expect("reads"), [updated]);
}

/// Several rows about one person are one person, new or changed.
pub async fn a_profile_is_counted_once_in_an_import(store: &impl Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    let mut import = store.begin_import(now()).await.expect("begins");
    let mut profiles = (0, 0);
    for detail in [phone("02", 90), phone("03", 90), phone("01", 80)] {
        for profile in [&ada, &eve] {
            let counts = import.put(profile, std::slice::from_ref(&detail)).expect("puts");
            profiles = (profiles.0 + counts.profiles_new, profiles.1 + counts.profiles_changed);
        }
    }
    assert_eq!(profiles, (1, 1), "Eve is new, Ada is changed");
}

/// Withdrawing one source leaves what the others hold.
pub async fn the_same_value_from_two_sources_is_two_details(store: &impl Store) {
    let ada = profile("ada-quell");
    let other = Detail { source: "events".to_owned(), ..phone("01", 90) };
    put(store, &ada, &[phone("01", 90), other]).await;
    let removed = store.remove_details(&ada, |detail| detail.source == "crm").await.expect("removes");
    store.renew();
    assert_eq!(removed, 1);
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550101"));
}

/// All or nothing.
pub async fn an_import_that_is_dropped_never_happened(store: &impl Store) {
    let ada = profile("ada-quell");
    let mut import = store.begin_import(now()).await.expect("begins");
    import.put(&ada, &[phone("01", 90)]).expect("puts");
    assert_eq!(best(store, &ada, Kind::Phone).await, None, "visible before it was committed");
    drop(import);
    store.renew();
    assert_eq!(best(store, &ada, Kind::Phone).await, None);
    assert_eq!(store.totals().await.expect("counts").profiles, 0);
    put(store, &ada, &[phone("02", 90)]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550102"));
}

/// Only details of this import are taken back.
pub async fn what_is_taken_back_is_not_there_and_not_counted(store: &impl Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    let mut import = store.begin_import(now()).await.expect("begins");
    import.put(&ada, &[phone("02", 99)]).expect("puts");
    import.put(&eve, &[phone("03", 90), email("eve")]).expect("puts");
    let is_out = |profile: &Profile, kind: Kind, _: &ContactValue| *profile == eve || kind == Kind::Email;
    import.put(&ada, &[phone("01", 95)]).expect("puts");
    let taken = import.take_back(is_out).expect("takes back");
    assert_eq!(taken, PutCounts { new: 2, profiles_new: 1, ..PutCounts::default() });
    let taken = import.take_back(|profile, _, _| *profile == ada).expect("takes back");
    assert_eq!(taken, PutCounts { new: 1, ..PutCounts::default() }, "what was only changed stays");
    import.commit(&ImportSummary::default()).expect("commits");
    store.renew();
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550101"));
    assert_eq!(best(store, &eve, Kind::Phone).await, None);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// Said beforehand to come in order, profiles are merged with what is held, whether that is nothing,
/// a lot or a little; and one that comes again is merged with itself.
pub async fn an_import_in_order_does_the_same_as_one_in_any_order<S: Store>(store: &S) {
    let mut profiles: Vec<Profile> = (0..200).map(|number| profile(&format!("quell-{number}"))).collect();
    profiles.sort_by_key(S::place);
    for (round, step) in [(0, 1), (1, 2), (2, 150)] {
        let mut import = store.begin_import(now()).await.expect("begins");
        let coming: Vec<&Profile> = profiles.iter().step_by(step).collect();
        import.expect(coming.len() as u64, &[]).expect("listens");
        for profile in coming {
            let counts = import.put(profile, &[phone("01", 50), phone("02", 60 + round)]).expect("puts");
            let expected = match round {
                0 => PutCounts { profiles_new: 1, new: 2, ..PutCounts::default() },
                _ => PutCounts { profiles_changed: 1, unchanged: 1, changed: 1, ..PutCounts::default() },
            };
            assert_eq!(counts, expected);
            let again = import.put(profile, &[phone("01", 50)]).expect("puts");
            assert_eq!(again, PutCounts { unchanged: 1, ..PutCounts::default() });
        }
        assert_eq!(import.withdraw().expect("withdraws"), PutCounts::default());
        import.commit(&ImportSummary::default()).expect("commits");
        store.renew();
    }
    assert_eq!(store.totals().await.expect("counts").profiles, 200);
    for profile in &profiles {
        assert_eq!(best(store, profile, Kind::Phone).await.as_deref(), Some("+14155550102"));
    }
}

/// What a replaced source held and the import does not put is gone; what others hold stays.
pub async fn a_replaced_source_keeps_only_what_is_put<S: Store>(store: &S) {
    let mut profiles: Vec<Profile> = (0..100).map(|number| profile(&format!("quell-{number}"))).collect();
    profiles.sort_by_key(S::place);
    let other = Detail { source: "hr".to_owned(), ..phone("09", 10) };
    for (number, profile) in profiles.iter().enumerate() {
        let details = [phone("01", 50), phone("02", 60), email("ada"), other.clone()];
        put(store, profile, if number % 2 == 0 { &details } else { &details[..3] }).await;
    }
    let mut import = store.begin_import(now()).await.expect("begins");
    import.expect(30, &["crm".to_owned()]).expect("listens");
    for profile in profiles.iter().skip(3).step_by(4) {
        import.put(profile, &[phone("02", 60), phone("03", 5)]).expect("puts");
    }
    let withdrawn = import.withdraw().expect("withdraws").withdrawn;
    assert_eq!(withdrawn, 25 * 2 + 75 * 3);
    import.commit(&ImportSummary::default()).expect("commits");
    store.renew();
    for (number, profile) in profiles.iter().enumerate() {
        let expected = match (number % 4, number % 2) {
            (3, _) => Some("+14155550102"),
            (_, 0) => Some("+14155550109"),
            _ => None,
        };
        assert_eq!(best(store, profile, Kind::Phone).await.as_deref(), expected, "{number}");
        assert_eq!(best(store, profile, Kind::Email).await, None);
    }
    assert_eq!(store.totals().await.expect("counts").profiles, 25 + 50);
}

/// Removing nothing is not an error.
pub async fn removing_takes_only_what_was_picked(store: &impl Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90), email("ada")]).await;
    put(store, &eve, &[phone("02", 90)]).await;
    assert_eq!(store.remove_details(&ada, |detail| detail.kind == Kind::Phone).await.expect("removes"), 1);
    assert_eq!(store.remove_details(&profile("nobody"), |_| true).await.expect("removes"), 0);
    store.renew();
    assert_eq!(best(store, &ada, Kind::Phone).await, None);
    assert_eq!(best(store, &ada, Kind::Email).await.as_deref(), Some("ada@example.com"));
    assert_eq!(best(store, &eve, Kind::Phone).await.as_deref(), Some("+14155550102"));
}

/// Totals follow every change without reading the details.
pub async fn totals_add_up(store: &impl Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    let work = Detail { label: Label::Work, source: "events".into(), ..email("eve") };
    put(store, &ada, &[phone("01", 90), phone("02", 90)]).await;
    put(store, &eve, &[work]).await;
    put(store, &ada, &[Detail { label: Label::Work, ..phone("02", 90) }]).await;
    store.remove_details(&ada, |detail| detail.value.expose() == "+14155550101").await.expect("removes");
    let totals = store.totals().await.expect("counts");
    let mut counted: Vec<_> = totals
        .details
        .iter()
        .map(|total| (total.source.as_str(), total.kind, total.label, total.count))
        .collect();
    counted.sort();
    assert_eq!(totals.profiles, 2);
    assert_eq!(counted, [("crm", Kind::Phone, Label::Work, 1), ("events", Kind::Email, Label::Work, 1)]);
    assert!(totals.newest_import.is_some());
    store.remove_details(&eve, |_| true).await.expect("removes");
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// A key is compared whole.
pub async fn profiles_with_a_common_beginning_are_apart(store: &impl Store) {
    let (ada, longer) = (profile("ada-quell"), profile("ada-quell-1a2b3c"));
    put(store, &longer, &[phone("01", 90)]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await, None);
}

fn token(name: &str) -> (TokenSecret, Token) {
    (TokenSecret::generate().expect("randomness"), Token::new(name, now()).expect("randomness"))
}

/// Nothing about a token is lost.
pub async fn tokens_are_listed_as_they_were_made(store: &impl Store) {
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
    store.create_token(&second_secret.hash(), &second).await.expect("creates");
    store.create_token(&first_secret.hash(), &first).await.expect("creates");
    let listed = store.list_tokens().await.expect("lists");
    assert_eq!(listed, [(first_secret.hash(), first), (second_secret.hash(), second)]);
}

/// Revoking again changes nothing; an unknown token is none.
pub async fn revoking_twice_keeps_the_first_time(store: &impl Store) {
    let (secret, token) = token("crm");
    store.create_token(&secret.hash(), &token).await.expect("creates");
    let revoked = store.revoke_token(&token.id, day("2026-06-02")).await.expect("revokes").expect("known");
    assert_eq!(revoked.revoked_at, Some(day("2026-06-02")));
    let again = store.revoke_token(&token.id, day("2026-06-03")).await.expect("revokes").expect("known");
    assert_eq!(again.revoked_at, Some(day("2026-06-02")));
    assert!(store.revoke_token("tok_unknown", now()).await.expect("asks").is_none());
}

/// The old token's end only ever comes nearer.
pub async fn rotating_keeps_both_until_the_overlap_ends(store: &impl Store) {
    let (old_secret, old) = token("crm");
    store.create_token(&old_secret.hash(), &old).await.expect("creates");
    for (ends_at, expected) in
        [("2026-06-05", "2026-06-05"), ("2026-06-09", "2026-06-05"), ("2026-06-03", "2026-06-03")]
    {
        let (new_secret, new) = token("crm");
        let done = store.rotate_token(&old.id, day(ends_at), &new_secret.hash(), &new).await;
        assert!(done.expect("rotates"));
        let listed = store.list_tokens().await.expect("lists");
        let kept = listed.iter().find(|(_, token)| token.id == old.id).expect("kept");
        assert_eq!(kept.1.expires_at, Some(day(expected)));
        assert!(listed.iter().any(|(hash, _)| *hash == new_secret.hash()));
    }
}

/// Both or neither.
pub async fn rotating_an_unknown_token_makes_none(store: &impl Store) {
    let (secret, new) = token("crm");
    assert!(!store.rotate_token("tok_unknown", now(), &secret.hash(), &new).await.expect("asks"));
    assert!(store.list_tokens().await.expect("lists").is_empty());
    let (old_secret, old) = token("ats");
    store.create_token(&old_secret.hash(), &old).await.expect("creates");
    store.revoke_token(&old.id, now()).await.expect("revokes");
    assert!(!store.rotate_token(&old.id, now(), &secret.hash(), &new).await.expect("asks"));
    assert_eq!(store.list_tokens().await.expect("lists").len(), 1, "a revoked token has no successor");
}

fn digests() -> Vec<SubjectDigest> {
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key");
    let profiles = [profile("ada-quell"), profile("eve-nuvel")];
    profiles.iter().filter_map(|profile| keys.digest(Subject::Profile(profile))).collect()
}

/// Suppressing twice is not an error.
pub async fn suppressing_twice_is_one_suppression(store: &impl Store) {
    assert_eq!(store.suppress(&digests()[..1], now()).await.expect("suppresses"), 1);
    assert_eq!(store.suppress(&digests(), now()).await.expect("suppresses"), 1);
    assert_eq!(store.list_suppressions().await.expect("lists").len(), 2);
}

/// Only what was named is taken back.
pub async fn suppressions_can_be_taken_back(store: &impl Store) {
    store.suppress(&digests(), now()).await.expect("suppresses");
    assert_eq!(store.unsuppress(&digests()[..1]).await.expect("unsuppresses"), 1);
    assert_eq!(store.unsuppress(&digests()[..1]).await.expect("unsuppresses"), 0);
    assert_eq!(store.list_suppressions().await.expect("lists"), digests()[1..]);
}

/// Counts of one day add up, and the token remembers when it was last used.
pub async fn usage_adds_up_by_day(store: &impl Store) {
    let (secret, token) = token("crm");
    store.create_token(&secret.hash(), &token).await.expect("creates");
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

/// What has expired goes, and what is older than its source allows; the rest stays, and totals are right.
pub async fn what_has_expired_or_is_too_old_is_swept_and_nothing_else(store: &impl Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let ended = Detail { expires_at: Some(now()), ..phone("01", 90) };
    let ending = Detail { expires_at: Some(Timestamp::from_seconds(now().seconds() + 1)), ..phone("02", 80) };
    let old = Detail { observed_at: Some(day("2025-01-01")), ..email("old") };
    let new = Detail { observed_at: Some(day("2026-05-30")), ..email("new") };
    let other = Detail { source: "hr".to_owned(), ..old.clone() };
    put(store, &ada, &[ended, ending.clone(), old.clone(), new.clone(), other.clone()]).await;
    put(store, &bo, std::slice::from_ref(&old)).await;
    let swept = store.sweep(now(), Aged::Not).await.expect("sweeps");
    assert_eq!(swept, Swept { expired: 1, aged: 0 });
    let day_long = Duration::from_secs(86_400);
    let swept = store.sweep(now(), Aged::Source("crm", 30 * day_long)).await.expect("sweeps");
    assert_eq!(swept, Swept { expired: 0, aged: 2 });
    let mut left = store.list_details(&ada).await.expect("reads");
    left.sort_by(|a, b| a.value.cmp(&b.value));
    assert_eq!(left, [ending, new, other]);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);

    // Said with an import, it counts from then on; what is not dated counts from its import.
    let mut import = store.begin_import(now()).await.expect("begins");
    import.set_max_age(&["crm".to_owned()], 60 * day_long).expect("says so");
    import.put(&bo, &[email("undated")]).expect("puts");
    import.commit(&ImportSummary::default()).expect("commits");
    let sweep = |days: u32| store.sweep(now().plus(days * day_long), Aged::Policies);
    assert_eq!(sweep(0).await.expect("sweeps"), Swept::default());
    assert_eq!(sweep(58).await.expect("sweeps"), Swept { expired: 1, aged: 0 });
    // What an import says again is as new as that import, though nothing about it changes.
    let mut import = store.begin_import(now().plus(59 * day_long)).await.expect("begins");
    assert_eq!(import.put(&bo, &[email("undated")]).expect("puts").unchanged, 1);
    import.commit(&ImportSummary::default()).expect("commits");
    assert_eq!(sweep(61).await.expect("sweeps"), Swept { expired: 0, aged: 1 });
    assert_eq!(store.totals().await.expect("counts").profiles, 2);
    assert_eq!(sweep(118).await.expect("sweeps"), Swept::default());
    assert_eq!(sweep(120).await.expect("sweeps"), Swept { expired: 0, aged: 1 });
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// E-mail addresses whatever their case.
pub async fn a_number_or_an_address_is_found_under_every_profile(store: &impl Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    put(store, &bo, &[phone("01", 50), email("Quell")]).await;
    put(
        store,
        &ada,
        &[phone("01", 50), email("quell"), Detail { source: "hr".to_owned(), ..email("quell") }],
    )
    .await;
    let find = |kind, value: &str| {
        let value = ContactValue::from_store(value.to_owned());
        async move { store.find_profiles(kind, &value).await.expect("reads") }
    };
    assert_eq!(find(Kind::Phone, "+14155550101").await, [ada.clone(), bo.clone()]);
    assert_eq!(find(Kind::Email, "QUELL@example.com").await, [ada, bo]);
    assert_eq!(find(Kind::Phone, "+14155550102").await, []);
}

/// The earliest, under whichever key.
pub async fn a_suppression_is_found_with_its_time(store: &impl Store) {
    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32]), DigestKey::new(&[2; 32])]).expect("keys");
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let digests = keys.all_digests(Subject::Profile(&ada));
    assert_eq!(store.find_suppression(&digests).await.expect("reads"), None);
    store.suppress(&digests[1..], day("2026-05-02")).await.expect("suppresses");
    store.suppress(&digests[..1], day("2026-05-01")).await.expect("suppresses");
    assert_eq!(store.find_suppression(&digests).await.expect("reads"), Some(day("2026-05-01")));
    let others = keys.all_digests(Subject::Profile(&bo));
    assert_eq!(store.find_suppression(&others).await.expect("reads"), None);
}

/// Whoever indexes the same lines again changes nothing, and what is asked for is found.
pub async fn the_audit_index_takes_every_line_once(store: &impl Store) {
    let record = |seq: u64, token: &str, outcome: &str| AuditRecord {
        seq,
        at: now().plus(Duration::from_secs(seq * 40_000)),
        node: "n1".to_owned(),
        request_id: format!("r{seq}"),
        token: token.to_owned(),
        operation: Kind::Email,
        profile: (outcome != "refused").then(|| ("k1".to_owned(), ProfileDigest([u8::from(seq > 2); 16]))),
        outcome: outcome.to_owned(),
        reason: (outcome == "refused").then(|| "rate_limited".to_owned()),
    };
    let records =
        [record(1, "a", "hit"), record(2, "b", "miss"), record(3, "a", "hit"), record(4, "a", "refused")];
    let start = store.audit_position().await.expect("reads");
    assert_eq!(start, AuditPosition::default());
    let end = AuditPosition { segment: 1, offset: 900, seq: 4, chain: [9; 16] };
    for is_first in [true, false] {
        assert_eq!(store.index_audit(&records, &[], start, end).await.expect("indexes"), is_first);
        assert_eq!(store.audit_position().await.expect("reads"), end);
    }
    let list = |filter: AuditFilter| async move {
        let mut found = Vec::new();
        store
            .visit_audit(&filter, |record| {
                found.push(record);
                true
            })
            .await
            .expect("reads");
        found
    };
    assert_eq!(list(AuditFilter::default()).await, records);
    let of_a = AuditFilter { tokens: Some(vec!["a".to_owned()]), ..AuditFilter::default() };
    assert_eq!(list(of_a).await.len(), 3);
    let of_nobody = AuditFilter { tokens: Some(vec!["c".to_owned()]), ..AuditFilter::default() };
    assert_eq!(list(of_nobody).await, []);
    let later = AuditFilter {
        profiles: Some(vec![ProfileDigest([1; 16])]),
        since: Some(records[1].at),
        until: Some(records[3].at),
        outcome: Some("hit".to_owned()),
        ..AuditFilter::default()
    };
    assert_eq!(list(later).await, records[2..3]);
    let usage = store.audit_usage().await.expect("reads");
    let counts: Vec<_> = usage.iter().map(|u| (u.token.as_str(), u.hits, u.misses, u.refused)).collect();
    assert_eq!(counts, [("a", 1, 0, 0), ("b", 0, 1, 0), ("a", 1, 0, 1)]);
    // What was not disclosed after all counts as refused.
    let further = AuditPosition { offset: 1_000, seq: 5, ..end };
    assert!(store.index_audit(&[], &[(3, 5)], end, further).await.expect("indexes"));
    let corrected = list(AuditFilter { outcome: Some("hit".to_owned()), ..AuditFilter::default() }).await;
    assert_eq!(corrected, records[..1]);
    let usage = store.audit_usage().await.expect("reads");
    assert_eq!(usage.last().map(|u| (u.hits, u.misses, u.refused)), Some((0, 0, 2)));
    store.forget_audit(2).await.expect("forgets");
    assert_eq!(list(AuditFilter::default()).await.len(), 2);
    assert_eq!(store.audit_usage().await.expect("reads").len(), 3);
    store.reset_audit_index(records[2].at.day()).await.expect("resets");
    assert_eq!(list(AuditFilter::default()).await, []);
    assert_eq!(store.audit_usage().await.expect("reads").len(), 2, "what the journal no longer says is kept");
    assert_eq!(store.audit_position().await.expect("reads"), start);
}
