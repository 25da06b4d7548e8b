//! Suppressed, erased, unknown and empty cost the same: the same reads and the same digests.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use contactd_core::conformance::work_done;
use contactd_core::store::{Details, Import, ImportSummary};
use contactd_core::{
    Callers, ContactValue, Detail, DigestKey, DigestKeys, Kind, Label, LookupError, Lookups, Networks,
    NoAudit, Profile, Request, Subject, SuppressionList, Timestamp, Token, TokenSecret,
};
use contactd_store_sqlite::SqliteStore;

fn profile(slug: &str) -> Profile {
    Networks::built_in().canonicalize(&format!("https://linkedin.com/in/{slug}-quell")).expect("a profile")
}

#[tokio::test]
async fn those_who_are_not_found_cannot_be_told_apart_by_the_work() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(SqliteStore::open(dir.path()).expect("opens"));
    let at = Timestamp::parse("2026-05-01").expect("a date");
    let phone = |value: &str| Detail::new(Kind::Phone, ContactValue::from_store(value.to_owned()), "crm");
    let mut import = store.begin_import(at).await.expect("begins");
    for (slug, detail) in [
        ("held", phone("+14155550101")),
        ("suppressed", phone("+14155550102")),
        ("number-suppressed", phone("+14155550103")),
        ("work", Detail { label: Label::Work, ..phone("+14155550104") }),
        ("expired", Detail { expires_at: Some(at), ..phone("+14155550105") }),
        ("empty", Detail::new(Kind::Email, ContactValue::from_store("e@example.com".to_owned()), "crm")),
    ] {
        import.put(&profile(slug), &[detail]).expect("puts");
    }
    import.commit(&ImportSummary::default()).expect("commits");

    let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32]), DigestKey::new(&[2; 32])]).expect("keys");
    let suppressions = Arc::new(SuppressionList::new(keys.clone()));
    let number = ContactValue::from_store("+14155550103".to_owned());
    let (suppressed, erased) = (profile("suppressed"), profile("erased"));
    let subjects =
        [Subject::Profile(&suppressed), Subject::Profile(&erased), Subject::Value(Kind::Phone, &number)];
    suppressions
        .replace(subjects.into_iter().filter_map(|subject| keys.digest(subject)))
        .expect("known keys");

    let secret = TokenSecret::generate().expect("random");
    let callers = Callers::new(None, None);
    callers.replace(vec![(secret.hash(), Token::new("crm", at).expect("random"), 0)], at);
    let caller = callers.find(secret.expose(), at).expect("known");
    let lookups = Lookups::new(store, suppressions, Arc::new(NoAudit));
    let mut work = Vec::new();
    for slug in ["unknown", "suppressed", "erased", "number-suppressed", "work", "expired", "empty", "held"] {
        let before = work_done();
        let request = Request { id: "r", at };
        let sealed = lookups.find(&caller, &profile(slug), Kind::Phone, request).await.expect("looks up");
        let found = sealed.open(&caller);
        assert_eq!(found.is_ok(), slug == "held", "{slug}");
        assert!(found.is_ok() || matches!(found, Err(LookupError::NotFound)));
        let after = work_done();
        work.push((slug, after.0 - before.0, after.1 - before.1));
    }
    // Two keys: two digests of the person, two of a value.
    for (slug, digests, reads) in work {
        assert_eq!((digests, reads), (4, 1), "{slug}");
    }
}
