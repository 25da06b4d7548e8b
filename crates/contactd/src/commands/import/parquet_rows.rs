//! Rows of a Parquet file: the flat names as columns, null is empty.

use std::fs::File;

use anyhow::Context;
use contactd_core::Timestamp;
use csv::ByteRecord;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use super::csv_rows::Columns;
use super::rows::{Content, Defaults, Row};

/// A file being read.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    number: u64,
}

impl ParquetRows {
    /// Finds the columns in the file's schema.
    pub(crate) fn read(file: File, defaults: Defaults<'_>) -> anyhow::Result<(Self, Columns)> {
        let reader = SerializedFileReader::new(file).context("this is not a whole Parquet file")?;
        let schema = reader.metadata().file_metadata().schema().clone();
        let header: ByteRecord = schema.get_fields().iter().map(|field| field.name()).collect();
        let columns = Columns::find(header, defaults)?;
        Ok((Self { rows: reader.into_iter(), number: 0 }, columns))
    }

    /// The next row; its line is its number in the file.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Row>> {
        let Some(row) = self.rows.next() else { return Ok(None) };
        let row = row.context("the file cannot be read on")?;
        self.number += 1;
        let fields: ByteRecord = row.get_column_iter().map(|(_, field)| text(field)).collect();
        Ok(Some(Row { line: self.number, content: Content::Fields(fields) }))
    }
}

/// A field as the text that a CSV would have there.
fn text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => bytes.as_utf8().unwrap_or("\u{FFFD}").to_owned(),
        Field::Date(days) => Timestamp::start_of_day(i64::from(*days)).to_string(),
        Field::TimestampMillis(millis) => Timestamp::from_millis(*millis).to_string(),
        Field::TimestampMicros(micros) => Timestamp::from_millis(micros.div_euclid(1_000)).to_string(),
        other => other.to_string(),
    }
}
