//! Individual people: what is held about them, correcting it, removing it.

mod erase;
mod find;
mod report;

use std::sync::Arc;

pub use erase::{EraseError, EraseOptions, Erased};
pub use find::FoundPeople;
pub use report::{Found, MOST_SEARCHED};

use contactd_core::store::{DetailFilter, ImportPlan, ImportSummary, PutCounts, StoreError};
use contactd_core::{
    Actor, Affected, ContactValue, Detail, Kind, NotRecorded, Profile, RawRecord, RecordError, RefreshError,
    Subject,
};
use contactd_core::{Cancel, Observer};

use crate::Changed;
use crate::waiting::until_free;
use crate::{AuditError, Parts};

/// Reports, corrects and removes what is held about individual people.
pub struct Subjects {
    pub(super) parts: Arc<Parts>,
}

/// Why a report or a change failed.
#[derive(Debug, thiserror::Error)]
pub enum SubjectError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The suppressions could not be read.
    #[error(transparent)]
    Suppressions(#[from] RefreshError),
    /// The journal could not be read.
    #[error(transparent)]
    Audit(#[from] AuditError),
    /// It could not be put on record, so nothing was read.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
}

/// Why a correction was not made.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionError {
    /// A value cannot be stored.
    #[error("the {} cannot be kept ({})", .0.column, .0.reason)]
    Record(RecordError),
    /// The person, the number or the address is suppressed.
    #[error("this person, number or address has opted out; `contactd unsuppress` takes that back")]
    OptedOut,
    /// The source would have more values of a kind for this profile than it may.
    #[error(
        "the source already has {} values of this kind for this profile, which is the most; nothing was changed",
        contactd_core::store::MOST_VALUES
    )]
    TooMany,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The suppressions could not be read.
    #[error(transparent)]
    Suppressions(#[from] RefreshError),
    /// The right value is stored, and the wrong one is still there.
    #[error("the right value is stored, but the wrong one is not removed ({0})")]
    NotReplaced(SubjectError),
}

/// The detail that a correction takes the place of.
#[derive(Clone, Debug)]
pub struct WrongDetail {
    /// Whether it is a number or an address.
    pub kind: Kind,
    /// The number or address.
    pub value: ContactValue,
    /// Its source.
    pub source: String,
}

impl Subjects {
    /// Adds or updates one person's details by hand, under the same rules as a row of an import. Waits for other
    /// writers.
    pub async fn correct(
        &self,
        actor: &Actor,
        row: &RawRecord<'_>,
        observer: Observer<'_>,
    ) -> Result<Changed<PutCounts>, CorrectionError> {
        let parts = &*self.parts;
        let record = row.read(&parts.networks, None).map_err(CorrectionError::Record)?;
        let entry = parts.entry_about(actor, "put", [Subject::Profile(&record.profile)]);
        // Get the turn to write first, which may take a while; then read who has opted out by now.
        let keep_former = !parts.undo_for.is_zero();
        let plan = ImportPlan { keep_former, ..ImportPlan::of(1, parts.clock.now()) };
        let begin = async || parts.store.begin_import(&plan).await;
        let mut import = until_free(observer, &Cancel::default(), begin).await?;
        let suppressions = parts.suppressions().await?;
        let is_out = |detail: &Detail| suppressions.withholds(&record.profile, detail.kind, &detail.value);
        if record.details.iter().any(is_out) {
            parts.note_failure(&entry).await;
            return Err(CorrectionError::OptedOut);
        }
        let source = record.details.first().map(|detail| detail.source.clone()).unwrap_or_default();
        import.put(vec![record]).await?;
        import.finish().await?;
        let counts = import.counts();
        if counts.refused > 0 {
            parts.note_failure(&entry).await;
            return Err(CorrectionError::TooMany);
        }
        let summary = ImportSummary {
            source,
            actor: Some(actor.to_string()),
            rows: 1,
            counts,
            ..ImportSummary::default()
        };
        let entry = entry.about_name(&summary.source, None);
        import.commit(&summary, Some(&entry)).await?;
        Ok(parts.announce(counts, Affected::Details, &[&entry.entry]).await)
    }

