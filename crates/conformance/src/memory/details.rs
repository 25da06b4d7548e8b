//! Profiles and their details.

use std::collections::BTreeMap;

use contactd_core::store::{
    Aged, DetailFilter, DetailTotal, Details, Noted, StoreError, StoreFuture, Swept, Totals,
};
use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Timestamp};

use super::{Kept, Memory, State};

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
        let removed = state.remove(|of, kept| of == profile && which.matches(&kept.detail));
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

    async fn find_profiles(&self, kind: Kind, value: &ContactValue) -> Result<Vec<Profile>, StoreError> {
        let state = self.state()?;
        let has =
            |kept: &Kept| kept.detail.kind == kind && value.compares_to(kind, kept.detail.value.expose());
        let found = state.people.iter().filter(|(_, kept)| kept.iter().any(has));
        Ok(found.map(|(key, _)| Profile::from_key(key)).collect())
    }

    async fn sweep(&self, now: Timestamp, aged: Aged<'_>, entry: Noted<'_>) -> Result<Swept, StoreError> {
        let mut state = self.writing()?;
        let ages = match aged {
            Aged::Not => Vec::new(),
            Aged::Policies => state.max_ages.clone().into_iter().collect(),
            Aged::Source(source, age) => vec![(source.to_owned(), age)],
        };
        let has_expired =
            |kept: &Kept| kept.detail.expires_at.is_some_and(|end| end.seconds() <= now.seconds());
        let mut swept = Swept { expired: state.remove(|_, kept| has_expired(kept)), aged: 0 };
        for (source, age) in ages {
            let before = now.minus(age);
            let all: Vec<Kept> = state.people.values().flatten().cloned().collect();
            let old: Vec<Detail> = all
                .into_iter()
                .filter(|kept| kept.detail.source == source && state.is_older(kept, before))
                .map(|kept| kept.detail)
                .collect();
            swept.aged += state.remove(|_, kept| old.contains(&kept.detail));
        }
        let removed = swept.expired + swept.aged;
        state.note(entry.filter(|_| removed > 0), &[("details", removed)]);
        Ok(swept)
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
