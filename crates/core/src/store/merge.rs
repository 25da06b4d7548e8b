//! What an import does to the details of a profile: the rules that engines have in common.
//!
//! An engine reads what it holds of a profile, has it changed here, and writes it back.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::store::place::{NEVER_OBSERVED, label_number, observed};
use crate::store::{Crowd, PutCounts, ValueOfProfile, WithdrawnFrom, surplus};
use crate::{Detail, Kind, Label, Profile};

/// How many sources with too much for a profile are listed.
const SHOWN_CROWDS: usize = 20;

/// A detail as an engine holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldDetail {
    /// The detail.
    pub detail: Detail,
    /// The id of its source.
    pub source: i64,
    /// The import that added it.
    pub import: i64,
    /// The last import that contained it again, if recorded.
    pub said_by: Option<i64>,
}

impl HeldDetail {
    /// The import whose time counts as the age of a detail without a date.
    pub fn newest_import(&self) -> i64 {
        self.said_by.unwrap_or(self.import)
    }

    /// Whether it is of this source, and older than `before`, in seconds. `imports` are those that were earlier.
    pub fn is_from_before(&self, source: i64, before: i64, imports: &HashSet<i64>) -> bool {
        self.source == source
            && match observed(&self.detail) {
                NEVER_OBSERVED => imports.contains(&self.newest_import()),
                at => at < before,
            }
    }

    /// Smallest is best, among details of the same kind.
    pub fn preference(&self) -> impl Ord + use<'_> {
        let detail = &self.detail;
        let newest = Reverse(observed(detail));
        (label_number(detail.label), Reverse(detail.confidence), newest, detail.value.expose(), self.source)
    }
}

/// What an import did with a detail that it keeps so that it can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has another date, confidence, label, basis or expiry now.
    Changed,
    /// It was removed, because its source no longer has it.
    Withdrawn,
}

/// Changes to the totals.
#[derive(Debug, Default)]
pub struct TotalChanges {
    /// By source, kind and label: how many details more.
    pub details: HashMap<(i64, Kind, Label), i64>,
    /// Profiles gained, or lost if negative.
    pub profiles: i64,
}

impl TotalChanges {
    /// Adds `by` to the count of details like this one.
    pub fn count(&mut self, source: i64, detail: &Detail, by: i64) {
        *self.details.entry((source, detail.kind, detail.label)).or_default() += by;
    }

    /// Removes the details of a profile for which `is_gone` is true.
    pub fn take_away(
        &mut self,
        held: &mut Vec<HeldDetail>,
        is_gone: impl Fn(&HeldDetail) -> bool,
    ) -> TakenAway {
        let gone: Vec<_> = held.extract_if(.., |held| is_gone(held)).collect();
        for gone in &gone {
            self.count(gone.source, &gone.detail, -1);
        }
        let was_last = !gone.is_empty() && held.is_empty();
        self.profiles -= i64::from(was_last);
        TakenAway { gone, was_last }
    }

    /// Undoes what an import did to details of a profile, the last one first; returns the details that are as before.
    pub fn put_back(
        &mut self,
        held: &mut Vec<HeldDetail>,
        former: Vec<(Fate, HeldDetail)>,
    ) -> Vec<HeldDetail> {
        let was_held = !held.is_empty();
        let mut restored: Vec<HeldDetail> = Vec::new();
        for (fate, former) in former {
            let same = held.iter_mut().find(|held| held.detail.is_same(&former.detail));
            match (fate, same) {
                (Fate::Changed, Some(same)) => {
                    self.count(same.source, &same.detail, -1);
                    self.count(former.source, &former.detail, 1);
                    *same = former.clone();
                }
                (Fate::Withdrawn, None) => {
                    self.count(former.source, &former.detail, 1);
                    held.push(former.clone());
                }
                // It was removed since.
                (Fate::Changed, None) => continue,
                (Fate::Withdrawn, Some(_)) => continue,
            }
            if !restored.iter().any(|other| other.detail.is_same(&former.detail)) {
                restored.push(former);
            }
        }
        self.profiles += i64::from(!was_held && !held.is_empty());
        restored
    }
}

