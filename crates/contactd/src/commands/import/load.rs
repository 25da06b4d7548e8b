//! From files to the store: rows are read, checked on all cores, sorted, and put in the store's own order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, bail};
use contactd_core::store::Details;
use contactd_core::{Detail, Networks, RecordError, SuppressionList};
use contactd_store_sqlite::SqliteStore;

use super::input::{self, Rows};
use super::packed;
use super::rejects::Rejects;
use super::report::Report;
use super::rows::{Defaults, Layout, Row};
use super::sort::Sorter;
use crate::cli::Format;
use crate::commands::import::is_out;
use crate::context::Context;
use crate::progress::Progress;

/// Rows that are checked in one go, and how many bytes of them.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

/// What sorting may take of the memory.
const SORT_BYTES: usize = 256 << 20;

/// What is to be loaded.
pub(crate) struct Plan<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) format: Option<Format>,
    pub(crate) defaults: Defaults<'a>,
    /// Threads that check rows.
    pub(crate) threads: usize,
}

pub(crate) enum Inputs<'a> {
    Files(&'a [PathBuf]),
    BuiltIn(&'static str),
}

/// Set when the operator wants it to stop.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// Whether rows are still being read, and nothing has been written.
pub(crate) static IS_READING: AtomicBool = AtomicBool::new(false);

/// Everything that was read: checked, and ready to be put in order.
pub(crate) struct Load {
    pub(super) sorter: Sorter,
    pub(super) suppressions: Arc<SuppressionList>,
    pub(super) sources: BTreeSet<String>,
    pub(crate) report: Report,
}

/// Rows on their way to be checked.
struct Unchecked {
    number: u64,
    layout: Arc<Layout>,
    rows: Vec<Row>,
}

/// Rows that were checked.
struct Checked {
    number: u64,
    layout: Arc<Layout>,
    rows: u64,
    /// Records, one behind the other; the place and the length of each.
    packed: Vec<u8>,
    records: Vec<(u64, usize)>,
    rejected: Vec<(Row, RecordError)>,
    suppressed: u64,
    sources: BTreeSet<String>,
}

impl Load {
    /// Reads and checks everything. Nothing of the store is touched yet.
    pub(crate) async fn read(
        context: &Context,
        plan: &Plan<'_>,
        rejects: &mut Rejects,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let suppressions = Arc::new(context.suppressions().await?);
        let mut load = Self {
            sorter: Sorter::new(context.dir.path().to_owned(), SORT_BYTES),
            suppressions: Arc::clone(&suppressions),
            sources: BTreeSet::new(),
            report: Report::default(),
        };
        let checker =
            Checker { networks: &context.networks, suppressions: &suppressions, defaults: plan.defaults };
        IS_READING.store(true, Ordering::Relaxed);
        std::thread::scope(|scope| {
            let (work, waiting) = sync_channel(2 * plan.threads);
            let (done, results) = sync_channel(2 * plan.threads);
            // Goes away with the last checker, so that the reader does not wait for nobody.
            let waiting = Arc::new(Mutex::new(waiting));
            for _ in 0..plan.threads {
                let (waiting, done, checker) = (Arc::clone(&waiting), done.clone(), &checker);
                scope.spawn(move || checker.run(&waiting, &done));
            }
            drop(waiting);
            let read = progress.read();
            scope.spawn(move || {
                if let Err(error) = read_all(plan, &read, &work) {
                    let _ = done.send(Err(error));
                }
            });
            load.collect(&results, rejects, progress)
        })?;
        IS_READING.store(false, Ordering::Relaxed);
        Ok(load)
    }

    /// The sources that `--replace-source` is about: those of the rows; of no rows, the one that was named for them.
    pub(crate) fn replaced(&self, default: Option<&str>) -> Vec<String> {
        let mut sources = self.sources.clone();
        if sources.is_empty() {
            sources.extend(default.map(str::to_owned));
        }
        sources.into_iter().collect()
    }

    /// Takes up what was checked, in the order in which it was read.
    fn collect(
        &mut self,
        results: &Receiver<anyhow::Result<Checked>>,
        rejects: &mut Rejects,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        for checked in results {
            let checked = checked?;
            early.insert(checked.number, checked);
            while let Some(checked) = early.remove(&next) {
                next += 1;
                self.take_up(checked, rejects)?;
                progress.show("reading", self.report.rows);
            }
        }
        Ok(())
    }

    fn take_up(&mut self, mut checked: Checked, rejects: &mut Rejects) -> anyhow::Result<()> {
        self.report.rows += checked.rows;
        self.report.suppressed += checked.suppressed;
        self.sources.append(&mut checked.sources);
        for (row, error) in &checked.rejected {
            self.report.reject(&checked.layout.file, row.line, *error);
            rejects.add(&checked.layout, *error, row)?;
        }
        let mut at = 0;
        for (place, len) in checked.records {
            self.sorter
                .push(place, &checked.packed[at..at + len])
                .context("cannot sort the rows: there is no room for them in the data directory")?;
            at += len;
        }
        Ok(())
    }
}

/// What checking a row needs.
struct Checker<'a> {
    networks: &'a Networks,
    suppressions: &'a SuppressionList,
    defaults: Defaults<'a>,
}

