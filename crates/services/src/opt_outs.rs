//! Opt-outs: people, numbers and addresses that are never disclosed.

use std::collections::HashSet;
use std::io::Read;
use std::sync::Arc;

use contactd_core::store::StoreError;
use contactd_core::{Actor, Affected, Detail, Label, Profile, RefreshError, Subject, SubjectName, Timestamp};
use contactd_import::{FileError, ReadOptions, SubjectList};

use crate::Changed;
use crate::views::HolderView;
use crate::{Approval, Parts};

/// Adds and removes suppressions of people, numbers and addresses.
pub struct OptOuts {
    pub(crate) parts: Arc<Parts>,
}

/// What an opt-out covers, and when it is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct OptOutOptions {
    /// Also opt out the people whose profiles hold a named number or address.
    pub person: bool,
    /// Change nothing unless everything that is named is on file.
    pub must_exist: bool,
    /// Whether these people may be many.
    pub approval: Approval,
}

/// What was done with the named subjects.
pub struct OptedOut {
    /// Suppressions that were added.
    pub changed: u64,
    /// Subjects that were suppressed before.
    pub already: u64,
    /// What is on file about the named subjects.
    pub on_file: Result<OnFile, RefreshError>,
    /// Whether the people who hold a named number or address were to be opted out themselves.
    is_of_people: bool,
}

/// Suppressions that were taken back.
#[derive(Debug)]
pub struct Withdrawn {
    /// Suppressions that were removed.
    pub changed: u64,
    /// Subjects that were not suppressed.
    pub already: u64,
}

/// What is on file about subjects that were opted out.
#[derive(Default)]
pub struct OnFile {
    /// Named subjects of which nothing is on file. Their opt-out counts for what is imported later.
    pub unknown: Vec<SubjectName>,
    /// The profiles that hold a named number or address, ordered by URL.
    pub holders: Vec<HolderView>,
    /// Whether these people are not opted out themselves, because they are too many to do it without approval.
    pub needs_approval: bool,
}

