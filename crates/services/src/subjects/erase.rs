//! Erasure: the person is suppressed first, then everything about them is removed.

use std::collections::HashSet;

use contactd_core::store::{DetailFilter, StoreError};
use contactd_core::{
    Actor, AdminEntry, Affected, ContactValue, Kind, NodeNote, NotConfirmed, NotRecorded, Profile, Subject,
    SubjectName,
};
use contactd_core::{Cancel, Observer, Progress};

use crate::Approval;
use crate::Changed;
use crate::subjects::Subjects;
use crate::views::{ErasedProfileView, SharedView};
use crate::waiting::until_free;

/// What an erasure covers, and when it is refused.
#[derive(Clone, Copy, Debug, Default)]
pub struct EraseOptions {
    /// Also suppress the person's numbers and addresses, under any profile.
    pub values: bool,
    /// Change nothing if nothing is on file.
    pub must_exist: bool,
    /// Whether the people who hold a named number or address may be many. If it is given for another number of profiles than
    /// hold it by now, none of them is erased. A person who is named by their profile is erased in any case.
    pub approval: Approval,
}

/// What an erasure removed, or would remove.
#[derive(Default)]
pub struct Erased {
    /// The profiles that were erased.
    pub profiles: Vec<ErasedProfileView>,
    /// Other profiles with a number or an address of theirs, which were not erased.
    pub shared: Vec<SharedView>,
    /// Why traces of what was removed are left in files, if there are any.
    pub left: Option<EraseError>,
}

impl Erased {
    /// Details removed.
    pub fn details(&self) -> u64 {
        self.profiles.iter().map(|erased| erased.details).sum()
    }

    fn add(&mut self, profile: &Profile, details: u64) {
        self.profiles.push(ErasedProfileView { profile_url: profile.as_str().to_owned(), details });
    }

    fn urls(&self) -> impl Iterator<Item = &str> {
        self.profiles.iter().map(|erased| &*erased.profile_url)
    }
}

/// Why an erasure is not complete, and how far it got.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// Nothing is on file. Nothing was changed.
    #[error("nothing is on file about what was named; nothing was changed")]
    NotOnFile,
    /// More than [`ASK_ABOVE_PROFILES`](crate::ASK_ABOVE_PROFILES) profiles would be erased, and that was not approved.
    #[error("{0} profiles hold it; none of them was erased. It is opted out itself: no lookup discloses it")]
    NeedsApproval(usize),
    /// Another number of profiles was confirmed.
    #[error(
        "{0} profiles hold it, which is not the number that was confirmed; none of them was erased. It is opted out itself: no \
         lookup discloses it"
    )]
    NotAsConfirmed(usize),
    /// It could not be recorded who asked, so nothing was read.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
    /// The person could not be suppressed. Nothing was changed.
    #[error(transparent)]
    NotSuppressed(StoreError),
    /// It did not complete, and a running server has not confirmed what was committed.
    #[error("{0}. Also, the erasure is not complete ({1}); run it again then")]
    NotConfirmed(NotConfirmed, String),
    /// The person is suppressed, but the details are not removed.
    #[error("the person is suppressed, and the details are not removed yet; run this again ({0})")]
    NotRemoved(StoreError),
    /// Removed, but traces of them are left in the store's files.
    #[error(
        "the details are removed and nothing discloses them, but traces of them are left in the store's files; run \
         this again ({0})"
    )]
    NotWiped(StoreError),
    /// Removed, but traces of them are left in the files of these nodes of a cluster.
    #[error(
        "nothing discloses what was removed, but these nodes have not removed all traces from their files: {}. They do it before \
         they answer lookups again; if one is gone for good, delete its files and run `contactd node forget`",
        .0.join(", ")
    )]
    Pending(Vec<String>),
    /// Removed, but it could not be found out who else has their numbers and addresses.
    #[error(
        "the person is erased, but the search for other profiles with their numbers and addresses failed ({0})"
    )]
    NotSearched(StoreError),
    /// Removed, but a reader still keeps them in a log.
    #[error(
        "the details are removed and nothing discloses them, but a reader keeps them in the write-ahead log; run this \
         again in a moment"
    )]
    Read,
    /// Removed, but a backup is in progress.
    #[error(
        "the details are removed and nothing discloses them, but a backup is being made and its copy still holds them; \
         run this again when it is done"
    )]
    BackingUp,
    /// Removed, but what interrupted backups left behind could not be removed.
    #[error("the details are removed and nothing discloses them, but what a killed backup left is not ({0})")]
    Abandoned(String),
}

