//! Importing: one transaction under the lock of the details, so that a crash at any moment leaves the old data or the new data.
//!
//! Records come in the order of their places. What is held there is read on another connection, changed here, and copied
//! straight into the table, one batch of places after the other, while the next batch is prepared. An empty table is filled
//! without its indexes, which follow at the end (`loading.rs`).

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use contactd_core::store::merge::{HeldDetail, Merging, TotalChanges, Touched};
use contactd_core::store::place::{IDS_OF_PLACE, first_id, first_id_of_key};
use contactd_core::store::{
    FormerDetail, FormerTotal, Import, ImportPlan, ImportSummary, Importing, Noted, PastImport, Stored, Undo,
    ValueOfProfile, WithdrawnFrom,
};
use contactd_core::{Kind, Profile, Record, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::ahead::{Ahead, END};
use crate::connecting::Session;
use crate::database::{Counter, Database, Work};
use crate::failure::{Failure, Tried};
use crate::places::{Place, Rewrite, write_totals};
use crate::rows::Sources;
use crate::{PostgresStore, former, loading, outbox, totals, undo};

/// Given details that are merged at a time.
const GIVEN: usize = 20_000;
/// Rows that are written at a time.
const WRITTEN: usize = 40_000;
/// An import of this many details changes what the server should know about its tables, and is worth a table that is filled
/// without indexes.
const ANALYZE_FROM_DETAILS: u64 = 10_000;
/// How long the server may take for that.
const ANALYZE_LIMIT: Duration = Duration::from_secs(60);
/// How often an import that writes nothing tells the server that it still runs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

#[async_trait]
impl Importing for PostgresStore {
    async fn begin_import(&self, plan: &ImportPlan) -> Stored<Box<dyn Import + '_>> {
        let work = self.database.begin_long(Counter::Details).await?;
        let session = Arc::clone(&work.session);
        let begun = self.database.watched(&session, PostgresImport::begin(&self.database, work, plan)).await;
        Ok(Box::new(begun.map_err(Failure::into_discarded)?))
    }

    async fn list_imports(&self) -> Stored<Vec<PastImport>> {
        self.database.read(move |work| async move { totals::imports(&work, "ORDER BY id").await }).await
    }

    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Stored<Undo> {
        self.database
            .change_if(
                Counter::Details,
                |undone| matches!(undone, Undo::Done(_)),
                move |work| async move {
                    let undone = undo::undo(&work, id, at).await?;
                    if let Undo::Done(undone) = undone {
                        let counts = [("removed", undone.removed), ("restored", undone.restored)];
                        outbox::add(&work, entry, &counts).await?;
                    }
                    Ok(undone)
                },
            )
            .await
    }

    async fn list_former(&self, profile: &Profile) -> Stored<Vec<FormerDetail>> {
        self.database.read(move |work| async move { former::list(&work, profile).await }).await
    }

    async fn former_total(&self) -> Stored<FormerTotal> {
        self.database.read(move |work| async move { former::total(&work).await }).await
    }
}

/// An import in progress, on its own connections. Dropping it cuts them, which discards it.
pub(crate) struct PostgresImport<'a> {
    database: &'a Database,
    work: Work,
    writer: Writer,
    ahead: Ahead,
    plan: ImportPlan,
    merging: Merging,
    totals: TotalChanges,
    sources: Sources,
    /// Records that are not merged yet.
    waiting: Vec<Record>,
    /// How many details they have.
    given: usize,
    rewrite: Rewrite,
    /// Whether details are copied into a table that is still to be put in place.
    is_loading: bool,
    has_tombstones: bool,
}

