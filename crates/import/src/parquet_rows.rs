//! Rows of a Parquet file: it has the same columns as a CSV, and null is empty.

use std::fs::File;

use contactd_core::{Timestamp, panics};
use csv::ByteRecord;
use parquet::basic::{Compression, LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;

use crate::FileError;
use crate::header::Columns;
use crate::rows::{Content, Defaults, Row, whole, whole_below};

/// A file being read.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    /// Which columns hold nanoseconds, which the Parquet reader returns as plain numbers.
    nanos: Vec<bool>,
    number: u64,
}

impl ParquetRows {
    /// Finds the columns in the file's schema.
    pub(crate) fn read(file: File, defaults: &Defaults) -> Result<(Self, Columns), FileError> {
        let mut is_unpackable = true;
        let opened = unless_it_panics(|| {
            let reader = SerializedFileReader::new(file)?;
            let compressions = reader.metadata().row_groups().iter().flat_map(|group| group.columns());
            is_unpackable = compressions
                .map(|column| column.compression())
                .all(|packed| !matches!(packed, Compression::BROTLI(_) | Compression::LZO));
            let schema = reader.metadata().file_metadata().schema().clone();
            let nanos = schema.get_fields().iter().map(|field| {
                let logical = field.get_basic_info().logical_type_ref();
                matches!(logical, Some(LogicalType::Timestamp(timestamp)) if timestamp.unit == TimeUnit::NANOS)
            });
            let nanos = nanos.collect();
            let header: ByteRecord = schema.get_fields().iter().map(|field| field.name()).collect();
            Ok((Self { rows: reader.into_iter(), nanos, number: 0 }, header))
        });
        let (rows, header) =
            opened.ok_or_else(|| FileError::unusable("this is not a complete Parquet file"))?;
        if !is_unpackable {
            return Err(FileError::unusable(
                "its columns use an unsupported compression; write it with snappy, zstd, gzip or lz4",
            ));
        }
        Ok((rows, Columns::find(header, defaults)?))
    }

    /// The next row; its line is its number in the file.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        self.number += 1;
        // Turning fields into text is part of it: the reader's own formatting panics on times out of range.
        let nanos = &self.nanos;
        let rows = &mut self.rows;
        let fields = unless_it_panics(|| {
            let Some(row) = rows.next().transpose()? else { return Ok(None) };
            let mut fields = ByteRecord::new();
            for ((_, field), &is_nanos) in row.get_column_iter().zip(nanos) {
                fields.push_field(text(field, is_nanos).as_bytes());
            }
            Ok(Some(fields))
        });
        let fields = fields.ok_or_else(|| {
            let number = self.number;
            FileError::unusable(format!(
                "row {number} is damaged, or holds text that is not UTF-8; nothing was loaded"
            ))
        })?;
        let Some(fields) = fields else { return Ok(None) };
        Ok(Some(Row { line: self.number, content: Content::Fields(fields) }))
    }
}

/// Runs the Parquet reader; none if it fails, or panics, as it may on a damaged file. Its errors are dropped
/// because they quote from the file.
fn unless_it_panics<T>(read: impl FnOnce() -> parquet::errors::Result<T>) -> Option<T> {
    panics::expected(read)?.ok()
}

/// A decimal without its fraction if that is zero.
fn without_fraction(text: String) -> String {
    match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// A field as the text that it would be in a CSV.
fn text(field: &Field, is_nanos: bool) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Bytes(bytes) => bytes.as_utf8().unwrap_or("\u{FFFD}").to_owned(),
        Field::Date(days) => Timestamp::start_of_day(i64::from(*days)).to_string(),
        Field::TimestampMillis(millis) => Timestamp::from_millis(*millis).to_string(),
        Field::TimestampMicros(micros) => Timestamp::from_millis(micros.div_euclid(1_000)).to_string(),
        Field::Long(nanos) if is_nanos => Timestamp::from_millis(nanos.div_euclid(1_000_000)).to_string(),
        Field::Double(number) => whole(Some(*number)).unwrap_or_else(|| number.to_string()),
        // Too small for a phone number: a large value gets an exponent, so that it is not read as one.
        Field::Float(number) => {
            whole_below((*number).into(), 16_777_216.0).unwrap_or_else(|| format!("{number:e}"))
        }
        Field::Float16(number) => {
            whole_below((*number).into(), 2_048.0).unwrap_or_else(|| format!("{:e}", f32::from(*number)))
        }
        Field::Decimal(_) => without_fraction(field.to_string()),
        other => other.to_string(),
    }
}
