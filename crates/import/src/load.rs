//! From files to sorted rows: one thread reads, all cores check, and the calling thread collects in file order.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use contactd_core::{Cancel, DiskBudget, Observer, Progress};
use parking_lot::Mutex;

use crate::countries::Countries;
use crate::digests::Digests;
use crate::error::{FileError, Tried};
use crate::input::{self, Opening, Reach, Rows};
use crate::layout::Layout;
use crate::read_row::{Fault, ReadRow};
use crate::rows::Row;
use crate::seen::Seen;
use crate::sort::{Sorted, Sorter};
use crate::suppressed::leave_out;
use crate::{Format, Input, Rejects, packed};
use crate::{Line, ReadOptions, ReadRows, RejectedRow, RowChecks, UploadedFile, Warning};

/// The maximum number of rows, and about how many bytes, in a batch to be checked.
const BATCH: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

/// How much memory sorting may use.
const SORT_BYTES: usize = 256 << 20;
/// The same for the digests of the profiles.
const DIGEST_BYTES: usize = 32 << 20;

/// How many rejected values, and lines with a warning, are reported as examples.
const EXAMPLES: usize = 10;

/// How often threads that wait for rows check for cancellation: a pipe may send nothing for hours.
const CANCEL_LOOK_PAUSE: Duration = Duration::from_millis(100);

/// What to read, and how.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) inputs: Vec<Input>,
    pub(crate) format: Option<Format>,
    pub(crate) options: ReadOptions,
    /// For what does not fit into memory.
    pub(crate) disk: DiskBudget,
    /// How many threads check rows.
    pub(crate) threads: usize,
    /// Reading stops when more rows than this have a rejected value.
    pub(crate) most_rejected: u64,
}

/// A batch of rows to be checked.
struct Unchecked {
    number: u64,
    /// Whether it has the first rows of its file.
    is_first: bool,
    layout: Arc<Layout>,
    rows: Vec<Row>,
}

/// A checked batch.
struct Checked {
    number: u64,
    layout: Arc<Layout>,
    rows: u64,
    /// The packed records, concatenated; then the sort key and length of each.
    packed: Vec<u8>,
    records: Vec<(u64, usize)>,
    /// The digests of the profiles of all rows that can be read, suppressed or not.
    digests: Vec<[u8; 16]>,
    /// Rows of which something was rejected, and whether everything was.
    rejected: Vec<(Row, Vec<Fault>, bool)>,
    /// The lines with a doubtful phone number.
    doubtful: Vec<u64>,
    /// In the first batch of a file: of which countries its numbers are.
    countries: Countries,
    seen: Seen,
    suppressed: u64,
    sources: BTreeSet<String>,
}

/// Reads and checks everything.
pub(crate) fn read(
    plan: &Plan,
    checks: &RowChecks<'_>,
    rejects: &mut Rejects,
    observer: Observer<'_>,
    cancel: &Cancel,
) -> Result<(ReadRows, Sorted, Digests), FileError> {
    let files: Option<Vec<&PathBuf>> = plan.inputs.iter().map(Input::file).collect();
    let size = files.and_then(|files| input::size(&files));
    let (work, waiting) = sync_channel(2 * plan.threads);
    let (done, results) = sync_channel(2 * plan.threads);
    let bytes = Arc::new(AtomicU64::new(0));
    let is_read = Arc::new(AtomicBool::new(false));
    // Not a scoped thread: if the import is cancelled while this thread waits for a pipe, nothing waits for it.
    let reading = {
        let (plan, bytes, cancel, done) = (plan.clone(), Arc::clone(&bytes), cancel.clone(), done.clone());
        let is_read = Arc::clone(&is_read);
        move || match read_all(&plan, &bytes, &work, &cancel) {
            Ok(()) => is_read.store(true, Ordering::Release),
            Err(error) => drop(done.send(Err(error))),
        }
    };
    std::thread::Builder::new()
        .name("import-read".to_owned())
        .spawn(reading)
        .tried("cannot start a thread")?;
    let sorter = Sorter::new(plan.disk.clone(), SORT_BYTES);
    let digests = Sorter::new(plan.disk.clone(), DIGEST_BYTES);
    let mut collecting = Collecting {
        read: ReadRows::default(),
        seen: Vec::new(),
        countries: Countries::default(),
        sorter,
        digests,
        rejects,
        most_rejected: plan.most_rejected,
    };
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Dropped when this returns, whatever the reason: a checker that waits to hand over its rows, or for more rows,
        // ends then.
        let results = results;
        let _ending = Ending(&is_over);
        // Dropped with the last checker, so that a send of the reader then fails instead of blocking forever.
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..plan.threads {
            let (waiting, done) = (Arc::clone(&waiting), done.clone());
            let checker = Checker { checks, options: &plan.options };
            let is_over = &is_over;
            scope.spawn(move || {
                checker.run(&waiting, &done, || cancel.is_cancelled() || is_over.load(Ordering::Relaxed));
            });
        }
        drop((waiting, done));
        let progress = |rows| {
            let bytes = size.map(|size| (bytes.load(Ordering::Relaxed), size));
            observer(Progress::Reading { rows, bytes });
        };
        collecting.collect(&results, progress, cancel)
    })?;
    if !collecting.read.is_stopped && !is_read.load(Ordering::Acquire) {
        // The thread that reads has ended without saying that it is done: it panicked.
        return Err(FileError::fault());
    }
    let Collecting { mut read, seen, countries, sorter, digests, .. } = collecting;
    let of_others = plan.options.region.as_deref().and_then(|chosen| countries.warning(chosen));
    read.warnings.extend(of_others);
    read.records = sorter.count;
    read.bytes = sorter.total;
    for (about, seen) in read.inputs.iter_mut().zip(&seen) {
        seen.report(about);
    }
    let digests = Digests::new(digests.finish().tried("cannot sort the rows")?);
    Ok((read, sorter.finish().tried("cannot sort the rows")?, digests))
}