impl<'a> PostgresImport<'a> {
    async fn begin(database: &'a Database, work: Work, plan: &ImportPlan) -> Tried<Self> {
        // Reading the whole table for every batch would make a large import take many times as long.
        work.batch_execute("SET LOCAL enable_seqscan TO off").await?;
        let mut sources = Sources::read(&work).await?;
        let counts =
            "SELECT (SELECT coalesce(max(id), 0) + 1 FROM imports), (SELECT count FROM profile_total),
                          EXISTS (SELECT 1 FROM tombstones)";
        let counts = work.query_one(counts, &[]).await?;
        let (id, held, has_tombstones): (i64, i64, bool) = (counts.get(0), counts.get(1), counts.get(2));
        let mut replaced = Vec::new();
        for source in &plan.replaced {
            let held = totals::held_by(&work, source).await?;
            replaced.push(WithdrawnFrom { source: source.clone(), held, withdrawn: 0 });
        }
        let mut merging = Merging::new(id, replaced, plan.keep_former);
        merging.aged.extend(&sources.aged);
        for source in plan.max_age.iter().flat_map(|(sources, _)| sources) {
            merging.aged.insert(sources.id(source));
        }
        for source in &plan.replaced {
            merging.sources.insert(sources.id(source));
        }
        let all = !plan.replaced.is_empty();
        let is_large = plan.records >= ANALYZE_FROM_DETAILS && !plan.is_trial;
        let is_loading = is_large && held == 0 && loading::begin(&work).await?;
        Ok(Self {
            ahead: Ahead::new(database, plan.records, held.cast_unsigned(), all).await?,
            writer: Writer::start(database, work.clone()),
            database,
            plan: plan.clone(),
            merging,
            totals: TotalChanges::default(),
            sources,
            waiting: Vec::new(),
            given: 0,
            rewrite: empty_rewrite(&work, is_loading, has_tombstones),
            is_loading,
            has_tombstones,
            work,
        })
    }

    /// What watches each step: the server has to answer as long as it takes.
    fn watched(&self) -> (&'a Database, Arc<Session>) {
        (self.database, Arc::clone(&self.work.session))
    }

    /// Merges the records that wait, except those of the last place: there may be more of it.
    async fn merge_all_but_last(&mut self) -> Tried<()> {
        let Some(last) = self.waiting.last().map(place) else { return Ok(()) };
        let whole = self.waiting.partition_point(|record| place(record) < last);
        let rest = self.waiting.split_off(whole);
        let whole = std::mem::replace(&mut self.waiting, rest);
        self.given = self.waiting.iter().map(|record| record.details.len()).sum();
        self.merge(&whole).await
    }

    /// Merges records with what is held. They have to be all records of their places.
    async fn merge(&mut self, records: &[Record]) -> Tried<()> {
        let places = || Place::of_profiles(records.iter().map(|record| &record.profile));
        self.ahead.look_up(&self.sources, places).await?;
        for records in records.chunk_by(|one, other| place(one) == place(other)) {
            let first = place(&records[0]);
            let held = loop {
                match self.next_place(first + IDS_OF_PLACE).await? {
                    Some(earlier) if earlier.first < first => self.withdraw(earlier).await?,
                    Some(held) => break held,
                    None => break Place::of(first, []),
                }
            };
            self.merge_place(held, records)?;
            self.send_if_full().await?;
        }
        Ok(())
    }

    async fn next_place(&mut self, end: i64) -> Tried<Option<Place>> {
        self.ahead.next_place(self.database, &self.sources, end).await
    }

    fn merge_place(&mut self, mut place: Place, records: &[Record]) -> Tried<()> {
        let mut touched = Touched::default();
        let (import, first) = (self.merging.id, place.first);
        let Self { merging, totals, sources, rewrite, .. } = self;
        for Record { profile, details } in records {
            let key = profile.key();
            let Ok(of_record) = merging.put::<Infallible>(
                totals,
                profile,
                details,
                place.held_by(key),
                |source| Ok(sources.id(source)),
                |held, fate| {
                    rewrite.keep(import, first, key, held, fate);
                    Ok(())
                },
            );
            touched.extend(of_record);
        }
        if !merging.replaced.is_empty() {
            let others = place.profiles.iter_mut();
            for (key, held) in
                others.filter(|(key, _)| records.iter().all(|record| record.profile.key() != key))
            {
                let keep = |held: &HeldDetail, fate| {
                    rewrite.keep(import, first, key, held, fate);
                    Ok(())
                };
                let Ok(of_other) = merging.withdraw::<Infallible>(totals, held, keep);
                touched.extend(of_other);
            }
        }
        if touched.is_empty() { Ok(()) } else { rewrite.add(place) }
    }

