//! Profiles and their details.

use std::collections::{BTreeMap, BTreeSet};

use contactd_core::store::{
    Aged, DetailFilter, DetailTotal, Details, Noted, PastImport, PutCounts, SourceRetention, StoreError,
    StoreFuture, SweepPlan, Swept, Totals,
};
use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Span, Timestamp};

use super::{Former, Kept, Memory, State};

impl State {
    /// Removes matching details of all profiles; returns how many.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&Profile, &Kept) -> bool) -> u64 {
        let mut removed = 0;
        for (key, kept) in &mut self.people {
            let profile = Profile::from_key(key);
            removed += kept.extract_if(.., |kept| is_gone(&profile, kept)).count() as u64;
        }
        self.people.retain(|_, kept| !kept.is_empty());
        self.detail_changes += u64::from(removed > 0);
        removed
    }

    /// Whether a detail was observed or, if that is unknown, last imported before a time.
    fn is_older(&self, kept: &Kept, before: Timestamp) -> bool {
        match kept.detail.observed_at {
            Some(at) => at < before,
            None => self.imports.iter().any(|import| import.id == kept.given_by && import.at < before),
        }
    }
}

impl Details for Memory {
    async fn list_details(&self, profile: &Profile) -> Result<Vec<Detail>, StoreError> {
        let state = self.state()?;
        let kept = state.people.get(profile.key()).map(Vec::as_slice).unwrap_or_default();
        Ok(kept.iter().map(|kept| kept.detail.clone()).collect())
    }

    async fn remove_details(
        &self,
        profile: &Profile,
        which: &DetailFilter,
        entry: Noted<'_>,
    ) -> Result<u64, StoreError> {
        let mut state = self.writing()?;
        let held: Vec<Kept> = state.people.get(profile.key()).cloned().unwrap_or_default();
        let mut removed = state.remove(|of, kept| of == profile && which.matches(&kept.detail));
        let is_gone =
            |former: &mut Former| former.profile == profile.key() && which.matches(&former.kept.detail);
        let former: Vec<Former> = state.former.extract_if(.., is_gone).collect();
        for (at, Former { kept, .. }) in former.iter().enumerate() {
            let is_same = |other: &Kept| other.detail.is_same(&kept.detail);
            let was_counted =
                held.iter().any(is_same) || former[..at].iter().any(|other| is_same(&other.kept));
            removed += u64::from(!was_counted);
        }
        state.note(entry.filter(|_| removed > 0), &[("details", removed)]);
        Ok(removed)
    }

    async fn visit_all(
        &self,
        mut visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send,
    ) -> Result<(), StoreError> {
        let people = self.state()?.people.clone();
        for (key, kept) in people {
            if !visit(&Profile::from_key(&key), kept.into_iter().map(|kept| kept.detail).collect()) {
                break;
            }
        }
        Ok(())
    }

    async fn find_holders(
        &self,
        values: &[(Kind, ContactValue)],
    ) -> Result<Vec<(Profile, usize)>, StoreError> {
        let state = self.state()?;
        let mut found = BTreeSet::new();
        for (at, (kind, value)) in values.iter().enumerate() {
            let has = |kept: &Kept| {
                kept.detail.kind == *kind && value.compares_to(*kind, kept.detail.value.expose())
            };
            let held = state.people.iter().filter(|(_, kept)| kept.iter().any(has)).map(|(key, _)| key);
            let former = state.former.iter().filter(|former| has(&former.kept)).map(|former| &former.profile);
            found.extend(held.chain(former).map(|key| (key.clone(), at)));
        }
        Ok(found.into_iter().map(|(key, at)| (Profile::from_key(&key), at)).collect())
    }

    async fn are_held(&self, profiles: &[Profile]) -> Result<Vec<bool>, StoreError> {
        let state = self.state()?;
        let is_held = |profile: &Profile| {
            state.people.contains_key(profile.key())
                || state.former.iter().any(|former| former.profile == profile.key())
        };
        Ok(profiles.iter().map(is_held).collect())
    }

    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Result<Swept, StoreError> {
        let mut state = self.writing()?;
        let now = plan.now;
        let ages = match plan.aged {
            Aged::Not => Vec::new(),
            Aged::Policies => state.max_ages.clone().into_iter().collect(),
            Aged::Source(source, age) => vec![(source.to_owned(), age)],
        };
        let has_expired =
            |kept: &Kept| kept.detail.expires_at.is_some_and(|end| end.seconds() <= now.seconds());
        let mut swept = Swept { expired: state.remove(|_, kept| has_expired(kept)), ..Swept::default() };
        let past = |import: &&mut PastImport| import.at < plan.former_before;
        let forgotten: Vec<i64> = state.imports.iter_mut().filter(past).map(|import| import.id).collect();
        let is_over = |former: &mut Former| has_expired(&former.kept) || forgotten.contains(&former.import);
        swept.former += state.former.extract_if(.., is_over).count() as u64;
        for import in state.imports.iter_mut().filter(past) {
            let PutCounts { changed, withdrawn, .. } = import.summary.counts;
            import.is_kept &= changed + withdrawn == 0;
        }
        for (source, age) in ages {
            let before = now.minus(age);
            let all: Vec<Kept> = state.people.values().flatten().cloned().collect();
            let old: Vec<Detail> = all
                .into_iter()
                .filter(|kept| kept.detail.source == source && state.is_older(kept, before))
                .map(|kept| kept.detail)
                .collect();
            swept.aged += state.remove(|_, kept| old.contains(&kept.detail));
            let all = std::mem::take(&mut state.former);
            let (old, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|former| {
                former.kept.detail.source == source && state.is_older(&former.kept, before)
            });
            (state.former, swept.former) = (kept, swept.former + old.len() as u64);
        }
        let removed = swept.expired + swept.aged;
        state.note(entry.filter(|_| removed > 0), &[("details", removed)]);
        state.note(entry.filter(|_| swept.former > 0), &[("keptForUndo", swept.former)]);
        Ok(swept)
    }

    async fn list_retention(&self, now: Timestamp) -> Result<Vec<SourceRetention>, StoreError> {
        let state = self.state()?;
        let mut held: BTreeMap<&str, Vec<&Kept>> = BTreeMap::new();
        for source in state.max_ages.keys() {
            held.entry(source).or_default();
        }
        for kept in state.people.values().flatten() {
            held.entry(&kept.detail.source).or_default().push(kept);
        }
        let retention = |(source, held): (&str, Vec<&Kept>)| {
            let max_age = state.max_ages.get(source).copied().map(Span);
            let mut retention = SourceRetention::new(source.to_owned(), max_age, held.len() as u64);
            for kept in held {
                let imported = state.imports.iter().find(|import| import.id == kept.given_by);
                let known_at = kept.detail.observed_at.or(imported.map(|import| import.at));
                retention.add(kept.detail.expires_at, known_at, now);
            }
            retention
        };
        Ok(held.into_iter().map(retention).collect())
    }

    fn totals(&self) -> impl StoreFuture<Totals> {
        std::future::ready(self.state().map(|state| {
            let mut counts: BTreeMap<(String, Kind, Label), u64> = BTreeMap::new();
            for kept in state.people.values().flatten() {
                let Detail { source, kind, label, .. } = &kept.detail;
                *counts.entry((source.clone(), *kind, *label)).or_default() += 1;
            }
            let total = |((source, kind, label), count)| DetailTotal { source, kind, label, count };
            Totals {
                profiles: state.people.len() as u64,
                details: counts.into_iter().map(total).collect(),
                newest_import: state.imports.last().cloned(),
            }
        }))
    }
}
