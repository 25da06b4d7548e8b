//! Profiles and their details.

use std::time::Duration;

use contactd_core::store::{
    Aged, DetailFilter, ImportPlan, NextEnding, ScanLimits, SourceRetention, Store, Swept,
};
use contactd_core::{Detail, Kind, Label, SlugParts, Span, Timestamp};

use super::{best, day, email, now, phone, profile, put, put_all, record, sweeping, value};

/// Phone numbers before addresses, personal before work, then best first.
pub async fn details_are_listed_best_first(store: &dyn Store) {
    let ada = profile("ada-quell");
    let work = Detail { label: Label::Work, ..phone("01", 100) };
    put(store, &ada, &[email("ada"), work.clone(), phone("02", 50), phone("03", 60)]).await;
    let listed = store.list_details(&ada).await.expect("reads");
    assert_eq!(listed, [phone("03", 60), phone("02", 50), work, email("ada")]);
    assert_eq!(store.list_details(&profile("nobody")).await.expect("reads"), []);
}

/// By value, by source, or everything; removing nothing is not an error.
pub async fn removing_removes_only_what_matches(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    let other = Detail { source: "events".to_owned(), ..phone("01", 90) };
    put(store, &ada, &[phone("01", 90), other.clone(), phone("02", 80), email("ada")]).await;
    put(store, &eve, &[phone("02", 90)]).await;
    let of = |values, source: Option<&str>| DetailFilter { values, source: source.map(str::to_owned) };
    let number = Some(vec![(Kind::Phone, value("+14155550101"))]);
    for (which, removed) in [
        (of(Some(Vec::new()), None), 0),
        (of(Some(vec![(Kind::Email, value("+14155550101"))]), None), 0),
        (of(number.clone(), Some("crm")), 1),
        (of(number.clone(), Some("crm")), 0),
    ] {
        assert_eq!(store.remove_details(&ada, &which, None).await.expect("removes"), removed, "{which:?}");
    }
    assert_eq!(store.list_details(&ada).await.expect("reads"), [other, phone("02", 80), email("ada")]);
    assert_eq!(
        store.remove_details(&profile("nobody"), &DetailFilter::all(), None).await.expect("removes"),
        0
    );
    assert_eq!(store.remove_details(&ada, &DetailFilter::all(), None).await.expect("removes"), 3);
    assert_eq!(best(store, &ada, Kind::Email).await, None);
    assert_eq!(best(store, &eve, Kind::Phone).await.as_deref(), Some("+14155550102"));
}

/// Totals follow every change without reading the details.
pub async fn totals_add_up(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    let work = Detail { label: Label::Work, source: "events".into(), ..email("eve") };
    assert_eq!(store.totals().await.expect("counts").newest_import, None);
    put(store, &ada, &[phone("01", 90), phone("02", 90)]).await;
    put(store, &eve, &[work]).await;
    put(store, &ada, &[Detail { label: Label::Work, ..phone("02", 90) }]).await;
    let number = DetailFilter { values: Some(vec![(Kind::Phone, value("+14155550101"))]), source: None };
    store.remove_details(&ada, &number, None).await.expect("removes");
    let totals = store.totals().await.expect("counts");
    let mut counted: Vec<_> = totals
        .details
        .iter()
        .map(|total| (total.source.as_str(), total.kind, total.label, total.count))
        .collect();
    counted.sort();
    assert_eq!(totals.profiles, 2);
    assert_eq!(counted, [("crm", Kind::Phone, Label::Work, 1), ("events", Kind::Email, Label::Work, 1)]);
    assert_eq!(totals.newest_import.map(|import| import.summary.source).as_deref(), Some("crm"));
    store.remove_details(&eve, &DetailFilter::all(), None).await.expect("removes");
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// Ordered by URL, whatever the engine's own order is.
pub async fn everything_is_visited_in_order_until_the_visitor_stops(store: &dyn Store) {
    for slug in ["eve-nuvel", "ada-quell", "bo-quell"] {
        put(store, &profile(slug), &[phone("01", 90), email(slug)]).await;
    }
    let visit = |most: usize| async move {
        let mut visited = Vec::new();
        let mut take = |profile: &contactd_core::Profile, details: Vec<Detail>| {
            visited.push((profile.key().to_owned(), details.len()));
            visited.len() < most
        };
        store.visit_all(&mut take).await.expect("visits");
        visited
    };
    let key = |slug: &str| (format!("linkedin.com/in/{slug}"), 2);
    assert_eq!(visit(usize::MAX).await, [key("ada-quell"), key("bo-quell"), key("eve-nuvel")]);
    assert_eq!(visit(2).await, [key("ada-quell"), key("bo-quell")]);
}

/// E-mail addresses are compared ignoring case.
pub async fn a_number_or_an_address_is_found_under_every_profile(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    put(store, &bo, &[phone("01", 50), email("Quell")]).await;
    let twice = Detail { source: "hr".to_owned(), ..email("quell") };
    put(store, &ada, &[phone("01", 50), email("quell"), twice]).await;
    let find = |kind, text: &'static str| async move {
        store.find_profiles(kind, &value(text)).await.expect("reads")
    };
    assert_eq!(find(Kind::Phone, "+14155550101").await, [ada.clone(), bo.clone()]);
    assert_eq!(find(Kind::Email, "QUELL@example.com").await, [ada, bo]);
    assert_eq!(find(Kind::Phone, "+14155550102").await, []);
    let values = [(Kind::Email, value("Quell@example.com")), (Kind::Phone, value("+14155550101"))];
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let expected = [(ada.clone(), 0), (ada.clone(), 1), (bo.clone(), 0), (bo.clone(), 1)];
    assert_eq!(store.find_holders(&values).await.expect("finds"), expected);
    assert_eq!(store.are_held(&[profile("nobody"), ada, bo]).await.expect("finds"), [false, true, true]);
}