/// What came of an opt-out, for whoever may see only what is on record.
pub enum OptOutOutcome<'a> {
    /// All that was asked for is stored. This is on file; `None` if that could not be read, or must not be shown yet.
    Done(Option<&'a OnFile>),
    /// This many people are not opted out themselves: that has to be approved.
    NeedsApproval(usize),
    /// The same, and how many they are must not be shown yet.
    NeedsApprovalUnseen,
    /// Who holds a named number or address could not be found, so these people are not opted out themselves.
    HoldersUnknown(&'a RefreshError),
    /// Not all people are opted out, and it is not certain that what is stored is in force.
    Uncertain,
}

impl Changed<OptedOut> {
    /// What came of it.
    pub fn outcome(&self) -> OptOutOutcome<'_> {
        let is_certain = self.confirmed.is_ok();
        match &self.done.on_file {
            Ok(found) if found.needs_approval && !is_certain => OptOutOutcome::Uncertain,
            Ok(found) if found.needs_approval && self.may_show() => {
                OptOutOutcome::NeedsApproval(found.holders.len())
            }
            Ok(found) if found.needs_approval => OptOutOutcome::NeedsApprovalUnseen,
            Err(_) if self.done.is_of_people && !is_certain => OptOutOutcome::Uncertain,
            Err(error) if self.done.is_of_people => OptOutOutcome::HoldersUnknown(error),
            on_file => OptOutOutcome::Done(on_file.as_ref().ok().filter(|_| self.may_show())),
        }
    }
}

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OptOutError {
    /// This many of the named subjects are not on file.
    #[error("{} of what was named is not on file; nothing was changed", .0.len())]
    NotOnFile(Vec<SubjectName>),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl OptOuts {
    /// The people, numbers and addresses that a list names: one on each line, or in the columns of a file that an import could read.
    /// Blocks while it reads.
    pub fn read_list(&self, list: Box<dyn Read>, options: &ReadOptions) -> Result<SubjectList, FileError> {
        self.parts.files.subjects(list, options, &self.parts.networks)
    }

    /// Suppresses all of these. Once this has returned and is confirmed, no lookup that starts afterwards
    /// discloses them, whatever is imported later. Suppressing twice is not an error. The opt-out is in force before
    /// this looks for what is on file, which may take a while.
    pub async fn suppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
        options: OptOutOptions,
    ) -> Result<Changed<OptedOut>, OptOutError> {
        let parts = &*self.parts;
        let entry = parts.entry_about(actor, "suppress", named.iter().map(SubjectName::subject));
        if options.must_exist {
            let unknown = self.unknown_for_certain(named).await?;
            if !unknown.is_empty() {
                parts.note_failure(&entry).await;
                return Err(OptOutError::NotOnFile(unknown));
            }
        }
        let changed = parts.suppress(named.iter().map(SubjectName::subject), &entry).await?;
        let has_people = |name: &SubjectName| matches!(name, SubjectName::Value(..));
        let done = OptedOut {
            changed,
            already: (named.len() as u64).saturating_sub(changed),
            on_file: Ok(OnFile::default()),
            is_of_people: options.person && named.iter().any(has_people),
        };
        let mut done = parts.announce(done, Affected::Access, &[&entry.entry]).await;
        done.done.on_file = self.look(actor, named, options, &mut done).await;
        Ok(done)
    }

    /// What is on file about subjects that are suppressed. Opts out the people too, if that is asked for.
    async fn look(
        &self,
        actor: &Actor,
        named: &[SubjectName],
        options: OptOutOptions,
        done: &mut Changed<OptedOut>,
    ) -> Result<OnFile, RefreshError> {
        let (unknown, profiles) = self.search(named).await?;
        let needs_approval = options.person && !options.approval.covers(&profiles);
        let holders = self.holders(actor, profiles, options.person && !needs_approval, done).await?;
        Ok(OnFile { unknown, holders, needs_approval })
    }

    /// Opts out people. Once that is in force and on record, so is what was stored before it.
    async fn suppress_profiles(
        &self,
        actor: &Actor,
        profiles: &[Profile],
        done: &mut Changed<OptedOut>,
    ) -> Result<(), StoreError> {
        if profiles.is_empty() {
            return Ok(());
        }
        let parts = &*self.parts;
        let people = || profiles.iter().map(Subject::Profile);
        let entry = parts.entry_about(actor, "suppress", people());
        done.done.changed += parts.suppress(people(), &entry).await?;
        let announced = parts.announce((), Affected::Access, &[&entry.entry]).await;
        (done.confirmed, done.recorded) = (announced.confirmed, announced.recorded);
        done.notes = announced.notes;
        Ok(())
    }

    /// These profiles, opted out too if that is asked for, and how many details lookups still disclose of each.
    async fn holders(
        &self,
        actor: &Actor,
        profiles: Vec<Profile>,
        is_of_people: bool,
        done: &mut Changed<OptedOut>,
    ) -> Result<Vec<HolderView>, RefreshError> {
        let parts = &*self.parts;
        if is_of_people {
            self.suppress_profiles(actor, &profiles, done).await?;
        }
        let (suppressions, now) = (parts.suppressions().await?, parts.clock.now());
        let mut holders = Vec::new();
        for profile in profiles {
            let details = parts.store.list_details(&profile).await?;
            let is_disclosed = |detail: &&Detail| {
                is_disclosable(detail, now) && !suppressions.withholds(&profile, detail.kind, &detail.value)
            };
            let still_disclosed = details.iter().filter(is_disclosed).count() as u64;
            holders.push(HolderView { profile_url: profile.as_str().to_owned(), still_disclosed });
        }
        Ok(holders)
    }

    /// The named subjects of which nothing is on file, also where changes are made.
    async fn unknown_for_certain(&self, named: &[SubjectName]) -> Result<Vec<SubjectName>, StoreError> {
        loop {
            let server = self.parts.store.server();
            let (unknown, _) = self.search(named).await?;
            if unknown.is_empty() || self.parts.is_missing_for_certain(server).await? {
                return Ok(unknown);
            }
        }
    }

    /// The named subjects of which nothing is on file, and the profiles that hold a named number or address.
    async fn search(&self, named: &[SubjectName]) -> Result<(Vec<SubjectName>, Vec<Profile>), StoreError> {
        let store = &*self.parts.store;
        let (mut people, mut values) = (Vec::new(), Vec::new());
        for name in named {
            match name {
                SubjectName::Person(profile) => people.push(profile.clone()),
                SubjectName::Value(kind, value) => values.push((*kind, value.clone())),
            }
        }
        let are_held = store.are_held(&people).await?;
        let found = if values.is_empty() { Vec::new() } else { store.find_holders(&values).await? };
        let are_found: HashSet<usize> = found.iter().map(|(_, value)| *value).collect();
        let (mut are_held, mut number) = (are_held.into_iter(), 0..);
        let mut is_unknown = |name: &&SubjectName| match name {
            SubjectName::Person(_) => are_held.next() == Some(false),
            SubjectName::Value(..) => number.next().is_some_and(|number| !are_found.contains(&number)),
        };
        let unknown = named.iter().filter(|name| is_unknown(name)).cloned().collect();
        let mut profiles: Vec<Profile> = found.into_iter().map(|(profile, _)| profile).collect();
        profiles.dedup();
        Ok((unknown, profiles))
    }

    /// Removes suppressions, whichever key they were made with.
    pub async fn unsuppress(
        &self,
        actor: &Actor,
        named: &[SubjectName],
    ) -> Result<Changed<Withdrawn>, OptOutError> {
        let entry = self.parts.entry_about(actor, "unsuppress", named.iter().map(SubjectName::subject));
        let digests: Vec<_> =
            named.iter().flat_map(|name| self.parts.keys.all_digests(name.subject())).collect();
        let changed = self.parts.store.unsuppress(&digests, Some(&entry)).await?;
        let already = (named.len() as u64).saturating_sub(changed);
        let done = Withdrawn { changed, already };
        Ok(self.parts.announce(done, Affected::Access, &[&entry.entry]).await)
    }
}

/// Whether lookups may disclose a detail at this time, as far as it depends on the detail itself.
fn is_disclosable(detail: &Detail, now: Timestamp) -> bool {
    detail.label == Label::Personal && detail.expires_at.is_none_or(|end| end.seconds() > now.seconds())
}
