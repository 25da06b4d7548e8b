//! Importing records, all or nothing; undoing imports; retention.

mod limits;
mod report;
mod retention;
mod sources;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use limits::{parse_share, parse_source};
pub use report::{Compared, ImportReport, RefusedProfile};
pub use sources::{KnownSource, RememberedReading, SimilarSource};

use contactd_core::store::{
    Aged, Import, ImportPlan, ImportSummary, PastImport, PutCounts, StoreError, SweepPlan, Swept, Undo,
    Undone, ValueOfProfile, WithdrawnFrom,
};
use contactd_core::{
    Actor, AdminEntry, Affected, NotRecorded, RefreshError, SuppressionList, Via, blocking,
    recordable_file_name,
};
use contactd_core::{Cancel, DiskBudget, Observer, Progress};
use contactd_import::{FileError, FileShape, Files, Preview, ReadOptions, ReadRows, RowChecks, UploadedFile};

use crate::Changed;
use crate::Parts;
use crate::views::ImportView;
use crate::waiting::until_free;

/// Imports records, undoes imports, and removes details that are too old.
pub struct Imports {
    pub(crate) parts: Arc<Parts>,
}

/// What an import does besides adding and updating.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Also remove the details of the rows' sources that are not in the rows.
    pub replace_source: bool,
    /// With `replace_source`: continue even if no row is valid, which removes all details of the source.
    pub allow_empty: bool,
    /// The source of rows that do not name one.
    pub default_source: Option<String>,
    /// How long the details of the rows' sources are held from now on.
    pub max_age: Option<Duration>,
    /// How many rows with a rejected value are too many.
    pub max_rejects: MaxRejects,
    /// With `replace_source`: how large a share of a source's details may be removed, if it holds many.
    pub max_withdrawn: f64,
    /// The names of the files, for the list of imports.
    pub files: Vec<String>,
    /// Check everything and change nothing.
    pub dry_run: bool,
    /// Whoever asks may not see who is on file. Then a check reads the files alone: with rows of their own, somebody could learn
    /// from any total whether one more row is on file.
    pub without_people: bool,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self {
            replace_source: false,
            allow_empty: false,
            default_source: None,
            max_age: None,
            max_rejects: MaxRejects::Rows(0),
            max_withdrawn: 1.0,
            files: Vec::new(),
            dry_run: false,
            without_people: false,
        }
    }
}

/// How many rows with a rejected value are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MaxRejects {
    /// More than this share of all rows.
    Share(f64),
    /// More than this many.
    Rows(u64),
}

impl MaxRejects {
    /// How many rows may be rejected, if that does not depend on how many there are.
    fn rows(self) -> Option<u64> {
        match self {
            Self::Rows(most) => Some(most),
            Self::Share(share) => (share <= 0.0).then_some(0),
        }
    }

    fn is_exceeded(self, rejected: u64, rows: u64) -> bool {
        match self {
            Self::Rows(most) => rejected > most,
            // The margin makes sure that exactly the allowed number is accepted despite rounding.
            Self::Share(share) => rejected as f64 > share * rows as f64 + 1e-6,
        }
    }
}

/// What the journal calls it when somebody sees the first rows of a file.
const PREVIEW: &str = "import preview";

/// A source that holds fewer details than this may lose any share of them.
const MANY: u64 = 1_000;

