//! The outbox: no change without its entry.

use contactd_core::store::{Aged, DetailFilter, ImportPlan, ImportSummary, PutCounts, Store};
use contactd_core::{Actor, AdminEntry, SubjectDigest, TokenUpdate, Via};

use super::{begun, now, phone, profile, put, record, sweeping, token};

pub(super) fn entry(operation: &'static str) -> AdminEntry {
    AdminEntry::new(&Actor::new("olga", Via::CommandLine), operation, now())
}

/// The operations and counts in the outbox, which is emptied.
async fn taken(store: &dyn Store) -> Vec<(String, Vec<(String, u64)>)> {
    let entries = store.list_entries().await.expect("lists");
    let ids: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
    store.remove_entries(&ids).await.expect("removes");
    entries.into_iter().map(|entry| (entry.operation, entry.counts.into_iter().collect())).collect()
}

fn said(operation: &str, counts: &[(&str, u64)]) -> Vec<(String, Vec<(String, u64)>)> {
    let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
    vec![(operation.to_owned(), counts)]
}

/// Tokens, opt-outs, imports, removals: each stores its entry, with what it counted.
pub async fn every_change_stores_its_entry_with_its_counts(store: &dyn Store) {
    let ((secret, token), (other_secret, other)) = (token("crm"), token("ats"));
    store.create_token(&secret.hash(), &token, Some(&entry("token create"))).await.expect("creates");
    assert_eq!(taken(store).await, said("token create", &[]));
    let rotate = entry("token rotate");
    let rotated = store.rotate_token(&token.id, now(), &other_secret.hash(), &other, Some(&rotate)).await;
    assert!(rotated.expect("rotates"));
    assert_eq!(taken(store).await, said("token rotate", &[]));
    let (update, updating) = (TokenUpdate::default(), entry("token update"));
    assert!(store.update_token(&other.id, &update, now(), Some(&updating)).await.expect("updates").is_some());
    assert_eq!(taken(store).await, said("token update", &[]));
    store.revoke_token(&token.id, now(), Some(&entry("token revoke"))).await.expect("revokes");
    assert_eq!(taken(store).await, said("token revoke", &[]));

    let digest = |byte| SubjectDigest { key: "k".to_owned(), bytes: [byte; 32] };
    store.suppress(&[digest(1)], now(), None).await.expect("suppresses");
    store.suppress(&[digest(1), digest(2)], now(), Some(&entry("suppress"))).await.expect("suppresses");
    assert_eq!(taken(store).await, said("suppress", &[("changed", 1), ("subjects", 2)]));
    store.unsuppress(&[digest(2), digest(3)], Some(&entry("unsuppress"))).await.expect("unsuppresses");
    assert_eq!(taken(store).await, said("unsuppress", &[("changed", 1), ("subjects", 2)]));

    let ada = profile("ada-quell");
    let records = vec![record(&ada, &[phone("01", 90)])];
    let import = begun(store, &ImportPlan::of(1, now()), records).await;
    assert_eq!(taken(store).await, [], "not before it is committed");
    let counts = PutCounts { ..import.counts() };
    let summary = ImportSummary { rows: 3, rejected: 2, counts, ..ImportSummary::default() };
    let id = import.commit(&summary, Some(&entry("import"))).await.expect("commits");
    let expected = [("changed", 0), ("new", 1), ("rejected", 2), ("rows", 3), ("withdrawn", 0)];
    assert_eq!(taken(store).await, said("import", &expected));
    store.undo_import(id, now(), Some(&entry("imports undo"))).await.expect("undoes");
    assert_eq!(taken(store).await, said("imports undo", &[("removed", 1), ("restored", 0)]));

    put(store, &ada, &[phone("01", 90), phone("02", 80)]).await;
    store.remove_details(&ada, &DetailFilter::all(), Some(&entry("remove"))).await.expect("removes");
    assert_eq!(taken(store).await, said("remove", &[("details", 2)]));
    let ended = contactd_core::Detail { expires_at: Some(super::day("2026-01-01")), ..phone("03", 50) };
    put(store, &ada, &[ended]).await;
    store.sweep(sweeping(now(), Aged::Not), Some(&entry("sweep"))).await.expect("sweeps");
    assert_eq!(taken(store).await, said("sweep", &[("details", 1)]));
}

/// What a server does every minute leaves an entry only if it removed something. An entry can be added by itself.
pub async fn nothing_removed_is_no_entry_and_entries_can_be_removed(store: &dyn Store) {
    let (removal, sweep) = (entry("remove"), entry("sweep"));
    store.remove_details(&profile("nobody"), &DetailFilter::all(), Some(&removal)).await.expect("removes");
    store.sweep(sweeping(now(), Aged::Policies), Some(&sweep)).await.expect("sweeps");
    store.revoke_token("tok_none", now(), Some(&entry("token revoke"))).await.expect("revokes");
    let (update, updating) = (TokenUpdate::default(), entry("token update"));
    store.update_token("tok_none", &update, now(), Some(&updating)).await.expect("updates");
    store.undo_import(99, now(), Some(&entry("imports undo"))).await.expect("undoes");
    assert_eq!(store.list_entries().await.expect("lists"), []);
    let (first, second) = (entry("export"), entry("subject").failed());
    store.add_entry(&first).await.expect("adds");
    store.add_entry(&second).await.expect("adds");
    assert_eq!(store.list_entries().await.expect("lists"), [first.clone(), second.clone()]);
    assert_eq!(store.claim_entries("n1").await.expect("claims"), [first.clone(), second.clone()]);
    store.remove_entries(&[first.entry, "unknown".to_owned()]).await.expect("removes");
    assert_eq!(store.list_entries().await.expect("lists"), [second]);
}