impl Input {
    fn file(&self) -> Option<&PathBuf> {
        match self {
            Self::File(file) | Self::Uploaded(UploadedFile { path: file, .. }) => Some(file),
            Self::Csv(..) => None,
        }
    }
}

/// Ends the checkers, however the collecting ends.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The results so far.
struct Collecting<'a> {
    read: ReadRows,
    /// The fields of each input.
    seen: Vec<Seen>,
    /// The countries of the first numbers of all inputs.
    countries: Countries,
    sorter: Sorter,
    digests: Sorter,
    rejects: &'a mut Rejects,
    most_rejected: u64,
}

impl Collecting<'_> {
    /// Collects the checked batches in the order in which they were read.
    fn collect(
        &mut self,
        results: &Receiver<Result<Checked, FileError>>,
        progress: impl Fn(u64),
        cancel: &Cancel,
    ) -> Result<(), FileError> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        loop {
            let checked = match results.recv_timeout(CANCEL_LOOK_PAUSE) {
                _ if cancel.is_cancelled() => return Err(FileError::Cancelled),
                Ok(checked) => checked?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => continue,
            };
            early.insert(checked.number, checked);
            while let Some(checked) = early.remove(&next) {
                next += 1;
                self.take(checked)?;
                progress(self.read.rows);
                if self.read.rejected > self.most_rejected {
                    self.read.is_stopped = true;
                    return Ok(());
                }
            }
        }
    }

    fn take(&mut self, mut checked: Checked) -> Result<(), FileError> {
        // Every input has at least one batch, and batches come in order.
        if checked.layout.input >= self.read.inputs.len() {
            self.read.inputs.push(checked.layout.about());
            self.seen.push(Seen::default());
            self.rejects.begin(&checked.layout)?;
        }
        if let Some(seen) = self.seen.last_mut() {
            seen.add(&checked.seen);
        }
        if let Some(about) = self.read.inputs.last_mut() {
            // What it is becomes clear as late as with the first letter that is not ASCII.
            about.encoding = checked.layout.encoding();
        }
        self.warn(&checked);
        self.countries.add(&checked.countries);
        self.read.rows += checked.rows;
        self.read.suppressed += checked.suppressed;
        self.read.sources.append(&mut checked.sources);
        for (row, faults, is_whole) in &checked.rejected {
            self.read.partly_rejected += u64::from(!is_whole);
            self.reject(&checked.layout, row, faults)?;
        }
        let full = "cannot sort the rows in the data directory";
        let mut at = 0;
        for (key, len) in checked.records {
            self.sorter.push(key, &checked.packed[at..at + len]).tried(full)?;
            at += len;
        }
        for digest in &checked.digests {
            self.digests.push(Digests::key(digest), digest).tried(full)?;
        }
        Ok(())
    }

    fn reject(&mut self, layout: &Layout, row: &Row, faults: &[Fault]) -> Result<(), FileError> {
        self.read.rejected += 1;
        for Fault { column, reason } in faults {
            self.read.values_rejected += 1;
            *self.read.rejected_by_reason.entry(reason).or_default() += 1;
            if self.read.examples.len() < EXAMPLES {
                self.read.examples.push(RejectedRow {
                    file: layout.file.clone(),
                    line: row.line,
                    column: column.clone(),
                    reason,
                });
            }
        }
        self.rejects.add(layout, faults, row)
    }

    fn warn(&mut self, checked: &Checked) {
        if checked.doubtful.is_empty() {
            return;
        }
        if self.read.warnings.is_empty() {
            self.read.warnings.push(Warning {
                warning: Warning::COUNTRY_CODE,
                count: 0,
                examples: Vec::new(),
                countries: Vec::new(),
            });
        }
        for warning in &mut self.read.warnings {
            warning.count += checked.doubtful.len() as u64;
            let left = EXAMPLES.saturating_sub(warning.examples.len());
            let line = |&line: &u64| Line { file: checked.layout.file.clone(), line };
            warning.examples.extend(checked.doubtful.iter().take(left).map(line));
        }
    }
}