    /// Removes the details of replaced sources from a place that is not in the import.
    async fn withdraw(&mut self, place: Place) -> Tried<()> {
        if !self.merging.replaced.is_empty() {
            self.merge_place(place, &[])?;
            self.send_if_full().await?;
        }
        Ok(())
    }

    async fn send_if_full(&mut self) -> Tried<()> {
        if self.rewrite.rows() >= WRITTEN { self.send().await } else { Ok(()) }
    }

    async fn send(&mut self) -> Tried<()> {
        let rewrite = self.take_rewrite();
        if self.plan.is_trial { Ok(()) } else { self.writer.send(Job::Write(rewrite)).await }
    }

    fn take_rewrite(&mut self) -> Rewrite {
        let next = empty_rewrite(&self.work, self.is_loading, self.has_tombstones);
        std::mem::replace(&mut self.rewrite, next)
    }

    async fn finish_all(&mut self) -> Tried<()> {
        let rest = std::mem::take(&mut self.waiting);
        self.given = 0;
        self.merge(&rest).await?;
        while let Some(place) = self.next_place(END).await? {
            self.withdraw(place).await?;
        }
        self.send().await?;
        if !self.is_loading {
            return self.writer.flush().await;
        }
        let _resting = self.writer.rest().await?;
        loading::index(&self.work).await
    }

    /// If rows were copied into another table, that becomes the table of details.
    async fn put_in_place(&mut self) -> Tried<()> {
        if std::mem::take(&mut self.is_loading) {
            let _resting = self.writer.rest().await?;
            loading::put_in_place(&self.work).await?;
            self.take_rewrite();
        }
        Ok(())
    }

    async fn take_back_all(&mut self, values: &[ValueOfProfile]) -> Tried<()> {
        // What is only tried is not in the table, and nobody will see it.
        if self.plan.is_trial || values.is_empty() {
            return Ok(());
        }
        self.put_in_place().await?;
        let places = Place::of_profiles(values.iter().map(|(profile, ..)| profile));
        let mut of_places: Vec<(i64, &ValueOfProfile)> =
            values.iter().map(|value| (first_id_of_key(value.0.key(), 0), value)).collect();
        of_places.sort_by_key(|(place, _)| *place);
        for places in places.chunks(1_000) {
            for mut place in Place::read(&self.work, &self.sources, places).await? {
                let mut touched = Touched::default();
                let first = place.first;
                let begin = of_places.partition_point(|(of, _)| *of < first);
                for (_, value) in of_places[begin..].iter().take_while(|(of, _)| *of == first) {
                    let held = place.held_by(value.0.key());
                    touched.extend(self.merging.take_back(&mut self.totals, value, held));
                }
                if !touched.is_empty() {
                    self.rewrite.add(place)?;
                }
            }
            self.take_rewrite().write(&self.work).await?;
        }
        Ok(())
    }

    async fn write_rest(&mut self, summary: &ImportSummary, entry: Noted<'_>) -> Tried<()> {
        self.put_in_place().await?;
        let work = &self.work;
        for (id, name) in &self.sources.new {
            let add = "INSERT INTO sources (id, name, number) VALUES ($1, $2, $3)";
            let id = i32::try_from(*id).unwrap_or(i32::MAX);
            work.execute(add, &[&id, name, &work.number]).await?;
        }
        if let Some((sources, max_age)) = &self.plan.max_age {
            let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
            let set = "UPDATE sources SET max_age = $2, number = $3 WHERE name = ANY($1)";
            work.execute(set, &[sources, &seconds, &work.number]).await?;
        }
        write_totals(work, std::mem::take(&mut self.totals)).await?;
        totals::add_import(work, &self.merging, self.plan.at, summary).await?;
        outbox::add(work, entry, &summary.counted()).await
    }
}

fn empty_rewrite(work: &Work, is_loading: bool, has_tombstones: bool) -> Rewrite {
    let table = if is_loading { loading::TABLE } else { "details" };
    Rewrite::into(work.number, table, has_tombstones)
}

