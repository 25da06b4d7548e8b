//! Where the records of an import come from.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use crate::progress::{Cancel, Observer};
use crate::services::imports::RejectedRow;
use crate::{Networks, Profile, Record, SuppressionList};

/// Rows on their way to the store: files, or anything else. `read` comes first; then `next_batch` gives everything in the
/// store's order, and `rewind` starts over.
pub trait RecordSource: Send {
    /// Reads and checks every row. Returns early if it is cancelled.
    fn read(
        &mut self,
        checks: &RowChecks<'_>,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<ReadRows, RowsError>;

    /// The next records, in ascending order of their sort keys, one record for each profile; none after the last.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, RowsError>;

    /// Makes `next_batch` begin again with the first records.
    fn rewind(&mut self) -> Result<(), RowsError>;
}

/// What checking and sorting rows needs.
#[derive(Clone, Copy)]
pub struct RowChecks<'a> {
    /// Which profile URLs are accepted.
    pub networks: &'a Networks,
    /// Who has opted out: their details are left out.
    pub suppressions: &'a SuppressionList,
    /// What records are sorted by.
    pub sort_key: &'a (dyn Fn(&Profile) -> u64 + Sync),
}

/// Records to be put together.
#[derive(Debug, Default)]
pub struct RecordBatch {
    /// The records.
    pub records: Vec<Record>,
    /// How many rows they were.
    pub rows: u64,
}

/// What was read.
#[derive(Clone, Debug, Default)]
pub struct ReadRows {
    /// Rows read, good or bad.
    pub rows: u64,
    /// Rows that were rejected.
    pub rejected: u64,
    /// The same, by reason.
    pub rejected_by_reason: BTreeMap<&'static str, u64>,
    /// Some of the rejected rows.
    pub examples: Vec<RejectedRow>,
    /// Details left out because their person, number or address has opted out.
    pub suppressed: u64,
    /// The sources of the good rows, opted out or not.
    pub sources: BTreeSet<String>,
    /// Rows that are to be put.
    pub records: u64,
}

/// Rows could not be read. The text says what to do, and holds nothing of a row.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RowsError(Box<dyn Error + Send + Sync>);

impl RowsError {
    /// Any source's own error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Box::new(error))
    }

    /// The source's own error.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}
