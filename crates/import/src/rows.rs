//! A row of any format: as it was written, and the profile with its details that it means.

use contactd_core::{Networks, RawRecord, Record, RecordError};
use csv::ByteRecord;

use crate::{COLUMNS, csv_rows, json_rows};

/// How much of a file is read at a time.
pub(crate) const BUFFER: usize = 256 * 1024;

/// Longest row that is read. More in one piece is not a row but a file of another kind.
pub(crate) const MAX_ROW_BYTES: u64 = 16 << 20;

/// What applies where a row says nothing, and what the columns are called.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// The source of rows that do not name one.
    pub source: Option<String>,
    /// The country of phone numbers without `+` whose row names none.
    pub region: Option<String>,
    /// Headers of columns that are called differently in the files: the column and its header.
    pub mapping: Vec<(String, String)>,
}

impl Defaults {
    /// The header that was given for a column.
    pub(crate) fn mapped(&self, column: &str) -> Option<&str> {
        self.mapping.iter().find(|(name, _)| name == column).map(|(_, header)| header.as_str())
    }
}

/// What all rows of a file have in common.
pub(crate) struct Layout {
    /// The file, as people know it.
    pub(crate) file: String,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    /// Fields below a header.
    Fields(csv_rows::Columns),
    /// A JSON object each.
    Json,
}

/// One row as it was written.
pub struct Row {
    /// The line it begins on, or its number.
    pub line: u64,
    /// What is in it.
    pub content: Content,
}

/// The content of a row.
pub enum Content {
    /// Fields of a CSV or Parquet file.
    Fields(ByteRecord),
    /// A JSON object.
    Json(Vec<u8>),
}

impl Row {
    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        match &self.content {
            Content::Fields(fields) => fields.as_slice().len(),
            Content::Json(text) => text.len(),
        }
    }

    /// The profile and details that the row means.
    pub(crate) fn record(
        &self,
        layout: &Layout,
        networks: &Networks,
        defaults: &Defaults,
    ) -> Result<Record, RecordError> {
        match (&self.content, &layout.shape) {
            (Content::Fields(fields), Shape::Fields(columns)) => columns.record(fields, networks, defaults),
            (Content::Json(text), _) => json_rows::record(text, networks, defaults),
            (Content::Fields(_), Shape::Json) => Err(RecordError { column: "row", reason: "not_json" }),
        }
    }
}

/// A number without a fraction as people write it: `90.0` is 90, and the zero behind the point is no digit of a phone
/// number.
pub(crate) fn whole(number: Option<f64>) -> Option<String> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    number.and_then(|number| whole_below(number, EXACT))
}

/// The same for numbers that are exact below a limit only.
pub(crate) fn whole_below(number: f64, exact: f64) -> Option<String> {
    (number.fract() == 0.0 && number.abs() < exact).then(|| format!("{number:.0}"))
}

/// The columns' texts as a record.
pub(crate) fn raw<'a>(texts: [&'a str; COLUMNS.len()], defaults: &'a Defaults) -> RawRecord<'a> {
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
    ] = texts;
    let source =
        if source.trim().is_empty() { defaults.source.as_deref().unwrap_or_default() } else { source };
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