fn place(record: &Record) -> i64 {
    first_id(&record.profile, Kind::Phone)
}

#[async_trait]
impl Import for PostgresImport<'_> {
    async fn put(&mut self, batch: Vec<Record>) -> Stored<()> {
        self.given += batch.iter().map(|record| record.details.len()).sum::<usize>();
        self.waiting.extend(batch);
        if self.given < GIVEN {
            return Ok(());
        }
        let (database, session) = self.watched();
        database.watched(&session, self.merge_all_but_last()).await.map_err(Failure::into_discarded)
    }

    async fn finish(&mut self) -> Stored<()> {
        let (database, session) = self.watched();
        database.watched(&session, self.finish_all()).await.map_err(Failure::into_discarded)
    }

    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Stored<()> {
        let (database, session) = self.watched();
        database.watched(&session, self.take_back_all(values)).await.map_err(Failure::into_discarded)
    }

    fn merging(&self) -> &Merging {
        &self.merging
    }

    async fn commit(mut self: Box<Self>, summary: &ImportSummary, entry: Noted<'_>) -> Stored<i64> {
        let (database, session) = self.watched();
        let written = database.watched(&session, self.write_rest(summary, entry)).await;
        written.map_err(Failure::into_discarded)?;
        let Self { work, mut writer, merging, .. } = *self;
        writer.is_over = true;
        drop(writer);
        database.commit_long(Counter::Details, work).await?;
        let counts = merging.counts;
        if counts.new + counts.changed + counts.withdrawn >= ANALYZE_FROM_DETAILS {
            // Otherwise the server plans for what was there before, until it looks on its own account.
            let analyzed = database.run_alone_once(ANALYZE_LIMIT, "ANALYZE details, former").await;
            if let Err(failure) = analyzed {
                tracing::debug!(what = failure.what(), "cannot analyze the tables after an import");
            }
        }
        Ok(merging.id)
    }
}

/// What the writer does next.
enum Job {
    Write(Rewrite),
    /// Says when everything before it is written.
    Tell(oneshot::Sender<()>),
    /// Leaves the connection to the import until the other end is dropped.
    Rest(oneshot::Receiver<()>),
}

/// Writes batches beside the import. Dropping it cuts the connection, unless the import is over.
struct Writer {
    work: Work,
    is_over: bool,
    jobs: mpsc::Sender<Job>,
    running: Option<JoinHandle<Tried<()>>>,
}

impl Writer {
    fn start(database: &Database, work: Work) -> Self {
        let (jobs, mut given) = mpsc::channel(1);
        let writing = work.clone();
        let running = database.spawn(async move {
            loop {
                match tokio::time::timeout(SIGN_OF_LIFE, given.recv()).await {
                    Ok(None) => return Ok(()),
                    Ok(Some(Job::Write(rewrite))) => rewrite.write(&writing).await?,
                    Ok(Some(Job::Tell(written))) => drop(written.send(())),
                    Ok(Some(Job::Rest(over))) => drop(over.await),
                    Err(_) => {
                        writing.batch_execute("SELECT").await?;
                    }
                }
            }
        });
        Self { work, is_over: false, jobs, running: Some(running) }
    }

    async fn send(&mut self, job: Job) -> Tried<()> {
        match self.jobs.send(job).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    /// Returns when everything is written.
    async fn flush(&mut self) -> Tried<()> {
        let (told, written) = oneshot::channel();
        self.send(Job::Tell(told)).await?;
        match written.await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.failure().await),
        }
    }

    /// Returns when everything is written. From then on it does nothing until the result is dropped.
    async fn rest(&mut self) -> Tried<oneshot::Sender<()>> {
        self.flush().await?;
        let (resting, over) = oneshot::channel();
        self.send(Job::Rest(over)).await?;
        Ok(resting)
    }

    /// Why it ended.
    async fn failure(&mut self) -> Failure {
        let ended = match self.running.take() {
            Some(running) => running.await.unwrap_or(Err(Failure::Silent)),
            None => Ok(()),
        };
        ended.err().unwrap_or(Failure::Silent)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
        if !self.is_over {
            self.work.cut();
        }
    }
}