impl Checker<'_> {
    fn run(&self, waiting: &Mutex<Receiver<Unchecked>>, done: &SyncSender<anyhow::Result<Checked>>) {
        loop {
            let batch = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(batch) = batch else { return };
            if done.send(Ok(self.check(batch))).is_err() {
                return;
            }
        }
    }

    fn check(&self, batch: Unchecked) -> Checked {
        let Unchecked { number, layout, rows } = batch;
        let mut checked = Checked {
            number,
            layout,
            rows: rows.len() as u64,
            packed: Vec::new(),
            records: Vec::with_capacity(rows.len()),
            rejected: Vec::new(),
            suppressed: 0,
            sources: BTreeSet::new(),
        };
        for row in rows {
            match row.record(&checked.layout, self.networks, self.defaults) {
                Ok(mut record) => {
                    for detail in &record.details {
                        if !checked.sources.contains(&detail.source) {
                            checked.sources.insert(detail.source.clone());
                        }
                    }
                    let all = record.details.len();
                    if !self.suppressions.is_empty() {
                        let is_in = |detail: &Detail| {
                            !is_out(self.suppressions, &record.profile, detail.kind, &detail.value)
                        };
                        record.details.retain(is_in);
                    }
                    checked.suppressed += (all - record.details.len()) as u64;
                    if !record.details.is_empty() {
                        let before = checked.packed.len();
                        packed::pack(&record, &mut checked.packed);
                        checked
                            .records
                            .push((SqliteStore::place(&record.profile), checked.packed.len() - before));
                    }
                }
                Err(error) => checked.rejected.push((row, error)),
            }
        }
        checked
    }
}

/// Reads all rows and hands them on in batches.
fn read_all(plan: &Plan<'_>, read: &Arc<AtomicU64>, work: &SyncSender<Unchecked>) -> anyhow::Result<()> {
    let mut number = 0;
    let mut one = |layout: Layout, mut rows: Rows| -> anyhow::Result<()> {
        let layout = Arc::new(layout);
        let mut is_last = false;
        while !is_last {
            stop_if_wanted()?;
            let mut batch =
                Unchecked { number, layout: Arc::clone(&layout), rows: Vec::with_capacity(BATCH) };
            let mut bytes = 0;
            while batch.rows.len() < BATCH && bytes < BATCH_BYTES && !is_last {
                match rows.next().with_context(|| layout.file.clone())? {
                    Some(row) => {
                        bytes += row.bytes();
                        batch.rows.push(row);
                    }
                    None => is_last = true,
                }
            }
            // If nobody takes it, whoever did has told why.
            is_last |= work.send(batch).is_err();
            number += 1;
        }
        Ok(())
    };
    match plan.inputs {
        Inputs::BuiltIn(csv) => {
            let (layout, rows) = input::built_in(csv)?;
            one(layout, rows)?;
        }
        Inputs::Files(files) => {
            for file in files {
                let (layout, rows) = input::open(file, plan.format, plan.defaults, read)?;
                one(layout, rows)?;
            }
        }
    }
    Ok(())
}

pub(super) fn stop_if_wanted() -> anyhow::Result<()> {
    if STOP.load(Ordering::Relaxed) {
        bail!("stopped; nothing was changed");
    }
    Ok(())
}

/// How many threads check rows: one for each core that may be used.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Where rejected rows go: where the operator says, or beside the first file.
pub(crate) fn rejects_file(chosen: Option<&Path>, files: &[PathBuf]) -> PathBuf {
    if let Some(chosen) = chosen {
        return chosen.to_owned();
    }
    // Beside a pipe, under whichever name it comes, there is no room.
    let first = files.first().filter(|file| file.is_file());
    let mut name = first.map_or("stdin".into(), |file| file.as_os_str().to_owned());
    name.push(".rejects.csv");
    PathBuf::from(name)
}