impl EraseError {
    /// Whether the person is suppressed, and their details are removed or were about to be.
    pub const fn has_begun(&self) -> bool {
        match self {
            Self::NotOnFile
            | Self::NeedsApproval(_)
            | Self::NotAsConfirmed(_)
            | Self::NotRecorded(_)
            | Self::NotSuppressed(_) => false,
            Self::NotConfirmed(..)
            | Self::NotRemoved(_)
            | Self::NotWiped(_)
            | Self::Pending(_)
            | Self::NotSearched(_)
            | Self::Read
            | Self::BackingUp
            | Self::Abandoned(_) => true,
        }
    }

    /// What is not done, without a word about what is disclosed.
    const fn what_is_left(&self) -> &'static str {
        match self {
            Self::NotSuppressed(_) | Self::NotOnFile | Self::NotRecorded(_) => "nothing was changed",
            Self::NeedsApproval(_) | Self::NotAsConfirmed(_) => "nothing was erased",
            Self::NotConfirmed(..) | Self::NotRemoved(_) => "the details are not removed",
            Self::NotSearched(_) => "the search for other profiles failed",
            Self::NotWiped(_) | Self::Pending(_) => "traces are left in the store's files",
            Self::Read => "a reader keeps the details in the write-ahead log",
            Self::BackingUp => "a backup is being made",
            Self::Abandoned(_) => "files of a killed backup are left",
        }
    }
}

/// What an erasure has done so far.
struct SoFar {
    /// Whether it is in force.
    confirmed: Result<Vec<NodeNote>, NotConfirmed>,
    /// The entries that were stored, by their ids.
    stored: Vec<String>,
}

impl SoFar {
    /// Notes that an entry is stored.
    fn note(&mut self, entry: AdminEntry) -> AdminEntry {
        self.stored.push(entry.entry.clone());
        entry
    }
}

impl Subjects {
    /// Suppresses a person and removes everything about them from the store's files. A number or an address stands for
    /// everybody who has it, and is suppressed itself. The suppression is announced before this searches or waits for
    /// other writers. It does not reach earlier backups, rejects files and exports.
    pub async fn erase(
        &self,
        actor: &Actor,
        named: &SubjectName,
        options: EraseOptions,
        observer: Observer<'_>,
    ) -> Result<Changed<Erased>, EraseError> {
        let parts = &*self.parts;
        let entry = parts.entry_about(actor, "erase", [named.subject()]);
        if options.must_exist && !self.is_on_file(named).await.map_err(EraseError::NotSuppressed)? {
            parts.note_failure(&entry).await;
            return Err(EraseError::NotOnFile);
        }
        parts.suppress([named.subject()], &entry).await.map_err(EraseError::NotSuppressed)?;
        // Each announcement covers everything that was committed before it: the last one counts.
        let confirmed = parts.in_force.announce(Affected::Access).await;
        observer(Progress::Suppressed { is_confirmed: confirmed.is_ok() });
        let mut so_far = SoFar { confirmed, stored: vec![entry.entry.clone()] };
        let done = self.erase_profiles(named, options, &entry, &mut so_far, observer).await;
        let SoFar { confirmed, stored } = so_far;
        if done.as_ref().map_or(true, |done| done.left.is_some()) {
            parts.note_failure(&entry.again()).await;
        }
        let stored: Vec<&str> = stored.iter().map(String::as_str).collect();
        let recorded = parts.on_record.collect(&stored).await;
        match (done, confirmed) {
            (Ok(done), Ok(notes)) => Ok(Changed { done, confirmed: Ok(()), notes, recorded }),
            // Nothing may be claimed that the server has not confirmed.
            (Err(error) | Ok(Erased { left: Some(error), .. }), Err(not_confirmed)) => {
                Err(EraseError::NotConfirmed(not_confirmed, error.what_is_left().to_owned()))
            }
            (Ok(done), Err(error)) => {
                Ok(Changed { done, confirmed: Err(error), notes: Vec::new(), recorded })
            }
            (Err(error), Ok(_)) => Err(error),
        }
    }