/// Checks rows.
struct Checker<'a> {
    checks: &'a RowChecks<'a>,
    options: &'a ReadOptions,
}

impl Checker<'_> {
    fn run(
        &self,
        waiting: &Mutex<Receiver<Unchecked>>,
        done: &SyncSender<Result<Checked, FileError>>,
        is_over: impl Fn() -> bool,
    ) {
        loop {
            let batch = waiting.lock().recv_timeout(CANCEL_LOOK_PAUSE);
            let goes_on = match batch {
                Ok(batch) => {
                    // A row that makes this panic must not be lost unnoticed: the import ends.
                    let checked = panic::catch_unwind(AssertUnwindSafe(|| self.check(batch)));
                    done.send(checked.map_err(|_| FileError::fault())).is_ok()
                }
                Err(RecvTimeoutError::Timeout) => !is_over(),
                Err(RecvTimeoutError::Disconnected) => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    fn check(&self, batch: Unchecked) -> Checked {
        let Unchecked { number, is_first, layout, rows } = batch;
        let mut countries = Countries::default();
        if is_first && self.options.region.is_some() {
            rows.iter().for_each(|row| layout.note_countries(row, self.options, &mut countries));
        }
        let mut checked = Checked {
            number,
            layout,
            rows: rows.len() as u64,
            packed: Vec::new(),
            records: Vec::with_capacity(rows.len()),
            digests: Vec::with_capacity(rows.len()),
            rejected: Vec::new(),
            doubtful: Vec::new(),
            countries,
            seen: Seen::default(),
            suppressed: 0,
            sources: BTreeSet::new(),
        };
        for row in rows {
            self.check_row(row, &mut checked);
        }
        checked
    }

    fn check_row(&self, row: Row, checked: &mut Checked) {
        let RowChecks { networks, suppressions, sort_key } = self.checks;
        let ReadRow { record, faults, has_doubtful_phone } =
            checked.layout.read(&row, networks, self.options, &mut checked.seen);
        if has_doubtful_phone {
            checked.doubtful.push(row.line);
        }
        if !faults.is_empty() {
            checked.rejected.push((row, faults, record.is_none()));
        }
        let Some(mut record) = record else { return };
        checked.digests.push(suppressions.profile_digest(&record.profile).0);
        for detail in &record.details {
            if !checked.sources.contains(&detail.source) {
                checked.sources.insert(detail.source.clone());
            }
        }
        checked.suppressed += leave_out(&mut record, suppressions).len() as u64;
        if !record.details.is_empty() {
            let before = checked.packed.len();
            packed::pack(&record, &mut checked.packed);
            checked.records.push((sort_key(&record.profile), checked.packed.len() - before));
        }
    }
}

/// Reads all rows and sends them in batches.
fn read_all(
    plan: &Plan,
    bytes: &Arc<AtomicU64>,
    work: &SyncSender<Unchecked>,
    cancel: &Cancel,
) -> Result<(), FileError> {
    let mut number = 0;
    let mut one = |layout: Layout, mut rows: Rows| -> Result<(), FileError> {
        let layout = Arc::new(layout);
        let (mut is_first, mut is_last) = (true, false);
        while !is_last {
            if cancel.is_cancelled() {
                return Err(FileError::Cancelled);
            }
            let mut batch =
                Unchecked { number, is_first, layout: Arc::clone(&layout), rows: Vec::with_capacity(BATCH) };
            is_first = false;
            let mut length = 0;
            while batch.rows.len() < BATCH && length < BATCH_BYTES && !is_last {
                match rows.next().map_err(|error| error.of(&layout.file))? {
                    Some(row) => {
                        length += row.bytes();
                        batch.rows.push(row);
                    }
                    None => is_last = true,
                }
            }
            // If the checkers have ended, the reason has been reported already.
            work.send(batch).map_err(|_| FileError::Cancelled)?;
            number += 1;
        }
        Ok(())
    };
    let opening =
        Opening { format: plan.format, options: &plan.options, disk: &plan.disk, reach: Reach::Everything };
    for (number, input) in plan.inputs.iter().enumerate() {
        let (layout, rows) = match input {
            Input::Csv(name, csv) => input::text((number, name), csv.clone(), &plan.options)?,
            Input::File(file) => opening.open((number, file, &input::name(file)), bytes)?,
            Input::Uploaded(UploadedFile { path, name }) => opening.open((number, path, name), bytes)?,
        };
        one(layout, rows)?;
    }
    Ok(())
}
