//! Undoing imports.

use contactd_core::store::{Aged, DetailFilter, ImportPlan, Store, SweepPlan, Swept, Undo, Undone};
use contactd_core::{Detail, Kind, Profile, Record};

use super::{day, email, now, phone, profile, put, put_all, record, sweeping, value};

/// Everything that is held, in order.
async fn everything(store: &dyn Store) -> Vec<(String, Vec<Detail>)> {
    let mut all = Vec::new();
    let mut visit = |profile: &Profile, details: Vec<Detail>| {
        all.push((profile.key().to_owned(), details));
        true
    };
    store.visit_all(&mut visit).await.expect("reads");
    all
}

fn replacing() -> ImportPlan {
    ImportPlan { replaced: vec!["crm".to_owned()], ..ImportPlan::of(50, now()) }
}

async fn newest(store: &dyn Store) -> i64 {
    store.list_imports().await.expect("lists").last().expect("an import").id
}

/// 60 people of two sources.
async fn fill(store: &dyn Store) -> Vec<Profile> {
    let profiles: Vec<Profile> = (0..60).map(|number| profile(&format!("quell-{number}"))).collect();
    let other = Detail { source: "hr".to_owned(), ..phone("09", 10) };
    let of = |(number, profile): (usize, &Profile)| match number % 3 {
        0 => record(profile, &[phone("01", 50), email("ada"), other.clone()]),
        _ => record(profile, &[phone("01", 50), phone("02", 60)]),
    };
    put_all(store, &ImportPlan::of(60, now()), profiles.iter().enumerate().map(of).collect()).await;
    profiles
}

/// Some details are new, some changed, some withdrawn; a few people are gone altogether.
fn replacement(profiles: &[Profile]) -> Vec<Record> {
    let changed = Detail { basis: Some("consent".to_owned()), ..phone("01", 70) };
    profiles.iter().step_by(2).map(|profile| record(profile, &[changed.clone(), phone("03", 5)])).collect()
}

/// Undoing restores what was changed and withdrawn, and removes what was added.
pub async fn undoing_a_replacement_leaves_everything_as_before(store: &dyn Store) {
    let profiles = fill(store).await;
    let (before, totals) = (everything(store).await, store.totals().await.expect("counts"));
    let counts = put_all(store, &replacing(), replacement(&profiles)).await;
    assert_eq!((counts.new, counts.changed, counts.withdrawn), (30, 30, 90));
    assert_ne!(everything(store).await, before);
    let undone = store.undo_import(newest(store).await, now(), None).await.expect("undoes");
    assert_eq!(undone, Undo::Done(Undone { removed: 30, restored: 120 }));
    assert_eq!(everything(store).await, before);
    let after = store.totals().await.expect("counts");
    assert_eq!((after.profiles, after.details), (totals.profiles, totals.details));
    assert_eq!(store.former_total().await.expect("counts").details, 0);
    let imports = store.list_imports().await.expect("lists");
    assert!(!imports[1].is_kept && imports[0].is_kept, "only the first one can be undone now");
}

/// The newest import of a source has to be undone first. Other sources do not matter.
pub async fn imports_of_a_source_are_undone_newest_first(store: &dyn Store) {
    let ada = profile("ada-quell");
    for confidence in [10, 20, 30] {
        put(store, &ada, &[phone("01", confidence)]).await;
    }
    let other = Detail { source: "hr".to_owned(), ..phone("02", 10) };
    put(store, &ada, std::slice::from_ref(&other)).await;
    let ids: Vec<i64> = store.list_imports().await.expect("lists").iter().map(|import| import.id).collect();
    let undo = async |at: usize| store.undo_import(ids[at], now(), None).await.expect("undoes");
    assert_eq!(undo(0).await, Undo::Later(ids[2]));
    assert_eq!(undo(1).await, Undo::Later(ids[2]));
    assert_eq!(store.list_details(&ada).await.expect("reads"), [phone("01", 30), other.clone()]);
    let restored = Undo::Done(Undone { removed: 0, restored: 1 });
    assert_eq!(undo(2).await, restored);
    assert_eq!(undo(0).await, Undo::Later(ids[1]));
    assert_eq!(undo(1).await, restored);
    assert_eq!(store.list_details(&ada).await.expect("reads"), [phone("01", 10), other.clone()]);
    assert_eq!(undo(0).await, Undo::Done(Undone { removed: 1, restored: 0 }));
    assert_eq!(store.list_details(&ada).await.expect("reads"), [other]);
}