    /// What [`erase`](Self::erase) would remove. Changes nothing.
    pub async fn preview_erasure(&self, actor: &Actor, named: &SubjectName) -> Result<Erased, EraseError> {
        let parts = &*self.parts;
        let entry = parts.entry_about(actor, "erase --dry-run", [named.subject()]);
        parts.record_read(&entry).await?;
        let failed = EraseError::NotSuppressed;
        let mut erased = Erased::default();
        let mut values = Vec::new();
        for profile in self.profiles_of(named).await.map_err(failed)? {
            let held = self.held_or_kept(&profile).await.map_err(failed)?;
            erased.add(&profile, held.len() as u64);
            values.extend(held.into_iter().map(|(kind, value, _)| (kind, value)));
        }
        erased.shared = self.shared(&values, erased.urls()).await.map_err(failed)?;
        Ok(erased)
    }

    /// Whether anything is on file about those that a name stands for.
    async fn is_on_file(&self, named: &SubjectName) -> Result<bool, StoreError> {
        loop {
            let server = self.parts.store.server();
            if !self.profiles_of(named).await?.is_empty() {
                return Ok(true);
            }
            if self.parts.is_missing_for_certain(server).await? {
                return Ok(false);
            }
        }
    }

    /// The profiles that a name stands for, if anything is on file about them.
    async fn profiles_of(&self, named: &SubjectName) -> Result<Vec<Profile>, StoreError> {
        let store = &*self.parts.store;
        match named {
            SubjectName::Person(profile) => {
                let is_held = store.are_held(std::slice::from_ref(profile)).await?.contains(&true);
                Ok(Vec::from_iter(is_held.then(|| profile.clone())))
            }
            SubjectName::Value(kind, value) => store.find_profiles(*kind, value).await,
        }
    }

    /// Everything that is held of a profile or kept so that imports can be undone: kind, value and source, each once.
    pub(super) async fn held_or_kept(
        &self,
        profile: &Profile,
    ) -> Result<Vec<(Kind, ContactValue, String)>, StoreError> {
        let store = &*self.parts.store;
        let former = store.list_former(profile).await?.into_iter().map(|former| former.detail);
        let held = store.list_details(profile).await?.into_iter().chain(former);
        let mut held: Vec<_> = held.map(|detail| (detail.kind, detail.value, detail.source)).collect();
        held.sort();
        held.dedup();
        Ok(held)
    }

    /// The profiles that have one of these values and are not among those `known`, once for each kind, ordered by URL. Reads
    /// all details.
    pub(super) async fn shared<'a>(
        &self,
        values: &[(Kind, ContactValue)],
        known: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<SharedView>, StoreError> {
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let found = self.parts.store.find_holders(values).await?;
        let known: HashSet<&str> = known.collect();
        let others = found.iter().filter(|(profile, _)| !known.contains(profile.as_str()));
        let shared = |(profile, at): &(Profile, usize)| SharedView {
            profile_url: profile.as_str().to_owned(),
            kind: values[*at].0,
        };
        let mut shared: Vec<SharedView> = others.map(shared).collect();
        shared.sort();
        shared.dedup();
        Ok(shared)
    }

