//! The read side of a lookup.

use std::cell::Cell;

use contactd_core::store::Verdict;
use contactd_core::{Detail, Kind, Label, Profile, Timestamp};

use super::{LocalStore, day, email, now, phone, profile};

/// Imports one profile's details, and shows them to this thread.
async fn put(store: &impl LocalStore, profile: &Profile, details: &[Detail]) {
    super::put(store, profile, details).await;
    store.renew_all();
    store.tidy().await.expect("tidies");
}

fn best(store: &impl LocalStore, profile: &Profile, kind: Kind) -> Option<String> {
    let found = store.best_personal(profile, kind, now(), |_| Verdict::Take).expect("reads");
    found.map(|value| value.expose().to_owned())
}

/// Highest confidence, then newest, then smallest value; details without a date count as oldest.
pub async fn a_lookup_prefers_confidence_then_date_then_the_smallest_value(store: &impl LocalStore) {
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
        assert_eq!(best(store, &ada, Kind::Phone).as_deref(), Some(expected));
    }
}

/// Lookups return only details with the personal label.
pub async fn work_details_are_kept_and_never_returned(store: &impl LocalStore) {
    let ada = profile("ada-quell");
    let work = Detail { label: Label::Work, ..phone("01", 100) };
    put(store, &ada, &[work.clone(), phone("02", 1)]).await;
    assert_eq!(best(store, &ada, Kind::Phone).as_deref(), Some("+14155550102"));
    assert!(store.list_details(&ada).await.expect("reads").contains(&work));
}

/// It is not returned from the second in which it expires; the next best detail is.
pub async fn an_expired_detail_is_kept_and_not_returned(store: &impl LocalStore) {
    let ada = profile("ada-quell");
    let ended = Detail { expires_at: Some(now()), ..phone("01", 90) };
    let ending = Detail { expires_at: Some(Timestamp::from_seconds(now().seconds() + 1)), ..phone("02", 80) };
    put(store, &ada, &[ended]).await;
    assert_eq!(best(store, &ada, Kind::Phone), None);
    put(store, &ada, &[ending]).await;
    assert_eq!(best(store, &ada, Kind::Phone).as_deref(), Some("+14155550102"));
}

/// A suppressed number must not hide the person's other one.
pub async fn if_a_value_is_not_taken_the_next_one_is_offered(store: &impl LocalStore) {
    let ada = profile("ada-quell");
    put(store, &ada, &[phone("01", 90), phone("02", 80)]).await;
    let not_the_first = |value: &str| if value == "+14155550101" { Verdict::Next } else { Verdict::Take };
    let found = store.best_personal(&ada, Kind::Phone, now(), not_the_first);
    assert_eq!(found.expect("reads").expect("the next").expose(), "+14155550102");
    let found = store.best_personal(&ada, Kind::Phone, now(), |_| Verdict::Next);
    assert!(found.expect("reads").is_none());
    let enough = |value: &str| if value == "+14155550101" { Verdict::Enough } else { Verdict::Take };
    let found = store.best_personal(&ada, Kind::Phone, now(), enough);
    assert_eq!(found.expect("reads"), None);
}

/// Some value is offered, and the verdict on it is ignored.
pub async fn a_person_who_is_not_held_still_costs_one_value(store: &impl LocalStore) {
    // Enough other profiles that one of them comes next, whatever order the engine uses.
    for number in 0..40 {
        put(store, &profile(&format!("other-quell-{number}")), &[phone("01", 90)]).await;
    }
    for slug in ["nobody-one", "nobody-two", "nobody-three"] {
        let offered = Cell::new(0);
        let take_all = |_: &str| {
            offered.set(offered.get() + 1);
            Verdict::Take
        };
        let found = store.best_personal(&profile(slug), Kind::Phone, now(), take_all);
        assert_eq!(found.expect("reads"), None);
        assert_eq!(offered.get(), 1);
    }
}

/// A phone number is never returned in place of an e-mail address.
pub async fn phone_numbers_and_addresses_are_separate(store: &impl LocalStore) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    put(store, &eve, &[email("eve")]).await;
    assert_eq!(best(store, &ada, Kind::Email), None);
    assert_eq!(best(store, &eve, Kind::Phone), None);
    assert_eq!(best(store, &eve, Kind::Email).as_deref(), Some("eve@example.com"));
}

/// The whole key is compared.
pub async fn profiles_with_a_common_prefix_are_separate(store: &impl LocalStore) {
    let (ada, longer) = (profile("ada-quell"), profile("ada-quell-1a2b3c"));
    put(store, &longer, &[phone("01", 90)]).await;
    assert_eq!(best(store, &ada, Kind::Phone), None);
}

/// Whatever this thread has kept.
pub async fn after_renewing_every_lookup_sees_what_was_committed(store: &impl LocalStore) {
    let ada = profile("ada-quell");
    assert_eq!(best(store, &ada, Kind::Phone), None);
    super::put(store, &ada, &[phone("01", 90)]).await;
    // What a thread has kept is released too.
    store.renew();
    store.renew_all();
    assert_eq!(best(store, &ada, Kind::Phone).as_deref(), Some("+14155550101"));
    store.remove_details(&ada, &contactd_core::store::DetailFilter::all(), None).await.expect("removes");
    store.renew_all();
    assert_eq!(best(store, &ada, Kind::Phone), None);
}
