//! Imports.

use contactd_core::store::{
    Aged, Crowd, DetailFilter, ImportPlan, ImportSummary, PutCounts, Store, StoreError, Undo, Undone,
    WithdrawnFrom,
};
use contactd_core::{Detail, Kind, Profile, Record};

use super::{begun, best, day, email, now, phone, profile, put, put_all, record, sweeping, value};

/// Importing the same details twice has the same effect as importing them once.
pub async fn importing_the_same_again_changes_nothing(store: &dyn Store) {
    let ada = profile("ada-quell");
    let first = put(store, &ada, &[phone("01", 90), email("ada")]).await;
    assert_eq!(first, PutCounts { profiles_new: 1, new: 2, ..PutCounts::default() });
    let second = put(store, &ada, &[phone("01", 90), email("ada")]).await;
    assert_eq!(second, PutCounts { unchanged: 2, ..PutCounts::default() });
}

/// Profile, kind, value and source identify a detail; the other fields are updated.
pub async fn a_new_date_or_confidence_updates_the_detail(store: &dyn Store) {
    let ada = profile("ada-quell");
    put(store, &ada, &[phone("01", 90)]).await;
    let updated =
        Detail { observed_at: Some(day("2026-05-01")), basis: Some("consent".into()), ..phone("01", 10) };
    let counts = put(store, &ada, std::slice::from_ref(&updated)).await;
    assert_eq!(counts, PutCounts { profiles_changed: 1, changed: 1, ..PutCounts::default() });
    assert_eq!(store.list_details(&ada).await.expect("reads"), [updated]);
}

/// What was given last is kept, within one record and from one import to the next.
pub async fn addresses_that_differ_only_in_case_are_one_detail(store: &dyn Store) {
    let ada = profile("ada-quell");
    let spelt = |text: &str| Detail { value: value(text), ..email("ada") };
    let surer = Detail { confidence: 90, ..spelt("ADA@example.com") };
    let counts = put(store, &ada, &[surer, spelt("Ada@example.com")]).await;
    assert_eq!(counts, PutCounts { profiles_new: 1, new: 1, unchanged: 1, ..PutCounts::default() });
    assert_eq!(store.list_details(&ada).await.expect("reads"), [spelt("Ada@example.com")]);
    let counts = put(store, &ada, &[spelt("ada@example.com")]).await;
    assert_eq!(counts, PutCounts { profiles_changed: 1, changed: 1, ..PutCounts::default() });
    assert_eq!(store.list_details(&ada).await.expect("reads"), [spelt("ada@example.com")]);
    let other = Detail { source: "events".to_owned(), ..spelt("ADA@example.com") };
    assert_eq!(put(store, &ada, &[other]).await.new, 1, "another source is another detail");
}

/// Several records of one profile count as one profile, new or changed.
pub async fn a_profile_is_counted_once_in_an_import(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    let details = [phone("02", 90), phone("03", 90), phone("01", 80)];
    let records = [&ada, &eve]
        .into_iter()
        .flat_map(|profile| details.iter().map(move |detail| record(profile, std::slice::from_ref(detail))));
    let counts = put_all(store, &ImportPlan::of(6, now()), records.collect()).await;
    assert_eq!((counts.profiles_new, counts.profiles_changed), (1, 1), "Eve is new, Ada is changed");
    assert_eq!((counts.new, counts.changed), (5, 1));
}

/// All or nothing.
pub async fn a_dropped_import_changes_nothing(store: &dyn Store) {
    let ada = profile("ada-quell");
    let mut import = store.begin_import(&ImportPlan::of(1, now())).await.expect("begins");
    import.put(vec![record(&ada, &[phone("01", 90)])]).await.expect("puts");
    assert_eq!(best(store, &ada, Kind::Phone).await, None, "visible before it was committed");
    drop(import);
    assert_eq!(best(store, &ada, Kind::Phone).await, None);
    assert_eq!(store.totals().await.expect("counts").profiles, 0);
    put(store, &ada, &[phone("02", 90)]).await;
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550102"));
}

/// Only details that the import added are taken back.
pub async fn values_taken_back_are_neither_stored_nor_counted(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    let records = vec![
        record(&ada, &[phone("02", 99), phone("01", 95), email("ada")]),
        record(&eve, &[phone("03", 90), email("eve")]),
    ];
    let mut import = begun(store, &ImportPlan::of(2, now()), records).await;
    let of = |profile: &Profile, detail: Detail| (profile.clone(), detail.kind, detail.value);
    import
        .take_back(&[of(&eve, phone("03", 0)), of(&eve, email("eve")), of(&ada, email("ada"))])
        .await
        .expect("takes back");
    let counts = import.counts();
    assert_eq!((counts.new, counts.taken_back, counts.profiles_new), (1, 3, 0));
    import.take_back(&[of(&ada, phone("01", 0)), of(&ada, phone("02", 0))]).await.expect("takes back");
    let counts = import.counts();
    assert_eq!((counts.new, counts.changed, counts.taken_back), (0, 1, 4), "what was only updated stays");
    import.commit(&ImportSummary::default(), None).await.expect("commits");
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550101"));
    assert_eq!(best(store, &ada, Kind::Email).await, None);
    assert_eq!(best(store, &eve, Kind::Phone).await, None);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}