/// What was removed or has expired since stays gone, and everything else is restored.
pub async fn what_is_gone_since_is_not_restored(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let ending = Detail { expires_at: Some(day("2026-06-03")), ..phone("04", 40) };
    put(store, &ada, &[phone("01", 50), phone("02", 50), ending, email("ada")]).await;
    put(store, &bo, &[phone("05", 50), email("bo")]).await;
    put_all(store, &replacing(), vec![record(&ada, &[phone("01", 60)])]).await;
    let number = |text: &str| DetailFilter { values: Some(vec![(Kind::Phone, value(text))]), source: None };
    let remove = async |of: &Profile, which: &DetailFilter| {
        store.remove_details(of, which, None).await.expect("removes")
    };
    assert_eq!(remove(&ada, &number("+14155550101")).await, 1, "held, and kept as it was before");
    assert_eq!(remove(&ada, &number("+14155550102")).await, 1, "only kept");
    assert_eq!(remove(&bo, &DetailFilter::all()).await, 2, "only kept");
    assert_eq!(remove(&bo, &DetailFilter::all()).await, 0);
    let undone = store.undo_import(newest(store).await, day("2026-06-03"), None).await.expect("undoes");
    assert_eq!(undone, Undo::Done(Undone { removed: 0, restored: 1 }));
    assert_eq!(store.list_details(&ada).await.expect("reads"), [email("ada")]);
    assert_eq!(store.list_details(&bo).await.expect("reads"), []);
}

/// What is kept is listed, counted, and found by its value.
pub async fn what_is_kept_for_undo_counts_as_held(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    put(store, &ada, &[phone("01", 50), email("ada")]).await;
    put(store, &bo, &[phone("02", 50)]).await;
    put_all(store, &replacing(), vec![record(&ada, &[phone("01", 60)])]).await;
    let id = newest(store).await;
    let mut kept = store.list_former(&ada).await.expect("lists");
    kept.sort_by_key(|former| former.detail.kind);
    assert_eq!(
        kept.iter().map(|former| &former.detail).collect::<Vec<_>>(),
        [&phone("01", 50), &email("ada")]
    );
    assert!(kept.iter().all(|former| former.import == id && former.imported_at == now()));
    assert_eq!(store.list_former(&bo).await.expect("lists").len(), 1);
    assert_eq!(store.list_former(&profile("nobody")).await.expect("lists"), []);
    assert_eq!(store.find_profiles(Kind::Phone, &value("+14155550102")).await.expect("finds"), [bo]);
    assert_eq!(store.find_profiles(Kind::Phone, &value("+14155550101")).await.expect("finds"), [ada]);
    let total = store.former_total().await.expect("counts");
    assert!(total.details == 3 && total.bytes > 0, "{total:?}");
}

/// After that an import that changed something cannot be undone; one that only added can.
pub async fn what_is_kept_for_undo_is_forgotten_in_time(store: &dyn Store) {
    let (ada, bo) = (profile("ada-quell"), profile("bo-quell"));
    let ended = Detail { expires_at: Some(day("2026-06-02")), ..phone("02", 50) };
    let old = Detail { observed_at: Some(day("2025-01-01")), ..phone("03", 50) };
    put(store, &ada, &[phone("01", 50), ended, old]).await;
    let (first, plan) = (newest(store).await, replacing());
    put_all(store, &plan, vec![record(&ada, &[phone("01", 60)])]).await;
    let second = newest(store).await;
    let other = Detail { source: "hr".to_owned(), ..phone("05", 10) };
    put(store, &bo, &[other]).await;
    let third = newest(store).await;

    let swept = store.sweep(sweeping(day("2026-06-02"), Aged::Not), None).await.expect("sweeps");
    assert_eq!(swept, Swept { former: 1, ..Swept::default() }, "it has expired");
    let aged = Aged::Source("crm", std::time::Duration::from_secs(86_400 * 100));
    let swept = store.sweep(sweeping(day("2026-06-02"), aged), None).await.expect("sweeps");
    assert_eq!(swept, Swept { former: 1, ..Swept::default() }, "it is too old");
    let later = SweepPlan { former_before: day("2026-06-02"), ..sweeping(day("2026-06-02"), Aged::Not) };
    assert_eq!(store.sweep(later, None).await.expect("sweeps"), Swept { former: 1, ..Swept::default() });
    assert_eq!(store.former_total().await.expect("counts").details, 0);
    assert_eq!(store.undo_import(second, now(), None).await.expect("undoes"), Undo::NotKept);
    assert_eq!(store.undo_import(first, now(), None).await.expect("undoes"), Undo::Later(second));
    let undone = store.undo_import(third, now(), None).await.expect("undoes");
    assert_eq!(undone, Undo::Done(Undone { removed: 1, restored: 0 }));

    put_all(store, &ImportPlan { keep_former: false, ..plan }, vec![record(&bo, &[phone("06", 1)])]).await;
    assert_eq!(store.former_total().await.expect("counts").details, 0);
    let undone = store.undo_import(newest(store).await, now(), None).await.expect("undoes");
    assert_eq!(undone, Undo::NotKept, "nothing was to be kept");
}
