//! Joining sorted rows by profile, on a separate thread, because reading and joining take as long as writing.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use contactd_core::store::MOST_VALUES;
use contactd_core::{ContactValue, Detail, Record};

use crate::RecordBatch;
use crate::error::{FileError, Tried};
use crate::packed;
use crate::sort::Sorted;

/// Profiles per batch.
const BATCH: usize = 1_000;

/// With more details than this in memory, those of a profile are thinned out.
const MANY: usize = 20_000;

/// How many values of a profile are left then for each source.
const LEFT: usize = 50 * MOST_VALUES;

/// Records in order, one for each profile.
pub(crate) enum Joined {
    Waiting(Sorted),
    Running(Receiver<Result<RecordBatch, FileError>>, JoinHandle<Sorted>),
    /// Everything was handed over.
    Finished(Sorted),
    /// While the state changes, and after that has failed.
    Moved,
}

impl Joined {
    pub(crate) fn new(sorted: Sorted) -> Self {
        Self::Waiting(sorted)
    }

    /// The next batch; none after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<RecordBatch>, FileError> {
        if matches!(self, Self::Waiting(_))
            && let Self::Waiting(mut sorted) = std::mem::replace(self, Self::Moved)
        {
            let (sender, batches) = sync_channel(4);
            let joining = move || {
                if let Err(error) = join(&mut sorted, &sender) {
                    let _ = sender.send(Err(error));
                }
                sorted
            };
            let thread = std::thread::Builder::new().name("import-join".to_owned()).spawn(joining);
            *self = Self::Running(batches, thread.tried("cannot start a thread")?);
        }
        if let Self::Running(batches, _) = self
            && let Ok(batch) = batches.recv()
        {
            return batch.map(Some);
        }
        if let Self::Running(_, thread) = std::mem::replace(self, Self::Moved) {
            // The end of the batches is the end of the rows only if the thread has not panicked.
            *self = Self::Finished(thread.join().map_err(|_| FileError::fault())?);
        }
        Ok(None)
    }

    /// Starts again at the first batch.
    pub(crate) fn rewind(&mut self) -> Result<(), FileError> {
        let damaged = || FileError::unusable("the sorted rows are lost; nothing was loaded");
        let mut sorted = match std::mem::replace(self, Self::Moved) {
            Self::Waiting(sorted) | Self::Finished(sorted) => sorted,
            Self::Running(batches, thread) => {
                // If the thread is still running, its next send fails, and it ends.
                drop(batches);
                thread.join().map_err(|_| damaged())?
            }
            Self::Moved => return Err(damaged()),
        };
        sorted.rewind().tried("cannot read the sorted rows again")?;
        *self = Self::Waiting(sorted);
        Ok(())
    }
}

/// Joins the rows of each profile and sends them in batches. Rows with the same sort key may belong to several
/// profiles.
fn join(sorted: &mut Sorted, batches: &SyncSender<Result<RecordBatch, FileError>>) -> Result<(), FileError> {
    let new_batch = || RecordBatch { records: Vec::with_capacity(BATCH), ..RecordBatch::default() };
    let mut batch = new_batch();
    // The last sort key, and where in the batch its records begin; nearly always there is only one.
    let mut same_key = (0, 0);
    while let Some((key, bytes)) = sorted.next().tried("cannot read the sorted rows")? {
        let damaged = || FileError::unusable("a sorted row came back damaged; is the disk failing?");
        let Record { profile, details } = packed::unpack(bytes).ok_or_else(damaged)?;
        if same_key.0 != key {
            same_key = (key, batch.records.len());
        }
        let same = batch.records[same_key.1..].iter_mut().find(|record| record.profile == profile);
        match same {
            Some(record) => {
                record.details.extend(details);
                if record.details.len() > MANY {
                    batch.surplus += thin_out(&mut record.details);
                }
            }
            None => {
                if batch.records.len() >= BATCH && same_key.1 == batch.records.len() {
                    same_key.1 = 0;
                    // If the receiver is gone, the import has ended.
                    if batches.send(Ok(std::mem::replace(&mut batch, new_batch()))).is_err() {
                        return Ok(());
                    }
                }
                batch.records.push(Record { profile, details });
            }
        }
        batch.rows += 1;
    }
    if batch.rows > 0 {
        let _ = batches.send(Ok(batch));
    }
    Ok(())
}

/// Removes details that are given again later, and of each source the values after the first [`LEFT`], which the store would refuse.
/// Returns how many details these were.
fn thin_out(details: &mut Vec<Detail>) -> u64 {
    let mut places: HashMap<_, usize> = HashMap::new();
    let mut by_source: HashMap<String, usize> = HashMap::new();
    let (mut kept, mut surplus) = (Vec::new(), 0);
    for detail in std::mem::take(details) {
        let value = ContactValue::comparable(detail.kind, detail.value.expose()).into_owned();
        let key = (detail.kind, value, detail.source.clone());
        if let Some(&place) = places.get(&key) {
            kept[place] = detail;
            continue;
        }
        let count = by_source.entry(detail.source.clone()).or_default();
        if *count == LEFT {
            surplus += 1;
            continue;
        }
        *count += 1;
        places.insert(key, kept.len());
        kept.push(detail);
    }
    *details = kept;
    surplus
}