/// Someone who was held before is not counted as new, whatever is left of them.
pub async fn taking_back_the_last_detail_of_someone_who_was_held_is_not_one_new_profile_less(
    store: &dyn Store,
) {
    let ada = profile("ada-quell");
    put(store, &ada, &[phone("01", 90)]).await;
    let plan = ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(1, now()) };
    let mut import = begun(store, &plan, vec![record(&ada, &[phone("02", 90)])]).await;
    import.take_back(&[(ada.clone(), Kind::Phone, value("+14155550102"))]).await.expect("takes back");
    let counts = import.counts();
    assert_eq!((counts.profiles_new, counts.new, counts.withdrawn, counts.taken_back), (0, 0, 1, 1));
    import.commit(&ImportSummary::default(), None).await.expect("commits");
    assert_eq!(store.totals().await.expect("counts").profiles, 0);
}

/// Records are merged correctly into an empty store, and in a large or a small import into a filled one.
pub async fn large_and_small_imports_do_the_same(store: &dyn Store) {
    let profiles: Vec<Profile> = (0..200).map(|number| profile(&format!("quell-{number}"))).collect();
    for (round, step) in [(0_u8, 1), (1, 2), (2, 150)] {
        let records: Vec<Record> = profiles
            .iter()
            .step_by(step)
            .flat_map(|profile| {
                [
                    record(profile, &[phone("01", 50), phone("02", 60 + round)]),
                    record(profile, &[phone("01", 50)]),
                ]
            })
            .collect();
        let count = records.len() as u64 / 2;
        let counts = put_all(store, &ImportPlan::of(records.len() as u64, now()), records).await;
        let expected = match round {
            0 => PutCounts { profiles_new: count, new: 2 * count, unchanged: count, ..PutCounts::default() },
            _ => PutCounts {
                profiles_changed: count,
                changed: count,
                unchanged: 2 * count,
                ..PutCounts::default()
            },
        };
        assert_eq!(counts, expected, "round {round}");
    }
    assert_eq!(store.totals().await.expect("counts").profiles, 200);
    for profile in &profiles {
        assert_eq!(best(store, profile, Kind::Phone).await.as_deref(), Some("+14155550102"));
    }
}

/// Details of a replaced source that the import does not put are removed; those of other sources stay.
pub async fn a_replaced_source_keeps_only_what_is_put(store: &dyn Store) {
    let profiles: Vec<Profile> = (0..100).map(|number| profile(&format!("quell-{number}"))).collect();
    let other = Detail { source: "hr".to_owned(), ..phone("09", 10) };
    for (number, profile) in profiles.iter().enumerate() {
        let details = [phone("01", 50), phone("02", 60), email("ada"), other.clone()];
        put(store, profile, if number % 2 == 0 { &details } else { &details[..3] }).await;
    }
    let records: Vec<Record> = profiles
        .iter()
        .skip(3)
        .step_by(4)
        .map(|profile| record(profile, &[phone("02", 60), phone("03", 5)]))
        .collect();
    let plan = ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(30, now()) };
    let counts = put_all(store, &plan, records).await;
    assert_eq!(counts.withdrawn, 25 * 2 + 75 * 3);
    assert_eq!(
        counts.profiles_changed,
        25 + 50,
        "25 keep details of this source, 50 keep those of the other"
    );
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

/// A source may have 20 values of a kind for a profile: what is held counts first, then what is given, in order.
pub async fn a_source_has_at_most_twenty_values_of_a_kind_for_a_profile(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let many = |numbers: std::ops::Range<u32>| -> Vec<Detail> {
        numbers.map(|number| email(&format!("p{number}"))).collect()
    };
    let other = Detail { source: "hr".to_owned(), ..email("p99") };
    let given = [&many(0..22)[..], &[phone("01", 50), other.clone(), email("p3")]].concat();
    let records = vec![record(&ada, &given), record(&bo, &many(0..20))];
    let import = begun(store, &ImportPlan::of(2, now()), records).await;
    assert_eq!((import.counts().new, import.counts().refused), (42, 2));
    let crowd = Crowd { profile: ada.clone(), source: "crm".to_owned() };
    assert_eq!(import.crowds(), [crowd], "once, however many are refused");
    import.commit(&ImportSummary::default(), None).await.expect("commits");
    let mut held = store.list_details(&ada).await.expect("reads");
    held.retain(|detail| detail.source == "crm" && detail.kind == Kind::Email);
    assert_eq!(held.len(), 20);
    assert!(many(0..20).iter().all(|detail| held.contains(detail)), "the first of the file");
    let with_held = put(store, &bo, &many(18..22)).await;
    assert_eq!((with_held.unchanged, with_held.refused), (2, 2));
    let plan = ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(1, now()) };
    assert_eq!(
        put_all(store, &plan, vec![record(&bo, &many(18..22))]).await.refused,
        0,
        "what goes does not count"
    );
}