    /// [Corrects](Self::correct) a detail, and removes the wrong one. Returns how many details were changed. If both are the same
    /// value of the same source, only its label was wrong, and there is nothing to remove.
    pub async fn replace(
        &self,
        actor: &Actor,
        row: &RawRecord<'_>,
        wrong: &WrongDetail,
        observer: Observer<'_>,
    ) -> Result<Changed<u64>, CorrectionError> {
        let record = row.read(&self.parts.networks, None).map_err(CorrectionError::Record)?;
        let stored = self.correct(actor, row, observer).await?.map(|done| done.new + done.changed);
        let is_the_same = |right: &Detail| {
            (right.kind, &right.source) == (wrong.kind, &wrong.source)
                && wrong.value.compares_to(right.kind, right.value.expose())
        };
        if record.details.iter().any(is_the_same) {
            return Ok(stored);
        }
        let which = DetailFilter {
            values: Some(vec![(wrong.kind, wrong.value.clone())]),
            source: Some(wrong.source.clone()),
        };
        let removed = self.remove(actor, &record.profile, &which, observer).await;
        // Once the removal is in force and on record, so is what was stored before it.
        let removed = removed.map_err(CorrectionError::NotReplaced)?;
        Ok(removed.map(|removed| stored.done + removed))
    }

    /// Removes details of one person; returns how many. An address is also found if it was stored in another case. Waits for
    /// other writers.
    pub async fn remove(
        &self,
        actor: &Actor,
        profile: &Profile,
        which: &DetailFilter,
        observer: Observer<'_>,
    ) -> Result<Changed<u64>, SubjectError> {
        let parts = &*self.parts;
        let entry = parts.entry_about(actor, "remove", [Subject::Profile(profile)]);
        let attempt = async || {
            let which = self.as_stored(profile, which).await?;
            parts.store.remove_details(profile, &which, Some(&entry)).await
        };
        let removed = until_free(observer, &Cancel::default(), attempt).await?;
        if removed == 0 {
            parts.note_nothing_changed(&entry.counted(&[("details", 0)])).await?;
        }
        Ok(parts.announce(removed, Affected::Details, &[&entry.entry]).await)
    }

    /// The same filter with the values as they are stored of this profile: engines compare them exactly.
    async fn as_stored(&self, profile: &Profile, which: &DetailFilter) -> Result<DetailFilter, StoreError> {
        let Some(values) = &which.values else { return Ok(which.clone()) };
        let mut stored = values.clone();
        for (kind, value, _) in self.held_or_kept(profile).await? {
            let is_meant =
                |(of, meant): &(Kind, ContactValue)| *of == kind && meant.compares_to(kind, value.expose());
            if values.iter().any(is_meant) && !stored.contains(&(kind, value.clone())) {
                stored.push((kind, value));
            }
        }
        Ok(DetailFilter { values: Some(stored), source: which.source.clone() })
    }

    /// Visits all details, or those of one source: profile by profile, ordered by URL, with the details in an
    /// order that depends only on their content. `visit` returns whether to continue.
    pub async fn export(
        &self,
        actor: &Actor,
        source: Option<&str>,
        mut visit: impl FnMut(&Profile, &[Detail]) -> bool + Send,
    ) -> Result<(), SubjectError> {
        let entry = self.parts.entry(actor, "export");
        let entry = source.map_or(entry.clone(), |source| entry.about_name(source, None));
        self.parts.record_read(&entry).await?;
        let mut visit = |profile: &Profile, mut details: Vec<Detail>| {
            details.retain(|detail| source.is_none_or(|source| source == detail.source));
            details.sort_by(|a, b| {
                (a.kind, a.value.expose(), &a.source).cmp(&(b.kind, b.value.expose(), &b.source))
            });
            details.is_empty() || visit(profile, &details)
        };
        Ok(self.parts.store.visit_all(&mut visit).await?)
    }

    /// Puts on record that somebody fetches the file of an [export](Self::export).
    pub async fn record_export_fetched(&self, actor: &Actor) -> Result<(), NotRecorded> {
        self.parts.record_read(&self.parts.entry(actor, "export download")).await
    }
}
