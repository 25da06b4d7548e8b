//! What is read of files, and what was found in them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use contactd_core::{Networks, Profile, Record, SuppressionList};
use serde::Serialize;

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
    /// Details that were left out, because there are far too many of their profile.
    pub surplus: u64,
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
    /// How many bytes they have.
    pub bytes: u64,
    /// What was read, in order.
    pub inputs: Vec<InputRead>,
    /// What was accepted and may be wrong.
    pub warnings: Vec<Warning>,
    /// Whether reading stopped early, because too many rows were rejected.
    pub is_stopped: bool,
    /// Rejected rows that are not in the file of rejected rows, because it is as long as it may be.
    pub rejects_not_kept: u64,
}

impl ReadRows {
    /// Whether no row has a valid detail.
    pub fn is_without_details(&self) -> bool {
        self.rows == self.rejected - self.partly_rejected
    }

    /// The name of an input that holds the rejected rows of an earlier import.
    pub fn rejects_file(&self) -> Option<&str> {
        self.inputs.iter().find(|input| input.holds_rejects).map(|input| input.file.as_str())
    }
}

/// A rejected value of a row, without its content.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedRow {
    /// The file, as it is shown to people.
    pub file: String,
    /// The line on which the row begins, or the row's number.
    pub line: u64,
    /// The faulty column, or the place in a JSON line, such as `phones[1]`.
    pub column: Cow<'static, str>,
    /// The reason, as a code.
    pub reason: &'static str,
}

/// What was found out about an input while it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputRead {
    /// The file, as it is shown to people.
    pub file: String,
    /// Its format.
    pub format: &'static str,
    /// The encoding of a text file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// What separates the columns of a CSV.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    /// The sheet of a workbook that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// The other sheets of the workbook, which were not read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_sheets: Vec<String>,
    /// Whether it holds the rejected rows of an earlier import.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub holds_rejects: bool,
    /// Its columns that were not used.
    #[serde(skip)]
    pub columns_not_used: Vec<String>,
    /// For columns that it does not have, the header that probably means them.
    #[serde(skip)]
    pub suggested_mapping: Vec<(&'static str, String)>,
}

/// What was accepted and may be wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What it is, as a code.
    pub warning: &'static str,
    /// How many values.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<Line>,
    /// The countries whose numbers they probably are, in two letters, the likeliest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub countries: Vec<String>,
}

impl Warning {
    /// Phone numbers without `+` are probably not of the country that was chosen for them.
    pub const OTHER_COUNTRY: &'static str = "other_country";

    /// A phone number has no `+` and begins with the country code of its region.
    pub const COUNTRY_CODE: &'static str = "country_code_without_plus";
}

/// A line of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The file, as it is shown to people.
    pub file: String,
    /// The line on which the row begins, or the row's number.
    pub line: u64,
}
