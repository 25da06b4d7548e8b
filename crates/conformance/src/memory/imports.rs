//! Importing: they work on a copy of all details, which replaces the original at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use contactd_core::store::{
    Crowd, FormerDetail, FormerTotal, Import, ImportPlan, ImportSummary, Importing, Noted, PastImport,
    PutCounts, StoreError, Undo, Undone, ValueOfProfile, WithdrawnFrom, crowds,
};
use contactd_core::{Detail, Profile, Record, Timestamp};

use super::{Former, Kept, Memory, State, sort};

/// An import in progress.
pub struct MemoryImport<'a> {
    store: &'a Memory,
    plan: ImportPlan,
    id: i64,
    before: BTreeMap<String, Vec<Kept>>,
    people: BTreeMap<String, Vec<Kept>>,
    former: Vec<Former>,
    sources: BTreeSet<String>,
    crowds: Vec<Crowd>,
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
            former: Vec::new(),
            sources: plan.replaced.iter().cloned().collect(),
            crowds: Vec::new(),
            counts: PutCounts::default(),
            changed: BTreeSet::new(),
        })
    }

    async fn list_imports(&self) -> Result<Vec<PastImport>, StoreError> {
        Ok(self.state()?.imports.clone())
    }

    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Result<Undo, StoreError> {
        let mut state = self.writing()?;
        let Some(import) = state.imports.iter().find(|import| import.id == id) else {
            return Ok(Undo::Unknown);
        };
        if import.undone_at.is_some() {
            return Ok(Undo::Already);
        }
        let is_later = |other: &&PastImport| {
            let shares = || state.import_sources[&id].intersection(&state.import_sources[&other.id]).next();
            other.id > id && other.undone_at.is_none() && shares().is_some()
        };
        if let Some(later) = state.imports.iter().rfind(is_later) {
            return Ok(Undo::Later(later.id));
        }
        if !import.is_kept {
            return Ok(Undo::NotKept);
        }
        let undone = state.undo(id, at);
        state.note(entry, &[("removed", undone.removed), ("restored", undone.restored)]);
        Ok(Undo::Done(undone))
    }

    async fn list_former(&self, profile: &Profile) -> Result<Vec<FormerDetail>, StoreError> {
        let state = self.state()?;
        let of_profile = state.former.iter().filter(|former| former.profile == profile.key());
        let shown = |former: &Former| {
            let import = state.imports.iter().find(|import| import.id == former.import)?;
            let detail = former.kept.detail.clone();
            Some(FormerDetail { import: former.import, imported_at: import.at, detail })
        };
        Ok(of_profile.filter_map(shown).collect())
    }

    async fn former_total(&self) -> Result<FormerTotal, StoreError> {
        let details = self.state()?.former.len() as u64;
        Ok(FormerTotal { details, bytes: 100 * details })
    }
}

impl State {
    fn undo(&mut self, id: i64, at: Timestamp) -> Undone {
        let mut undone = Undone { removed: self.remove(|_, kept| kept.added_by == id), restored: 0 };
        let of_import: Vec<Former> = self.former.extract_if(.., |former| former.import == id).collect();
        let mut restored: Vec<(String, Kept)> = Vec::new();
        for Former { profile, kept, is_withdrawn, .. } in of_import.into_iter().rev() {
            if kept.detail.expires_at.is_some_and(|end| end.seconds() <= at.seconds()) {
                continue;
            }
            let held = self.people.entry(profile.clone()).or_default();
            match held.iter_mut().find(|held| held.detail.is_same(&kept.detail)) {
                Some(same) if !is_withdrawn => *same = kept.clone(),
                None if is_withdrawn => held.push(kept.clone()),
                _ => continue,
            }
            sort(held);
            if !restored.iter().any(|(of, other)| *of == profile && other.detail.is_same(&kept.detail)) {
                restored.push((profile, kept));
            }
        }
        self.people.retain(|_, held| !held.is_empty());
        undone.restored = restored.len() as u64;
        self.give_older_dates(id);
        for import in self.imports.iter_mut().filter(|import| import.id == id) {
            (import.undone_at, import.is_kept) = (Some(at), false);
        }
        self.detail_changes += 1;
        undone
    }