/// Why an import failed. Nothing was changed, unless the error says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It was cancelled.
    #[error("stopped; nothing was changed")]
    Cancelled,
    /// No row is valid, so all details of the source would be removed.
    #[error(
        "the files hold no valid row, so everything of their source would be removed; nothing was changed. If you want \
         that, add --allow-empty"
    )]
    NothingToReplaceWith,
    /// A source would be replaced by the rejected rows of an earlier import.
    #[error(
        "{0} holds only the rejected rows of an earlier import, so the rest of their source would be removed; nothing was \
         changed. Import it without replacing the source"
    )]
    ReplacedByRejects(String),
    /// A source would lose too many of its details.
    #[error(
        "{} of the {} details of source {} would be removed, because the files do not contain them; nothing was changed",
        .from.withdrawn, .from.held, .from.source
    )]
    TooManyWithdrawn {
        /// The source.
        from: WithdrawnFrom,
        /// What the import would have done.
        report: Box<ImportReport>,
    },
    /// There is no such import.
    #[error("there is no import {0}")]
    Unknown(i64),
    /// The import was undone before.
    #[error("import {0} is already undone")]
    Already(i64),
    /// A later import of the same source has to be undone first.
    #[error("import {later} has the same source as import {id} and came later; nothing was changed")]
    Later {
        /// The import that was to be undone.
        id: i64,
        /// The one that has to be undone first.
        later: i64,
    },
    /// What the import changed and withdrew is not kept any more.
    #[error(
        "import {0} cannot be undone: what it changed or withdrew is no longer kept; nothing was changed"
    )]
    NotKept(i64),
    /// The rows could not be read.
    #[error(transparent)]
    Rows(#[from] FileError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The suppressions could not be read.
    #[error(transparent)]
    Suppressions(#[from] RefreshError),
    /// It could not be put on record, so nothing was shown.
    #[error(transparent)]
    NotRecorded(#[from] NotRecorded),
}

impl Imports {
    /// The room that imports share with whatever else is written in large files.
    pub fn disk(&self) -> DiskBudget {
        self.parts.files.disk().clone()
    }

    /// What an uploaded file holds, with the first values of its columns. Blocks while it reads the first part of the file.
    pub async fn describe(
        &self,
        actor: &Actor,
        file: &UploadedFile,
        options: &ReadOptions,
    ) -> Result<FileShape, ImportError> {
        let shape = blocking(|| self.parts.files.describe(file, options))?;
        self.parts.record_read(&self.parts.entry(actor, PREVIEW)).await?;
        Ok(shape)
    }

    /// What an import would do with the first rows of an uploaded file, at most `rows` and few. Blocks while it reads them. For
    /// somebody who may not see who is on file, nobody has opted out.
    pub async fn preview(
        &self,
        actor: &Actor,
        file: &UploadedFile,
        options: &ReadOptions,
        rows: usize,
        without_people: bool,
    ) -> Result<Preview, ImportError> {
        let parts = &*self.parts;
        let suppressions = match without_people {
            true => SuppressionList::new(parts.keys.clone()),
            false => parts.suppressions().await?,
        };
        let sort_key = |profile: &_| parts.store.sort_key(profile);
        let checks =
            RowChecks { networks: &parts.networks, suppressions: &suppressions, sort_key: &sort_key };
        let preview = blocking(|| parts.files.preview(file, options, &checks, rows))?;
        let profiles: BTreeSet<[u8; 16]> = preview.rows.iter().filter_map(|row| row.digest).collect();
        let entry = parts.entry(actor, PREVIEW);
        let entry = parts.about_profiles(&entry, |visit| profiles.iter().try_for_each(visit)).await?;
        parts.record_read(&entry).await?;
        Ok(preview)
    }

    /// Puts on record that somebody reads the rows that an import rejected.
    pub async fn record_rejects_read(&self, actor: &Actor) -> Result<(), NotRecorded> {
        self.parts.record_read(&self.parts.entry(actor, "import rejects")).await
    }

    /// The rows of an uploaded file, for [`run`](Self::run). Rejected rows are written to `rejects`, a file that does not exist
    /// yet. Fails at once if the columns that an import needs are missing.
    pub fn open(
        &self,
        file: &UploadedFile,
        options: &ReadOptions,
        rejects: Option<&Path>,
    ) -> Result<Files, ImportError> {
        Ok(self.parts.files.open(file, options, rejects)?)
    }

    /// Reads all rows, then imports all of them or nothing. Nothing is visible before the end. People who opted
    /// out before the import or while it ran are left out. With too many rejected rows, and in a dry run,
    /// nothing is changed, and the report says what was found.
    ///
    /// What compares the rows with what is on file is on record first, with every profile of the files, or it is not reported.
    pub async fn run(
        &self,
        actor: &Actor,
        source: &mut Files,
        options: &ImportOptions,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<Changed<ImportReport>, ImportError> {
        let parts = &*self.parts;
        let operation = if options.dry_run { AdminEntry::IMPORT_CHECK } else { "import" };
        let mut entry = parts.entry(actor, operation);
        let mut done = self.import(actor, &mut entry, source, options, observer, cancel).await;
        match &done {
            // A check is on record since its rows were read.
            _ if options.dry_run => {}
            Ok(changed) if changed.done.committed => {}
            Ok(_) | Err(ImportError::TooManyWithdrawn { .. }) => parts.record_read(&entry.failed()).await?,
            Err(_) => parts.note_failure(&entry).await,
        }
        if let Ok(Changed { done: report, recorded, .. }) = &mut done {
            let is_on_record = !matches!(recorded, Err(NotRecorded::Unavailable(_)));
            let may_see = report.committed || !options.without_people;
            report.compared = report.compared.filter(|_| is_on_record && may_see);
        }
        done
    }

    async fn import(
        &self,
        actor: &Actor,
        entry: &mut AdminEntry,
        source: &mut Files,
        options: &ImportOptions,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<Changed<ImportReport>, ImportError> {
        let parts = &*self.parts;
        let suppressions = parts.suppressions().await?;
        let sort_key = |profile: &_| parts.store.sort_key(profile);
        let checks =
            RowChecks { networks: &parts.networks, suppressions: &suppressions, sort_key: &sort_key };
        if let Some(most) = options.max_rejects.rows() {
            source.stop_above(most);
        }
        let read = blocking(|| source.read(&checks, observer, cancel));
        // What was cancelled may not have been read to its end.
        stop_if(cancel)?;
        let read = read?;
        let counted = entry.counted(&[("rows", read.rows), ("rejected", read.rejected)]);
        *entry = parts.about_profiles(&counted, |visit| source.each_profile(visit)).await?;
        if options.dry_run {
            parts.record_read(entry).await?;
        }
        let mut report = ImportReport::of(&read);
        report.similar_sources = self.similar(&read.sources).await?;
        report.has_too_many_rejects = options.max_rejects.is_exceeded(read.rejected, read.rows);
        if report.has_too_many_rejects {
            return Ok(Changed::nothing(report));
        }
        if options.replace_source
            && let Some(file) = read.rejects_file()
        {
            return Err(ImportError::ReplacedByRejects(file.to_owned()));
        }
        if options.replace_source && read.is_without_details() && !options.allow_empty {
            return Err(ImportError::NothingToReplaceWith);
        }
        if options.dry_run && options.without_people {
            return Ok(Changed::nothing(report));
        }
        let plan = self.plan(&read, options);
        let begin = async || parts.store.begin_import(&plan).await;
        let mut import = in_turn(observer, cancel, begin).await?;
        let (mut rows, mut surplus) = (0, 0);
        while let Some(batch) = source.next_batch()? {
            rows += batch.rows;
            surplus += batch.surplus;
            import.put(batch.records).await?;
            stop_if(cancel)?;
            observer(Progress::Writing { rows, all: read.records });
        }
        import.finish().await?;
        source.require_room()?;
        let is_too_much = |from: &WithdrawnFrom| {
            from.held >= MANY && from.withdrawn as f64 > options.max_withdrawn * from.held as f64
        };
        if let Some(from) = import.withdrawn().into_iter().find(is_too_much) {
            report.count(import.counts());
            return Err(ImportError::TooManyWithdrawn { from, report: Box::new(report) });
        }
        self.take_back(source, &mut *import, &suppressions).await?;
        stop_if(cancel)?;
        let counts = import.counts();
        report.refuse(import.crowds(), counts.refused + surplus);
        report.has_too_many_rejects = options.max_rejects.is_exceeded(report.rejected, report.rows);
        if report.has_too_many_rejects {
            return Ok(Changed::nothing(report));
        }
        report.count(counts);
        let held_nothing = import.withdrawn().into_iter().filter(|from| from.held == 0);
        report.replaced_nothing = held_nothing.map(|from| from.source).collect();
        if options.dry_run {
            return Ok(Changed::nothing(report));
        }
        let mut sources = read.sources;
        sources.extend(plan.replaced);
        let files = options.files.iter().map(|file| recordable_file_name(file)).collect();
        let summary = ImportSummary { files, ..report.summary(counts, &sources, actor) };
        report.id =
            Some(import.commit(&summary, Some(&entry.clone().about_name(&summary.source, None))).await?);
        report.committed = true;
        if counts.taken_back > 0 {
            report.are_traces_left = !parts.store.flush_removed().await.unwrap_or(false);
        }
        if options.max_age.is_some() {
            let sweep = parts.entry(actor, "sweep");
            let swept = self.sweep_once(Aged::Policies, &sweep).await;
            report.details_too_old = swept.as_ref().ok().map(|swept| swept.aged);
            report.not_swept = swept.err().map(|error| error.to_string());
        }
        Ok(parts.announce(report, Affected::Details, &[&entry.entry]).await)
    }

    fn plan(&self, read: &ReadRows, options: &ImportOptions) -> ImportPlan {
        let mut sources: Vec<String> = read.sources.iter().cloned().collect();
        if sources.is_empty() && options.replace_source {
            sources.extend(options.default_source.clone());
        }
        ImportPlan {
            at: self.parts.clock.now(),
            records: read.records,
            replaced: if options.replace_source { sources.clone() } else { Vec::new() },
            max_age: options.max_age.map(|max_age| (sources, max_age)),
            keep_former: !self.parts.undo_for.is_zero(),
            is_trial: options.dry_run,
        }
    }

    async fn sweep_once(&self, aged: Aged<'_>, entry: &AdminEntry) -> Result<Swept, StoreError> {
        let now = self.parts.removal_time().await?;
        let plan = SweepPlan { now, aged, former_before: now.minus(self.parts.undo_for) };
        self.parts.store.sweep(plan, Some(entry)).await
    }

    /// Removes from the import what was suppressed after the rows were checked.
    async fn take_back(
        &self,
        source: &mut Files,
        import: &mut dyn Import,
        before: &SuppressionList,
    ) -> Result<(), ImportError> {
        let now = self.parts.suppressions().await?;
        if !now.differs_from(before) {
            return Ok(());
        }
        source.rewind()?;
        let mut out: Vec<ValueOfProfile> = Vec::new();
        while let Some(batch) = source.next_batch()? {
            for record in batch.records {
                let withheld = record
                    .details
                    .into_iter()
                    .filter(|detail| now.withholds(&record.profile, detail.kind, &detail.value));
                out.extend(withheld.map(|detail| (record.profile.clone(), detail.kind, detail.value)));
            }
        }
        Ok(import.take_back(&out).await?)
    }

    /// All imports, oldest first.
    pub async fn list(&self, actor: &Actor) -> Result<Vec<ImportView>, ImportError> {
        actor.note("imports");
        let now = self.parts.clock.now();
        let listed = |import: PastImport| {
            let end = import.at.plus(self.parts.undo_for);
            let undo_until = Some(end).filter(|&end| import.is_kept && end > now);
            ImportView::of(import, undo_until)
        };
        Ok(self.parts.store.list_imports().await?.into_iter().map(listed).collect())
    }

    /// Undoes an import: removes the details that it added and that are still held, and restores those that it changed
    /// or withdrew, except what was removed, erased or has expired since. Waits for other writers until it is cancelled.
    pub async fn undo(
        &self,
        actor: &Actor,
        id: i64,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<Changed<Undone>, ImportError> {
        let parts = &*self.parts;
        let entry = parts.entry(actor, "imports undo").about(&id.to_string());
        let attempt = async || self.try_undo(id, &entry).await;
        let undone = in_turn(observer, cancel, attempt).await?;
        let refused = match undone {
            Undo::Done(undone) => {
                return Ok(parts.announce(undone, Affected::Details, &[&entry.entry]).await);
            }
            Undo::Unknown => ImportError::Unknown(id),
            Undo::Already => ImportError::Already(id),
            Undo::Later(later) => ImportError::Later { id, later },
            Undo::NotKept => ImportError::NotKept(id),
        };
        parts.note_failure(&entry).await;
        Err(refused)
    }

    async fn try_undo(&self, id: i64, entry: &AdminEntry) -> Result<Undo, StoreError> {
        let (store, now) = (&*self.parts.store, self.parts.removal_time().await?);
        let is_over = |import: &PastImport| {
            let PutCounts { changed, withdrawn, .. } = import.summary.counts;
            import.id == id
                && import.undone_at.is_none()
                && changed + withdrawn > 0
                && import.at.plus(self.parts.undo_for) <= now
        };
        // What was kept for long enough may be there still, because no sweep has removed it yet.
        if store.list_imports().await?.iter().any(is_over) {
            return Ok(Undo::NotKept);
        }
        store.undo_import(id, now, Some(entry)).await
    }

    /// Removes details that have expired or are too old, also from the store's logs. Waits for other writers until it is
    /// cancelled.
    pub async fn sweep(
        &self,
        actor: &Actor,
        aged: Aged<'_>,
        clearing: Clearing,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<Changed<SweepReport>, ImportError> {
        let parts = &*self.parts;
        let entry = parts.entry(actor, "sweep");
        let attempt = async || self.sweep_once(aged, &entry).await;
        let swept = in_turn(observer, cancel, attempt).await?;
        if swept == Swept::default() && actor.via != Via::Service {
            parts.note_nothing_changed(&entry.counted(&[("details", 0)])).await?;
        }
        if swept == Swept::default() && clearing == Clearing::IfRemoved {
            return Ok(Changed::nothing(SweepReport { swept, logs_are_clear: true }));
        }
        // What it removed has entries of its own, part by part.
        let stored = (swept == Swept::default() && actor.via != Via::Service).then_some(&*entry.entry);
        let changed = parts.announce((), Affected::Details, stored.as_slice()).await;
        let cleared = parts.store.flush_removed().await;
        if let Err(error) = &cleared {
            tracing::warn!(%error, "the store's logs could not be cleared");
        }
        let report = SweepReport { swept, logs_are_clear: cleared.unwrap_or(false) };
        Ok(changed.map(|()| report))
    }
}

/// When a sweep clears the store's logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clearing {
    /// Only if it removed something, which is what a server does every minute.
    IfRemoved,
    /// In any case: an earlier sweep may not have been able to.
    Always,
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepReport {
    /// What it removed.
    pub swept: Swept,
    /// Whether what was removed is not in the store's logs any more.
    pub logs_are_clear: bool,
}

fn stop_if(cancel: &Cancel) -> Result<(), ImportError> {
    if cancel.is_cancelled() { Err(ImportError::Cancelled) } else { Ok(()) }
}

/// Waits for other writers. If it is cancelled meanwhile, that is not an error of the store.
async fn in_turn<T>(
    observer: Observer<'_>,
    cancel: &Cancel,
    attempt: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, ImportError> {
    until_free(observer, cancel, attempt).await.map_err(|error| match error {
        StoreError::Busy if cancel.is_cancelled() => ImportError::Cancelled,
        error => error.into(),
    })
}