/// What was removed from a profile.
#[derive(Debug)]
pub struct TakenAway {
    /// The details.
    pub gone: Vec<HeldDetail>,
    /// Whether the profile has no details left.
    pub was_last: bool,
}

/// Which kinds of a profile's details were changed.
pub type Touched = BTreeSet<Kind>;

/// An import in progress: what it has done so far.
#[derive(Debug)]
pub struct Merging {
    /// The number of the import.
    pub id: i64,
    /// What it did.
    pub counts: PutCounts,
    /// Sources with too much for a profile: the first of them.
    pub crowds: Vec<Crowd>,
    /// Sources whose details are removed unless the import contains them, with what they lose.
    pub replaced: Vec<WithdrawnFrom>,
    /// The sources of its details.
    pub sources: HashSet<i64>,
    /// Sources with a maximum age: for them, the last import of an undated detail is recorded.
    pub aged: HashSet<i64>,
    /// Whether to keep what it changes and withdraws.
    pub keep_former: bool,
    /// Profiles held before that have been counted as changed, by hash.
    changed: HashSet<u64>,
}

impl Merging {
    /// An import that has done nothing yet.
    pub fn new(id: i64, replaced: Vec<WithdrawnFrom>, keep_former: bool) -> Self {
        Self {
            id,
            counts: PutCounts::default(),
            crowds: Vec::new(),
            replaced,
            sources: HashSet::new(),
            aged: HashSet::new(),
            keep_former,
            changed: HashSet::new(),
        }
    }

    /// Adds or updates the details of a profile that holds `held`, and removes those of replaced sources that are not
    /// given. `source_of` gives the id of a source; `keep` gets every detail as it was before it was changed or withdrawn.
    pub fn put<E>(
        &mut self,
        totals: &mut TotalChanges,
        profile: &Profile,
        given: &[Detail],
        held: &mut Vec<HeldDetail>,
        mut source_of: impl FnMut(&str) -> Result<i64, E>,
        mut keep: impl FnMut(&HeldDetail, Fate) -> Result<(), E>,
    ) -> Result<Touched, E> {
        let accepted = self.refuse_surplus(profile, given, held);
        let details = accepted.as_deref().unwrap_or(given);
        let was_held = !held.is_empty();
        let was_held_before = held.iter().any(|held| held.import != self.id);
        let (mut new, mut changed) = (0, 0);
        let mut touched = Touched::default();
        for (at, detail) in details.iter().enumerate() {
            // If a detail is given twice, the last one counts.
            if details[at + 1..].iter().any(|later| later.is_same(detail)) {
                self.counts.unchanged += 1;
                continue;
            }
            match held.iter_mut().find(|held| held.detail.is_same(detail)) {
                Some(same) if same.detail == *detail => {
                    self.sources.insert(same.source);
                    self.counts.unchanged += 1;
                    if detail.observed_at.is_some() || !self.aged.contains(&same.source) {
                        continue;
                    }
                    same.said_by = Some(self.id);
                }
                Some(same) => {
                    self.sources.insert(same.source);
                    if self.keep_former && same.import != self.id {
                        keep(same, Fate::Changed)?;
                    }
                    same.said_by = Some(self.id);
                    totals.count(same.source, &same.detail, -1);
                    totals.count(same.source, detail, 1);
                    same.detail = detail.clone();
                    changed += 1;
                }
                None => {
                    let source = source_of(&detail.source)?;
                    self.sources.insert(source);
                    totals.count(source, detail, 1);
                    held.push(HeldDetail { detail: detail.clone(), source, import: self.id, said_by: None });
                    new += 1;
                }
            }
            touched.insert(detail.kind);
        }
        let gone = self.take_replaced(totals, held, details);
        touched.extend(gone.iter().map(|gone| gone.detail.kind));
        self.note_withdrawn(&gone, keep)?;
        self.counts.new += new;
        self.counts.changed += changed;
        if !was_held && new > 0 {
            self.counts.profiles_new += 1;
            totals.profiles += 1;
        } else if was_held && held.is_empty() {
            totals.profiles -= 1;
        } else if was_held_before
            && (!gone.is_empty() || new + changed > 0)
            && self.changed.insert(hash(profile))
        {
            self.counts.profiles_changed += 1;
        }
        Ok(touched)
    }

