//! Importing: they work on a copy of all details, which replaces the original at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use contactd_core::store::{
    Import, ImportPlan, ImportSummary, Importing, Noted, PastImport, PutCounts, StoreError, ValueOfProfile,
};
use contactd_core::{Profile, Record, Timestamp};

use super::{Kept, Memory, sort};

/// An import in progress.
pub struct MemoryImport<'a> {
    store: &'a Memory,
    plan: ImportPlan,
    id: i64,
    before: BTreeMap<String, Vec<Kept>>,
    people: BTreeMap<String, Vec<Kept>>,
    counts: PutCounts,
    changed: BTreeSet<String>,
}

impl Importing for Memory {
    type Import<'a> = MemoryImport<'a>;

    /// This engine needs no order.
    fn sort_key(&self, _: &Profile) -> u64 {
        0
    }

    async fn begin_import(&self, plan: &ImportPlan) -> Result<MemoryImport<'_>, StoreError> {
        let state = self.writing()?;
        self.is_importing.store(true, Ordering::SeqCst);
        Ok(MemoryImport {
            store: self,
            plan: plan.clone(),
            id: state.imports.last().map_or(1, |last| last.id + 1),
            before: state.people.clone(),
            people: state.people.clone(),
            counts: PutCounts::default(),
            changed: BTreeSet::new(),
        })
    }

    async fn list_imports(&self) -> Result<Vec<PastImport>, StoreError> {
        Ok(self.state()?.imports.clone())
    }

    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Result<Option<u64>, StoreError> {
        let mut state = self.writing()?;
        let found = state.imports.iter_mut().find(|import| import.id == id && import.undone_at.is_none());
        let Some(import) = found else { return Ok(None) };
        import.undone_at = Some(at);
        let removed = state.remove(|_, kept| kept.added_by == id);
        state.note(entry, &[("details", removed)]);
        Ok(Some(removed))
    }
}

impl MemoryImport<'_> {
    fn put_record(&mut self, record: &Record) {
        let key = record.profile.key().to_owned();
        let kept = self.people.entry(key.clone()).or_default();
        let mut is_changed = false;
        for (at, detail) in record.details.iter().enumerate() {
            if record.details[at + 1..].iter().any(|later| later.is_same(detail)) {
                self.counts.unchanged += 1;
                continue;
            }
            match kept.iter_mut().find(|kept| kept.detail.is_same(detail)) {
                Some(same) if same.detail == *detail => {
                    same.given_by = self.id;
                    self.counts.unchanged += 1;
                }
                Some(same) => {
                    (same.detail, same.given_by) = (detail.clone(), self.id);
                    self.counts.changed += 1;
                    is_changed = true;
                }
                None => {
                    kept.push(Kept { detail: detail.clone(), added_by: self.id, given_by: self.id });
                    self.counts.new += 1;
                    is_changed = true;
                }
            }
        }
        sort(kept);
        if is_changed && self.changed.insert(key.clone()) && !self.before.contains_key(&key) {
            self.counts.profiles_new += 1;
        }
    }
}

impl Import for MemoryImport<'_> {
    async fn put(&mut self, batch: Vec<Record>) -> Result<(), StoreError> {
        batch.iter().for_each(|record| self.put_record(record));
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), StoreError> {
        let (replaced, id) = (&self.plan.replaced, self.id);
        for (key, kept) in &mut self.people {
            let is_gone = |kept: &mut Kept| replaced.contains(&kept.detail.source) && kept.given_by != id;
            let gone = kept.extract_if(.., is_gone).count() as u64;
            self.counts.withdrawn += gone;
            if gone > 0 {
                self.changed.insert(key.clone());
            }
        }
        self.people.retain(|_, kept| !kept.is_empty());
        let is_held = |key: &&String| self.before.contains_key(*key) && self.people.contains_key(*key);
        self.counts.profiles_changed = self.changed.iter().filter(is_held).count() as u64;
        Ok(())
    }

    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Result<(), StoreError> {
        for (profile, kind, value) in values {
            let Some(kept) = self.people.get_mut(profile.key()) else { continue };
            let is_meant = |kept: &mut Kept| {
                kept.added_by == self.id && kept.detail.kind == *kind && kept.detail.value == *value
            };
            let taken = kept.extract_if(.., is_meant).count() as u64;
            self.counts.new -= taken;
            self.counts.taken_back += taken;
            if kept.is_empty() {
                self.people.remove(profile.key());
                self.counts.profiles_new -= u64::from(!self.before.contains_key(profile.key()));
            }
        }
        Ok(())
    }

    fn counts(&self) -> PutCounts {
        self.counts
    }

    async fn commit(self, summary: &ImportSummary, entry: Noted<'_>) -> Result<i64, StoreError> {
        let mut state = self.store.state()?;
        let PutCounts { new, changed, withdrawn, .. } = summary.counts;
        let counts = [("rows", summary.rows), ("rejected", summary.rejected), ("new", new)];
        state.note(entry, &[&counts[..], &[("changed", changed), ("withdrawn", withdrawn)]].concat());
        state.people.clone_from(&self.people);
        state.detail_changes += 1;
        let (id, at) = (self.id, self.plan.at);
        state.imports.push(PastImport { id, at, summary: summary.clone(), undone_at: None });
        if let Some((sources, age)) = &self.plan.max_age {
            state.max_ages.extend(sources.iter().map(|source| (source.clone(), *age)));
        }
        Ok(id)
    }
}

impl Drop for MemoryImport<'_> {
    fn drop(&mut self) {
        self.store.is_importing.store(false, Ordering::SeqCst);
    }
}
