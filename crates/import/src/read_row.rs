//! What was read from a row: its details, and what was rejected of it.

use std::borrow::Cow;

use contactd_core::{Detail, Networks, RawRecord, ReadDetails, Record, RecordError};

use crate::COLUMNS;
use crate::ReadOptions;
use crate::columns::{self, EMAIL, PHONE};
use crate::mapping::Field;

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

/// A number or an address from a column of its own, besides those in [`Texts`].
pub(crate) struct MoreValue<'a> {
    pub(crate) field: Field,
    pub(crate) text: Result<&'a str, &'static str>,
    /// What the column is called.
    pub(crate) name: Cow<'a, str>,
}

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

    /// Reads a row with one number and one address, and perhaps more of them.
    pub(crate) fn read<'v>(
        &self,
        more: impl Iterator<Item = MoreValue<'v>>,
        networks: &Networks,
        options: &ReadOptions,
    ) -> ReadRow {
        let row = self.raw(options);
        let profile = match row.profile(networks) {
            Ok(profile) => profile,
            Err(error) => return ReadRow::rejected(self.fault(error)),
        };
        let mut has_detail = row.has_detail();
        let ReadDetails { mut details, rejected, has_doubtful_phone } = match has_detail {
            true => row.details(&options.rules()),
            false => ReadDetails::default(),
        };
        let faults = rejected.into_iter().map(|error| self.fault(error)).collect();
        let mut read = ReadRow { record: None, faults, has_doubtful_phone };
        for value in more.filter(|value| value.text.map_or(true, |text| !text.trim().is_empty())) {
            has_detail = true;
            details.extend(value.read(self, options, &mut read));
        }
        if !has_detail {
            return ReadRow::rejected(RecordError::NO_DETAIL);
        }
        read.record = (!details.is_empty()).then_some(Record { profile, details });
        read
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

impl MoreValue<'_> {
    /// The detail, if it is valid. What else it needs is taken from its row.
    fn read(&self, row: &Texts<'_>, options: &ReadOptions, read: &mut ReadRow) -> Vec<Detail> {
        let mut texts = *row;
        texts.set(PHONE, Ok(""));
        texts.set(EMAIL, Ok(""));
        texts.set(self.field.column(), self.text);
        if let Some(label) = self.field.label() {
            texts.set(self.field.label_column(), Ok(label.name()));
        }
        let ReadDetails { details, rejected, has_doubtful_phone } =
            texts.raw(options).details(&options.rules());
        read.has_doubtful_phone |= has_doubtful_phone;
        for error in rejected {
            let fault = texts.fault(error);
            let is_own = columns::position(error.column) == Some(self.field.column());
            let fault = if is_own { Fault { column: self.name.to_string().into(), ..fault } } else { fault };
            // What is wrong with the row is reported once, however many values it has.
            if is_own || !read.faults.contains(&fault) {
                read.faults.push(fault);
            }
        }
        details
    }
}