    /// A detail that the undone import contained last is as old as the import before of its source.
    fn give_older_dates(&mut self, id: i64) {
        let (imports, sources) = (&self.imports, &self.import_sources);
        for kept in self.people.values_mut().flatten().filter(|kept| kept.given_by == id) {
            let is_before = |import: &&PastImport| {
                import.id < id
                    && import.undone_at.is_none()
                    && sources[&import.id].contains(&kept.detail.source)
            };
            kept.given_by = imports.iter().rfind(is_before).map_or(kept.added_by, |import| import.id);
        }
    }
}

impl MemoryImport<'_> {
    fn put_record(&mut self, record: &Record) {
        let key = record.profile.key().to_owned();
        let held = self.people.get(&key).map(Vec::as_slice).unwrap_or_default();
        let stays =
            |kept: &&Kept| kept.given_by == self.id || !self.plan.replaced.contains(&kept.detail.source);
        let crowds = crowds(&record.details, held.iter().filter(stays).map(|kept| &kept.detail));
        let mut record = record.clone();
        let is_refused = |detail: &mut Detail| crowds.contains(&detail.source);
        self.counts.refused += record.details.extract_if(.., is_refused).count() as u64;
        let crowd = |source| Crowd { profile: record.profile.clone(), source };
        self.crowds.extend(crowds.iter().cloned().map(crowd));
        if record.details.is_empty() {
            return;
        }
        let kept = self.people.entry(key.clone()).or_default();
        let mut is_changed = false;
        self.sources.extend(record.details.iter().map(|detail| detail.source.clone()));
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
                    if same.added_by != self.id {
                        let (import, profile) = (self.id, key.clone());
                        self.former.push(Former { import, profile, kept: same.clone(), is_withdrawn: false });
                    }
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
            let gone: Vec<Kept> = kept.extract_if(.., is_gone).collect();
            self.counts.withdrawn += gone.len() as u64;
            if !gone.is_empty() {
                self.changed.insert(key.clone());
            }
            self.former.extend(gone.into_iter().map(|kept| Former {
                import: id,
                profile: key.clone(),
                kept,
                is_withdrawn: true,
            }));
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

    fn crowds(&self) -> &[Crowd] {
        &self.crowds
    }

    fn withdrawn(&self) -> Vec<WithdrawnFrom> {
        let from = |source: &String| {
            let held = self.before.values().flatten().filter(|kept| kept.detail.source == *source).count();
            let gone = |former: &&Former| former.is_withdrawn && former.kept.detail.source == *source;
            let withdrawn = self.former.iter().filter(gone).count() as u64;
            WithdrawnFrom { source: source.clone(), held: held as u64, withdrawn }
        };
        self.plan.replaced.iter().map(from).collect()
    }

    async fn commit(self, summary: &ImportSummary, entry: Noted<'_>) -> Result<i64, StoreError> {
        let mut state = self.store.state()?;
        let PutCounts { new, changed, withdrawn, .. } = summary.counts;
        let counts = [("rows", summary.rows), ("rejected", summary.rejected), ("new", new)];
        state.note(entry, &[&counts[..], &[("changed", changed), ("withdrawn", withdrawn)]].concat());
        state.people.clone_from(&self.people);
        state.detail_changes += 1;
        let (id, at) = (self.id, self.plan.at);
        let is_kept = self.plan.keep_former || self.former.is_empty();
        state.imports.push(PastImport { id, at, summary: summary.clone(), undone_at: None, is_kept });
        state.import_sources.insert(id, self.sources.clone());
        if self.plan.keep_former {
            state.former.extend_from_slice(&self.former);
        }
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
