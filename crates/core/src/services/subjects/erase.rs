//! Erasure: the person is suppressed first, then everything about them is removed.

use crate::progress::{Cancel, Observer, Progress};
use crate::services::subjects::{SubjectStore, Subjects};
use crate::services::waiting::until_free;
use crate::store::{DetailFilter, StoreError};
use crate::{Actor, AdminEntry, Affected, Changed, NotConfirmed, Profile, Subject};

/// What an erasure removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Details removed.
    pub details: u64,
}

/// Why an erasure is not complete, and how far it got.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// The person could not be suppressed. Nothing was changed.
    #[error(transparent)]
    NotSuppressed(StoreError),
    /// It did not complete, and a running server has not confirmed what was committed.
    #[error("{0}. Also, the erasure is not complete ({1}); run it again then")]
    NotConfirmed(NotConfirmed, String),
    /// The person is suppressed, but the details are not removed.
    #[error("the person is suppressed, and the details are not removed yet; run this again ({0})")]
    NotRemoved(#[source] StoreError),
    /// Removed, but traces of them are left in the store's files.
    #[error(
        "the details are removed and nothing discloses them, but traces of them are left in the store's files; run \
         this again ({0})"
    )]
    NotWiped(#[source] StoreError),
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
    /// What is not done, without a word about what is disclosed.
    const fn what_is_left(&self) -> &'static str {
        match self {
            Self::NotSuppressed(_) => "nothing was changed",
            Self::NotConfirmed(..) | Self::NotRemoved(_) => "the details are not removed",
            Self::NotWiped(_) => "traces are left in the store's files",
            Self::Read => "a reader keeps the details in the write-ahead log",
            Self::BackingUp => "a backup is being made",
            Self::Abandoned(_) => "files of a killed backup are left",
        }
    }
}

impl<S: SubjectStore> Subjects<S> {
    /// Suppresses a person and removes everything about them from the store's files. With `values`, their
    /// numbers and addresses are suppressed too, under any profile. The suppression is announced before this
    /// waits for other writers. It does not reach earlier backups, rejects files and exports.
    pub async fn erase(
        &self,
        actor: &Actor,
        profile: &Profile,
        values: bool,
        observer: Observer<'_>,
    ) -> Result<Changed<Erased>, EraseError> {
        let parts = &*self.parts;
        let entry = parts.about(parts.entry(actor, "erase"), [Subject::Profile(profile)]);
        self.suppress(&[Subject::Profile(profile)], &entry).await.map_err(EraseError::NotSuppressed)?;
        // Each announcement covers everything that was committed before it: the last one counts.
        let mut confirmed = parts.in_force.announce(Affected::Access).await;
        observer(Progress::Suppressed { is_confirmed: confirmed.is_ok() });
        let done = self.remove_everything(profile, values, &entry, &mut confirmed, observer).await;
        if done.is_err() {
            parts.note_failure(&entry.again()).await;
        }
        let recorded = parts.on_record.collect().await;
        match (done, confirmed) {
            (Ok(done), confirmed) => Ok(Changed { done, confirmed, recorded }),
            // Nothing may be claimed that the server has not confirmed.
            (Err(error), Err(not_confirmed)) => {
                Err(EraseError::NotConfirmed(not_confirmed, error.what_is_left().to_owned()))
            }
            (Err(error), Ok(())) => Err(error),
        }
    }

    /// Removes the details of a suppressed person from the store and its files.
    async fn remove_everything(
        &self,
        profile: &Profile,
        values: bool,
        entry: &AdminEntry,
        confirmed: &mut Result<(), NotConfirmed>,
        observer: Observer<'_>,
    ) -> Result<Erased, EraseError> {
        let parts = &*self.parts;
        let mut erased = Erased::default();
        // An import that was running when the person was suppressed may still add details until its turn to write
        // is over. So take a turn after it, remove exactly what was listed before, and repeat until nothing is
        // listed after a turn.
        let mut had_turn = false;
        loop {
            let held = parts.store.list_details(profile).await.map_err(EraseError::NotRemoved)?;
            if held.is_empty() && had_turn {
                break;
            }
            if values && !held.is_empty() {
                // Before the removal: after a crash in between, the next run still finds the values.
                let subjects: Vec<_> =
                    held.iter().map(|detail| Subject::Value(detail.kind, &detail.value)).collect();
                self.suppress(&subjects, &entry.again()).await.map_err(EraseError::NotRemoved)?;
                *confirmed = parts.in_force.announce(Affected::Access).await;
            }
            let listed = held.into_iter().map(|detail| (detail.kind, detail.value)).collect();
            let listed = DetailFilter { values: Some(listed), source: None };
            let entry = entry.again();
            let attempt = async || parts.store.remove_details(profile, &listed, Some(&entry)).await;
            erased.details +=
                until_free(observer, &Cancel::default(), attempt).await.map_err(EraseError::NotRemoved)?;
            had_turn = true;
        }
        *confirmed = parts.in_force.announce(Affected::Access).await;
        let wipe = async || parts.store.wipe_removed().await;
        until_free(observer, &Cancel::default(), wipe).await.map_err(EraseError::NotWiped)?;
        if !parts.store.flush_removed().await.map_err(EraseError::NotWiped)? {
            return Err(EraseError::Read);
        }
        match parts.backups.remove_abandoned() {
            Ok(true) => Ok(erased),
            Ok(false) => Err(EraseError::BackingUp),
            Err(error) => Err(EraseError::Abandoned(error.to_string())),
        }
    }

    async fn suppress(&self, subjects: &[Subject<'_>], entry: &AdminEntry) -> Result<u64, StoreError> {
        let digests: Vec<_> =
            subjects.iter().filter_map(|subject| self.parts.keys.digest(*subject)).collect();
        self.parts.store.suppress(&digests, self.parts.clock.now(), Some(entry)).await
    }
}