    /// Removes the details of everybody that a suppressed name stands for, from the store and its files.
    async fn erase_profiles(
        &self,
        named: &SubjectName,
        options: EraseOptions,
        entry: &AdminEntry,
        so_far: &mut SoFar,
        observer: Observer<'_>,
    ) -> Result<Erased, EraseError> {
        let parts = &*self.parts;
        let profiles = match named {
            // Also if nothing is on file: an import that is running may be adding something.
            SubjectName::Person(profile) => vec![profile.clone()],
            SubjectName::Value(..) => self.profiles_of(named).await.map_err(EraseError::NotRemoved)?,
        };
        match (named, options.approval) {
            (SubjectName::Value(..), Approval::Seen(count)) if count != profiles.len() => {
                return Err(EraseError::NotAsConfirmed(profiles.len()));
            }
            (_, approval) if !approval.covers(&profiles) => {
                return Err(EraseError::NeedsApproval(profiles.len()));
            }
            _ => {}
        }
        if matches!(named, SubjectName::Value(..)) && !profiles.is_empty() {
            let people = profiles.iter().map(Subject::Profile);
            let entry = so_far.note(entry.again());
            parts.suppress(people, &entry).await.map_err(EraseError::NotRemoved)?;
            so_far.confirmed = parts.in_force.announce(Affected::Access).await;
        }
        let mut erased = Erased::default();
        let mut values = Vec::new();
        for profile in profiles {
            let details = self.remove_all(&profile, options, entry, so_far, &mut values, observer).await?;
            erased.add(&profile, details);
        }
        so_far.confirmed = parts.in_force.announce(Affected::Access).await;
        erased.left = self.wipe(observer).await.err();
        erased.shared = self.shared(&values, erased.urls()).await.map_err(EraseError::NotSearched)?;
        Ok(erased)
    }

    /// Removes the details of a suppressed person; returns how many. Adds their numbers and addresses to `values`.
    async fn remove_all(
        &self,
        profile: &Profile,
        options: EraseOptions,
        entry: &AdminEntry,
        so_far: &mut SoFar,
        values: &mut Vec<(Kind, ContactValue)>,
        observer: Observer<'_>,
    ) -> Result<u64, EraseError> {
        let parts = &*self.parts;
        let mut removed = 0;
        // An import that was running when the person was suppressed may still add details until its turn to write
        // is over. So take a turn after it, remove exactly what was listed before, and repeat until nothing is
        // listed after a turn.
        let mut had_turn = false;
        loop {
            let held = self.held_or_kept(profile).await.map_err(EraseError::NotRemoved)?;
            if held.is_empty() && had_turn {
                return Ok(removed);
            }
            if options.values && !held.is_empty() {
                // Before the removal: after a crash in between, the next run still finds the values.
                let subjects = held.iter().map(|(kind, value, _)| Subject::Value(*kind, value));
                let entry = so_far.note(entry.again());
                parts.suppress(subjects, &entry).await.map_err(EraseError::NotRemoved)?;
                so_far.confirmed = parts.in_force.announce(Affected::Access).await;
            }
            let listed: Vec<_> = held.into_iter().map(|(kind, value, _)| (kind, value)).collect();
            let which = DetailFilter { values: Some(listed.clone()), source: None };
            values.extend(listed);
            let entry = entry.again();
            let attempt = async || match parts.store.remove_details(profile, &which, Some(&entry)).await {
                Err(StoreError::NotNoted) => parts.store.remove_details(profile, &which, None).await,
                removed => removed,
            };
            let now =
                until_free(observer, &Cancel::default(), attempt).await.map_err(EraseError::NotRemoved)?;
            if now > 0 {
                so_far.note(entry);
            }
            removed += now;
            had_turn = true;
        }
    }

    /// Removes what is left of removed details in the store's files.
    async fn wipe(&self, observer: Observer<'_>) -> Result<(), EraseError> {
        let parts = &*self.parts;
        let wipe = async || parts.store.wipe_removed().await;
        until_free(observer, &Cancel::default(), wipe).await.map_err(|error| match error {
            StoreError::Pending(nodes) => EraseError::Pending(nodes),
            error => EraseError::NotWiped(error),
        })?;
        if !parts.store.flush_removed().await.map_err(EraseError::NotWiped)? {
            return Err(EraseError::Read);
        }
        match (parts.remove_abandoned_backups)() {
            Ok(true) => Ok(()),
            Ok(false) => Err(EraseError::BackingUp),
            Err(error) => Err(EraseError::Abandoned(error.to_string())),
        }
    }
}