/// Before it is committed, so that the caller can still decide against it.
pub async fn a_replaced_source_tells_how_much_it_loses(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let other = Detail { source: "hr".to_owned(), ..phone("09", 10) };
    put(store, &ada, &[phone("01", 50), phone("02", 60), other]).await;
    put(store, &bo, &[phone("03", 50)]).await;
    let replaced = vec!["crm".to_owned(), "new".to_owned()];
    let plan = ImportPlan { replaced, ..ImportPlan::of(1, now()) };
    let import = begun(store, &plan, vec![record(&ada, &[phone("01", 70), phone("04", 1)])]).await;
    let from = |source: &str, held, withdrawn| WithdrawnFrom { source: source.to_owned(), held, withdrawn };
    assert_eq!(import.withdrawn(), [from("crm", 3, 2), from("new", 0, 0)]);
}

/// The second one gets `Busy`, and can begin when the first has ended.
pub async fn a_second_import_is_refused_while_one_is_in_progress(store: &dyn Store) {
    let plan = ImportPlan::of(1, now());
    let first = store.begin_import(&plan).await.expect("begins");
    assert!(matches!(store.begin_import(&plan).await.err(), Some(StoreError::Busy)));
    drop(first);
    assert!(store.begin_import(&plan).await.is_ok());
}

/// Their changes have not been made.
pub async fn other_writers_of_details_get_busy_during_an_import(store: &dyn Store) {
    let ada = profile("ada-quell");
    let ended = Detail { expires_at: Some(now()), ..email("ada") };
    put(store, &ada, &[phone("01", 90), ended]).await;
    let id = store.list_imports().await.expect("lists")[0].id;
    let import = store.begin_import(&ImportPlan::of(1, now())).await.expect("begins");
    let is_busy = |done: Option<StoreError>| matches!(done, Some(StoreError::Busy));
    assert!(is_busy(store.remove_details(&ada, &DetailFilter::all(), None).await.err()));
    assert!(is_busy(store.undo_import(id, now(), None).await.err()));
    assert!(is_busy(store.sweep(sweeping(now(), Aged::Not), None).await.err()));
    assert_eq!(store.list_details(&ada).await.expect("reads").len(), 2, "reading still works");
    drop(import);
    assert_eq!(store.remove_details(&ada, &DetailFilter::all(), None).await.expect("removes"), 2);
}

/// Undoing removes the details that the import added and that are still held, and nothing else.
pub async fn imports_are_listed_and_can_be_undone_once(store: &dyn Store) {
    let (ada, eve) = (profile("ada-quell"), profile("eve-nuvel"));
    put(store, &ada, &[phone("01", 90)]).await;
    let plan = ImportPlan::of(2, day("2026-06-02"));
    let records = vec![record(&ada, &[phone("02", 95), phone("03", 1)]), record(&eve, &[phone("04", 90)])];
    let import = begun(store, &plan, records).await;
    let summary = ImportSummary {
        source: "events".to_owned(),
        actor: Some("olga".to_owned()),
        files: vec!["people.csv".to_owned()],
        rows: 5,
        rejected: 1,
        suppressed: 1,
        counts: import.counts(),
    };
    let id = import.commit(&summary, None).await.expect("commits");
    let number = DetailFilter { values: Some(vec![(Kind::Phone, value("+14155550103"))]), source: None };
    store.remove_details(&ada, &number, None).await.expect("removes");

    let listed = store.list_imports().await.expect("lists");
    assert_eq!(listed.len(), 2);
    assert_eq!((listed[1].id, listed[1].at, &listed[1].summary), (id, day("2026-06-02"), &summary));
    assert_eq!(store.undo_import(id + 7, now(), None).await.expect("undoes"), Undo::Unknown);
    let undone = store.undo_import(id, day("2026-06-03"), None).await.expect("undoes");
    assert_eq!(undone, Undo::Done(Undone { removed: 2, restored: 0 }));
    assert_eq!(store.undo_import(id, day("2026-06-04"), None).await.expect("undoes"), Undo::Already);
    assert_eq!(store.list_imports().await.expect("lists")[1].undone_at, Some(day("2026-06-03")));
    assert_eq!(best(store, &ada, Kind::Phone).await.as_deref(), Some("+14155550101"));
    assert_eq!(best(store, &eve, Kind::Phone).await, None);
    assert_eq!(store.totals().await.expect("counts").profiles, 1);
}
