//! What was read from a row: its details, and what was rejected of it.

use std::borrow::Cow;

use contactd_core::{Networks, RawRecord, ReadDetails, Record, RecordError};

use crate::COLUMNS;
use crate::ReadOptions;
use crate::columns;

/// A rejected value of a row, or the whole row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The column, or the place in a JSON line, such as `phones[1].label`.
    pub(crate) column: Cow<'static, str>,
    pub(crate) reason: &'static str,
}

impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Self {
        Self { column: Cow::Borrowed(error.column), reason: error.reason }
    }
}

impl Fault {
    pub(crate) const fn of_row(reason: &'static str) -> Self {
        Self { column: Cow::Borrowed("row"), reason }
    }
}

/// What was read from a row.
#[derive(Debug, Default)]
pub(crate) struct ReadRow {
    /// The profile and its valid details, if there are any.
    pub(crate) record: Option<Record>,
    pub(crate) faults: Vec<Fault>,
    /// Whether a number has no `+` and begins with the country code of its region.
    pub(crate) has_doubtful_phone: bool,
}

impl ReadRow {
    /// Nothing of the row can be used.
    pub(crate) fn rejected(fault: impl Into<Fault>) -> Self {
        Self { faults: vec![fault.into()], ..Self::default() }
    }
}

/// Stands for a text that cannot be read; it is not valid in any column.
const UNREADABLE: &str = "\u{FFFD}";

/// The texts of a row's columns, in the order of [`COLUMNS`].
#[derive(Clone, Copy)]
pub(crate) struct Texts<'a> {
    pub(crate) texts: [&'a str; COLUMNS.len()],
    /// Why a text cannot be read.
    unreadable: [Option<&'static str>; COLUMNS.len()],
}

impl<'a> Texts<'a> {
    pub(crate) fn empty() -> Self {
        Self { texts: [""; COLUMNS.len()], unreadable: [None; COLUMNS.len()] }
    }

    /// Sets the text of a column, or the reason why it cannot be read.
    pub(crate) fn set(&mut self, column: usize, text: Result<&'a str, &'static str>) {
        (self.texts[column], self.unreadable[column]) = match text {
            Ok(text) => (text, None),
            Err(reason) => (UNREADABLE, Some(reason)),
        };
    }

    /// Reads a row that has at most one number and one address.
    pub(crate) fn read(&self, networks: &Networks, options: &ReadOptions) -> ReadRow {
        let row = self.raw(options);
        let profile = match row.profile(networks) {
            Ok(profile) => profile,
            Err(error) => return ReadRow::rejected(self.fault(error)),
        };
        if !row.has_detail() {
            return ReadRow::rejected(RecordError::NO_DETAIL);
        }
        let ReadDetails { details, rejected, has_doubtful_phone } = row.details(&options.rules());
        ReadRow {
            record: (!details.is_empty()).then_some(Record { profile, details }),
            faults: rejected.into_iter().map(|error| self.fault(error)).collect(),
            has_doubtful_phone,
        }
    }

    /// A record from the texts of the columns.
    pub(crate) fn raw(&self, options: &'a ReadOptions) -> RawRecord<'a> {
        let [
            profile_url,
            phone,
            email,
            phone_label,
            email_label,
            confidence,
            observed_at,
            basis,
            expires_at,
            region,
            source,
        ] = self.texts;
        let has_source = !source.trim().is_empty();
        let source = if has_source { source } else { options.source.as_deref().unwrap_or_default() };
        RawRecord {
            profile_url,
            phone,
            email,
            phone_label,
            email_label,
            confidence,
            observed_at,
            basis,
            expires_at,
            region,
            source,
        }
    }

    /// The fault, with the reason why the text could not be read.
    pub(crate) fn fault(&self, error: RecordError) -> Fault {
        let unreadable = columns::position(error.column).and_then(|column| self.unreadable[column]);
        Fault { column: Cow::Borrowed(error.column), reason: unreadable.unwrap_or(error.reason) }
    }
}
