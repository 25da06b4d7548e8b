//! Files that somebody uploads to import them: what they hold, and what an import would do with their first rows.
//!
//! Samples and previewed values are personal data from the uploader's own file. They are in the returned values only, never in
//! an error or in a log.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use contactd_core::{DateFormat, RowRules};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Encoding;

/// A file that was uploaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedFile {
    /// Where it is.
    pub path: PathBuf,
    /// What its owner called it. Messages use this name.
    pub name: String,
}

/// How the rows of files are read: defaults for what a row does not contain, and the headers of the columns.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The source of rows without one.
    pub source: Option<String>,
    /// The country of phone numbers without `+`, for rows without a region.
    pub region: Option<String>,
    /// Columns with another header in the files: the name of a [`Field`](crate::Field) and that header.
    pub mapping: Vec<(String, String)>,
    /// Use the columns in `mapping` and no others, also if they have the right name.
    pub only_mapped: bool,
    /// What separates the columns of CSV files, if it is not to be detected.
    pub delimiter: Option<u8>,
    /// The format of dates that are not RFC 3339.
    pub date_format: Option<DateFormat>,
    /// Reject details without a basis.
    pub needs_basis: bool,
    /// The encoding of text files, if it is not to be detected.
    pub encoding: Option<Encoding>,
    /// The sheet of workbooks, if it is not the first one.
    pub sheet: Option<String>,
}

impl ReadOptions {
    /// How rows are read.
    pub fn rules(&self) -> RowRules<'_> {
        RowRules {
            region: self.region.as_deref(),
            dates: self.date_format.as_ref(),
            needs_basis: self.needs_basis,
        }
    }

    /// The header that a column is mapped to, if any.
    pub fn mapped(&self, column: &str) -> Option<&str> {
        self.mapping.iter().find(|(name, _)| name == column).map(|(_, header)| header.as_str())
    }

    /// The header that a column is mapped to, or its own name; none if it is not to be used.
    pub fn header_of<'a>(&'a self, column: &'a str) -> Option<&'a str> {
        self.mapped(column).or((!self.only_mapped).then_some(column))
    }
}

/// What a file holds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileShape {
    /// `csv`, `jsonl`, `parquet` or `xlsx`.
    pub format: &'static str,
    /// The encoding of a text file.
    pub encoding: Option<&'static str>,
    /// What separates the columns of a CSV.
    pub delimiter: Option<char>,
    /// The sheet of a workbook that is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sheet: Option<String>,
    /// All sheets of the workbook; empty for another file.
    pub sheets: Vec<String>,
    /// Empty for JSON lines with lists of details, whose fields cannot be mapped.
    pub columns: Vec<FileColumn>,
    /// For fields that no column has the name of: the column that probably means them.
    pub suggested_mapping: BTreeMap<&'static str, String>,
}

/// A column of a file.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "ColumnShown")]
pub struct FileColumn {
    #[expect(
        missing_docs,
        reason = "the name says it, and a doc comment would be a description on the wire"
    )]
    pub name: String,
    /// The field that it is, if its name says so.
    pub field: Option<&'static str>,
    /// The field that it probably is, if its name does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested: Option<&'static str>,
    /// Its first values.
    pub samples: Vec<String>,
}

/// The first rows of a file, and what an import would do with them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The rows.
    pub rows: Vec<PreviewedRow>,
    /// The countries, in two letters, of which numbers without `+` probably are, if not of the chosen one.
    pub other_countries: Vec<String>,
}

/// A row of a file, and what an import would do with it.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "RowShown")]
#[expect(missing_docs, reason = "the types say it, and doc comments would be descriptions on the wire")]
pub struct PreviewedRow {
    /// The line on which it begins, or in a Parquet file its number.
    pub line: u64,
    /// What it has in each field.
    pub values: BTreeMap<&'static str, String>,
    /// What would be stored: the canonical URL, numbers in E.164 form, dates. Empty if nothing would be.
    pub stored: BTreeMap<&'static str, String>,
    pub verdict: Verdict,
    pub reasons: Vec<NotLoaded>,
    /// The digest by which the journal names the profile, if the row can be read.
    #[serde(skip)]
    pub digest: Option<[u8; 16]>,
}

/// What an import would do with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[expect(missing_docs, reason = "the names say it, and doc comments would be descriptions on the wire")]
pub enum Verdict {
    #[serde(rename = "loaded")]
    Loaded,
    #[serde(rename = "loaded in part")]
    LoadedInPart,
    #[serde(rename = "rejected")]
    Rejected,
    #[serde(rename = "opted out")]
    OptedOut,
}

/// Why a value would not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ReasonShown")]
pub struct NotLoaded {
    #[expect(
        missing_docs,
        reason = "the name says it, and a doc comment would be a description on the wire"
    )]
    pub column: Cow<'static, str>,
    /// A code.
    pub reason: &'static str,
}

impl NotLoaded {
    /// The person, number or address has opted out.
    pub const OPTED_OUT: &'static str = "opted_out";
}

impl fmt::Debug for FileColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileColumn")
            .field("name", &self.name)
            .field("field", &self.field)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PreviewedRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreviewedRow")
            .field("line", &self.line)
            .field("verdict", &self.verdict)
            .field("reasons", &self.reasons)
            .finish_non_exhaustive()
    }
}
