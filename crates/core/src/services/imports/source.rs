//! Where the records of an import come from.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

use crate::progress::{Cancel, Observer};
use crate::services::imports::{InputRead, RejectedRow, Warning};
use crate::{Networks, Profile, Record, SuppressionList};

/// Rows to import, from files or from anything else. Call `read` first; then `next_batch` returns everything in
/// the store's order, and `rewind` starts over.
pub trait RecordSource: Send {
    /// Reads and checks every row. Returns early if it is cancelled.
    fn read(
        &mut self,
        checks: &RowChecks<'_>,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<ReadRows, RowsError>;

    /// The next records, in ascending order of their sort keys, one record per profile; `None` after the last.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>, RowsError>;

    /// Makes `next_batch` start again with the first records.
    fn rewind(&mut self) -> Result<(), RowsError>;
}

impl<R: RecordSource + ?Sized> RecordSource for Box<R> {
    fn read(
        &mut self,
        checks: &RowChecks<'_>,
        observer: Observer<'_>,
        cancel: &Cancel,
    ) -> Result<ReadRows, RowsError> {
        (**self).read(checks, observer, cancel)
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, RowsError> {
        (**self).next_batch()
    }

    fn rewind(&mut self) -> Result<(), RowsError> {
        (**self).rewind()
    }
}

/// What is needed to check and sort rows.
#[derive(Clone, Copy)]
pub struct RowChecks<'a> {
    /// Which profile URLs are accepted.
    pub networks: &'a Networks,
    /// Who and what is suppressed: those details are left out.
    pub suppressions: &'a SuppressionList,
    /// What records are sorted by.
    pub sort_key: &'a (dyn Fn(&Profile) -> u64 + Sync),
}

/// Records to put in one call.
#[derive(Debug, Default)]
pub struct RecordBatch {
    /// The records.
    pub records: Vec<Record>,
    /// How many rows they came from.
    pub rows: u64,
}

/// The result of reading all rows.
#[derive(Clone, Debug, Default)]
pub struct ReadRows {
    /// Rows read, valid or not.
    pub rows: u64,
    /// Rows with a rejected value.
    pub rejected: u64,
    /// Of these, rows of which another value was accepted.
    pub partly_rejected: u64,
    /// Rejected values: a row may have several. A row that is rejected as a whole counts as one.
    pub values_rejected: u64,
    /// Rejected values by reason.
    pub rejected_by_reason: BTreeMap<&'static str, u64>,
    /// Some of the rejected values.
    pub examples: Vec<RejectedRow>,
    /// Details left out because their person, number or address has opted out.
    pub suppressed: u64,
    /// The sources of the valid rows, suppressed or not.
    pub sources: BTreeSet<String>,
    /// Rows to be put.
    pub records: u64,
    /// What was read, in order.
    pub inputs: Vec<InputRead>,
    /// What was accepted and may be wrong.
    pub warnings: Vec<Warning>,
}

impl ReadRows {
    /// Whether no row has a valid detail.
    pub(super) fn is_without_details(&self) -> bool {
        self.rows == self.rejected - self.partly_rejected
    }

    /// The name of an input that holds the rejected rows of an earlier import.
    pub(super) fn rejects_file(&self) -> Option<&str> {
        self.inputs.iter().find(|input| input.holds_rejects).map(|input| input.file.as_str())
    }
}

/// Why rows could not be read. The text says what to do, and contains no row data.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RowsError {
    error: Box<dyn Error + Send + Sync>,
    is_about_a_file: bool,
}

impl RowsError {
    /// Wraps an error of the source.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self { error: Box::new(error), is_about_a_file: false }
    }

    /// The same error, whose text begins with the name of the file that it is about.
    #[must_use]
    pub fn about_a_file(self) -> Self {
        Self { is_about_a_file: true, ..self }
    }

    /// Whether its text begins with the name of a file.
    pub const fn is_about_a_file(&self) -> bool {
        self.is_about_a_file
    }

    /// The error of the source.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }
}