/// In any order, with or without accents, also if the slug has escapes; and no further than was asked.
pub async fn people_are_found_by_parts_of_their_slugs(store: &dyn Store) {
    for slug in ["quell-ada-1a2b3c", "k%C3%A4the-m%C3%BCller", "kaethe-quell", "ada-nuvel", "bo-nuvel"] {
        put(store, &profile(slug), &[phone("01", 50), email(slug)]).await;
    }
    let find = |name: &'static str, profiles, details| async move {
        let parts = SlugParts::read(name).expect("parts");
        let found = store.find_by_slug(&parts, ScanLimits { profiles, details }).await.expect("finds");
        found
            .iter()
            .map(|profile| profile.key().trim_start_matches("linkedin.com/in/").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(find("Ada Quell", 10, 100).await, ["quell-ada-1a2b3c"]);
    assert_eq!(find("ada", 10, 100).await, ["ada-nuvel", "quell-ada-1a2b3c"]);
    assert_eq!(find("Käthe", 10, 100).await, ["k%C3%A4the-m%C3%BCller", "kaethe-quell"]);
    assert_eq!(find("muller", 10, 100).await, ["k%C3%A4the-m%C3%BCller"]);
    assert_eq!(find("linkedin", 10, 100).await, [""; 0]);
    assert_eq!(find("ll", 2, 100).await.len(), 2);
    assert_eq!(find("ll", 10, 0).await, [""; 0]);
    store.remove_details(&profile("ada-nuvel"), &DetailFilter::all(), None).await.expect("removes");
    assert_eq!(find("ada", 10, 100).await, ["quell-ada-1a2b3c"]);
}

/// An engine without a clock of its own believes that of the machine.
pub async fn a_clock_that_is_ahead_removes_nothing_too_early_where_the_store_has_one_too(store: &dyn Store) {
    let (behind, ahead) = (day("2020-01-01"), day("2999-01-01"));
    assert_eq!(store.removal_time(behind).await.expect("asks"), behind);
    let shared = store.removal_time(ahead).await.expect("asks");
    assert!(shared == ahead || shared < day("2200-01-01"), "{shared:?}");
}

/// Expired details and those that are too old are removed; the rest stays, and totals are correct.
pub async fn a_sweep_removes_only_expired_and_too_old_details(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let ended = Detail { expires_at: Some(now()), ..phone("01", 90) };
    let ending = Detail { expires_at: Some(Timestamp::from_seconds(now().seconds() + 1)), ..phone("02", 80) };
    let old = Detail { observed_at: Some(day("2025-01-01")), ..email("old") };
    let new = Detail { observed_at: Some(day("2026-05-30")), ..email("new") };
    let other = Detail { source: "hr".to_owned(), ..old.clone() };
    put(store, &ada, &[ended, ending.clone(), old.clone(), new.clone(), other.clone()]).await;
    put(store, &bo, std::slice::from_ref(&old)).await;
    let swept = store.sweep(sweeping(now(), Aged::Not), None).await.expect("sweeps");
    assert_eq!(swept, Swept { expired: 1, ..Swept::default() });
    let day_long = Duration::from_secs(86_400);
    let swept = store.sweep(sweeping(now(), Aged::Source("crm", 30 * day_long)), None).await.expect("sweeps");
    assert_eq!(swept, Swept { aged: 2, ..Swept::default() });
    let mut left = store.list_details(&ada).await.expect("reads");
    left.sort_by(|a, b| a.value.cmp(&b.value));
    assert_eq!(left, [ending, new, other]);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);

    // A maximum age that is given with an import applies from then on. Undated details count from their import.
    let max_age = Some((vec!["crm".to_owned()], 60 * day_long));
    let plan = ImportPlan { max_age, ..ImportPlan::of(1, now()) };
    put_all(store, &plan, vec![record(&bo, &[email("undated")])]).await;
    let sweep = |days: u32| store.sweep(sweeping(now().plus(days * day_long), Aged::Policies), None);
    assert_eq!(sweep(0).await.expect("sweeps"), Swept::default());
    assert_eq!(sweep(58).await.expect("sweeps"), Swept { expired: 1, ..Swept::default() });
    // A detail that is imported again is as new as that import, even if nothing about it changes.
    let again = ImportPlan::of(1, now().plus(59 * day_long));
    assert_eq!(put_all(store, &again, vec![record(&bo, &[email("undated")])]).await.unchanged, 1);
    assert_eq!(sweep(61).await.expect("sweeps"), Swept { aged: 1, ..Swept::default() });
    assert_eq!(store.totals().await.expect("counts").profiles, 2);
    assert_eq!(sweep(118).await.expect("sweeps"), Swept::default());
    assert_eq!(sweep(120).await.expect("sweeps"), Swept { aged: 1, ..Swept::default() });
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// What a sweep removes at a time is what was announced as due by then.
pub async fn the_details_that_end_next_are_listed_by_source(store: &dyn Store) {
    let day_long = Duration::from_secs(86_400);
    let ada = profile("ada-quell");
    let until = |text: &str| Some(Timestamp::parse(text).expect("a time"));
    let due = Detail { expires_at: until("2026-06-01"), ..phone("01", 90) };
    let first = Detail { expires_at: until("2026-07-01T08:00:00Z"), ..phone("02", 90) };
    let same_day = Detail { expires_at: until("2026-07-01T09:00:00Z"), ..phone("03", 90) };
    let later = Detail { expires_at: until("2026-08-01"), ..phone("04", 90) };
    let of_hr = |detail: Detail| Detail { source: "hr".to_owned(), ..detail };
    let old = of_hr(Detail { observed_at: until("2026-01-01"), ..email("old") });
    let new = of_hr(Detail { observed_at: until("2026-05-31"), ..email("new") });
    let max_age = Some((vec!["hr".to_owned(), "gone".to_owned()], 60 * day_long));
    let plan = ImportPlan { max_age, ..ImportPlan::of(1, now()) };
    let details = [due, first, same_day, later, old, new, of_hr(email("undated")), of_ats(email("kept"))];
    put_all(store, &plan, vec![record(&ada, &details)]).await;
    let listed = store.list_retention(now()).await.expect("lists");
    let source = |name: &str, max_age, details, due, next: Option<(u64, &str)>| SourceRetention {
        source: name.to_owned(),
        max_age,
        details,
        due,
        expired: if name == "crm" { due } else { 0 },
        next: next.map(|(details, by)| NextEnding { details, by: Timestamp::parse(by).expect("a time") }),
    };
    let sixty = Some(Span(60 * day_long));
    assert_eq!(
        listed,
        [
            source("ats", None, 1, 0, None),
            source("crm", None, 4, 1, Some((2, "2026-07-01T09:00:00Z"))),
            source("gone", sixty, 0, 0, None),
            source("hr", sixty, 3, 1, Some((1, "2026-07-30"))),
        ]
    );
    let swept = store.sweep(sweeping(now(), Aged::Policies), None).await.expect("sweeps");
    assert_eq!(swept, Swept { expired: 1, aged: 1, former: 0 });
    // At the end of its last second a detail is not too old yet.
    for (days, due) in [(59, 0), (60, 1)] {
        let listed = store.list_retention(now().plus(days * day_long)).await.expect("lists");
        assert_eq!(listed.iter().find(|of| of.source == "hr").map(|of| of.due), Some(due), "{listed:?}");
    }
    let listed = store.list_retention(now().plus(59 * day_long)).await.expect("lists");
    assert_eq!(listed.last().and_then(|of| of.next).map(|next| next.details), Some(1));
}

fn of_ats(detail: Detail) -> Detail {
    Detail { source: "ats".to_owned(), ..detail }
}