    /// Removes the details of replaced sources from a profile that is not in the import.
    pub fn withdraw<E>(
        &mut self,
        totals: &mut TotalChanges,
        held: &mut Vec<HeldDetail>,
        keep: impl FnMut(&HeldDetail, Fate) -> Result<(), E>,
    ) -> Result<Touched, E> {
        let taken = totals.take_away(held, |held| self.is_replaced(&held.detail.source));
        self.counts.profiles_changed += u64::from(!taken.gone.is_empty() && !taken.was_last);
        self.note_withdrawn(&taken.gone, keep)?;
        Ok(taken.gone.iter().map(|gone| gone.detail.kind).collect())
    }

    /// Removes a value from a profile if this import added it: a detail keeps the number of the import that added it.
    pub fn take_back(
        &mut self,
        totals: &mut TotalChanges,
        (profile, kind, value): &ValueOfProfile,
        held: &mut Vec<HeldDetail>,
    ) -> Touched {
        let is_gone = |held: &HeldDetail| {
            held.import == self.id && held.detail.kind == *kind && held.detail.value == *value
        };
        let taken = totals.take_away(held, is_gone);
        self.counts.new -= taken.gone.len() as u64;
        self.counts.taken_back += taken.gone.len() as u64;
        // A profile that was held before was counted as changed, not as new.
        let was_new = taken.was_last && !self.changed.contains(&hash(profile));
        self.counts.profiles_new -= u64::from(was_new);
        taken.gone.iter().map(|gone| gone.detail.kind).collect()
    }

    /// Whether this source is replaced.
    pub fn is_replaced(&self, source: &str) -> bool {
        self.replaced.iter().any(|from| from.source == source)
    }

    /// What is left of the given details without those that are too many; none if all are accepted.
    fn refuse_surplus(
        &mut self,
        profile: &Profile,
        given: &[Detail],
        held: &[HeldDetail],
    ) -> Option<Vec<Detail>> {
        let stays = |held: &&HeldDetail| held.import == self.id || !self.is_replaced(&held.detail.source);
        let surplus = surplus(given, held.iter().filter(stays).map(|held| &held.detail));
        if surplus.is_empty() {
            return None;
        }
        let mut accepted = Vec::new();
        for (detail, is_surplus) in given.iter().zip(surplus) {
            if !is_surplus {
                accepted.push(detail.clone());
                continue;
            }
            self.counts.refused += 1;
            let is_listed =
                self.crowds.iter().any(|crowd| crowd.profile == *profile && crowd.source == detail.source);
            if !is_listed && self.crowds.len() < SHOWN_CROWDS {
                self.crowds.push(Crowd { profile: profile.clone(), source: detail.source.clone() });
            }
        }
        Some(accepted)
    }

    fn take_replaced(
        &self,
        totals: &mut TotalChanges,
        held: &mut Vec<HeldDetail>,
        given: &[Detail],
    ) -> Vec<HeldDetail> {
        if self.replaced.is_empty() {
            return Vec::new();
        }
        let is_given = |held: &Detail| given.iter().any(|given| given.is_same(held));
        let is_gone = |held: &mut HeldDetail| {
            self.is_replaced(&held.detail.source) && !is_given(&held.detail) && held.import != self.id
        };
        let gone: Vec<_> = held.extract_if(.., is_gone).collect();
        for gone in &gone {
            totals.count(gone.source, &gone.detail, -1);
        }
        gone
    }

    /// Counts details that were withdrawn, and keeps them.
    fn note_withdrawn<E>(
        &mut self,
        gone: &[HeldDetail],
        mut keep: impl FnMut(&HeldDetail, Fate) -> Result<(), E>,
    ) -> Result<(), E> {
        self.counts.withdrawn += gone.len() as u64;
        for gone in gone {
            let source = &gone.detail.source;
            if let Some(from) = self.replaced.iter_mut().find(|from| from.source == *source) {
                from.withdrawn += 1;
            }
            if self.keep_former {
                keep(gone, Fate::Withdrawn)?;
            }
        }
        Ok(())
    }
}

fn hash(profile: &Profile) -> u64 {
    let mut hasher = DefaultHasher::new();
    profile.hash(&mut hasher);
    hasher.finish()
}
