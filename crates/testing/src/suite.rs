//! The test cases, by trait. Each gets an empty store.

pub mod access;
pub mod accounts;
pub mod audit;
pub mod copies;
pub mod details;
pub mod imports;
pub mod local;
pub mod maintenance;
pub mod outbox;
pub mod undo;

use contactd_core::store::{Aged, Import, ImportPlan, ImportSummary, LocalRead, PutCounts, Store, SweepPlan};
use contactd_core::{
    ContactValue, Detail, Kind, Label, Networks, Profile, Record, Timestamp, Token, TokenSecret,
};

/// An engine whose lookups read its own files.
pub trait LocalStore: Store + LocalRead {}
impl<S: Store + LocalRead> LocalStore for S {}

fn day(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or(Timestamp::from_millis(0))
}

fn now() -> Timestamp {
    day("2026-06-01")
}

/// A sweep at this time that forgets nothing that is kept for undo.
fn sweeping(now: Timestamp, aged: Aged<'_>) -> SweepPlan<'_> {
    SweepPlan { now, aged, former_before: day("2000-01-01") }
}

fn profile(slug: &str) -> Profile {
    Networks::built_in().canonicalize(&format!("https://linkedin.com/in/{slug}")).expect("a profile")
}

fn value(text: &str) -> ContactValue {
    ContactValue::from_store(text.to_owned())
}

fn phone(last_digits: &str, confidence: u8) -> Detail {
    Detail { confidence, ..Detail::new(Kind::Phone, value(&format!("+141555501{last_digits}")), "crm") }
}

fn email(local: &str) -> Detail {
    Detail::new(Kind::Email, value(&format!("{local}@example.com")), "crm")
}

fn token(name: &str) -> (TokenSecret, Token) {
    (TokenSecret::generate().expect("randomness"), Token::new(name, now()).expect("randomness"))
}

/// A token that is stored.
async fn created(store: &dyn Store, name: &str) -> Token {
    let (secret, token) = token(name);
    store.create_token(&secret.hash(), &token, None).await.expect("creates");
    token
}

fn record(profile: &Profile, details: &[Detail]) -> Record {
    Record { profile: profile.clone(), details: details.to_vec() }
}

/// Imports one profile's details.
async fn put(store: &dyn Store, profile: &Profile, details: &[Detail]) -> PutCounts {
    put_all(store, &ImportPlan::of(1, now()), vec![record(profile, details)]).await
}

/// Imports records in the store's order, in small batches.
async fn put_all(store: &dyn Store, plan: &ImportPlan, records: Vec<Record>) -> PutCounts {
    let mut import = store.begin_import(plan).await.expect("begins");
    for batch in in_order(store, records).chunks(7) {
        import.put(batch.to_vec()).await.expect("puts");
    }
    import.finish().await.expect("finishes");
    let counts = import.merging().counts;
    let summary = ImportSummary { source: "crm".to_owned(), counts, ..ImportSummary::default() };
    import.commit(&summary, None).await.expect("commits");
    counts
}

/// An import that has these records and is finished, but not committed.
async fn begun<'a>(store: &'a dyn Store, plan: &ImportPlan, records: Vec<Record>) -> Box<dyn Import + 'a> {
    let mut import = store.begin_import(plan).await.expect("begins");
    import.put(in_order(store, records)).await.expect("puts");
    import.finish().await.expect("finishes");
    import
}

fn in_order(store: &dyn Store, mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| store.sort_key(&record.profile));
    records
}

/// The best personal detail of a kind that has not expired.
async fn best(store: &dyn Store, profile: &Profile, kind: Kind) -> Option<String> {
    let listed = store.list_details(profile).await.expect("lists");
    let is_served = |detail: &&Detail| {
        detail.kind == kind
            && detail.label == Label::Personal
            && detail.expires_at.is_none_or(|end| end.seconds() > now().seconds())
    };
    listed.iter().find(is_served).map(|detail| detail.value.expose().to_owned())
}
