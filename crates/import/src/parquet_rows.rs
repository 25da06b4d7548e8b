//! Rows of a Parquet file: it has the same columns as a CSV, and null is empty. Only the columns that are used are read.

use std::fs::File;
use std::sync::Arc;

use contactd_core::Timestamp;
use csv::ByteRecord;
use parquet::basic::{LogicalType, Repetition, TimeUnit};
use parquet::file::reader::FileReader;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;

use crate::FileError;
use crate::parquet_memory::{BATCH, BoundedFile, Pages, damaged, unless_it_panics};
use crate::rows::{Content, Row, whole, whole_below};

/// The maximum length of a row. A small file can repeat a long text in every row.
const MAX_ROW: usize = 1 << 20;

/// A file being read.
pub(crate) struct ParquetRows {
    rows: RowIter<'static>,
    pages: Arc<Pages>,
    /// Which columns hold nanoseconds, which the Parquet reader returns as plain numbers.
    nanos: Vec<bool>,
    number: u64,
}

impl ParquetRows {
    /// Reads the names of the columns. The rows have those that `used` chooses by their places, in ascending order. `is_start`:
    /// whether only the first rows will be read.
    pub(crate) fn read(
        file: File,
        is_start: bool,
        used: impl FnOnce(&ByteRecord) -> Result<Vec<usize>, FileError>,
    ) -> Result<(Self, ByteRecord), FileError> {
        let file = BoundedFile::open(file, is_start)?;
        let schema = file.metadata().file_metadata().schema_descr().root_schema().clone();
        let fields = schema.get_fields();
        let header: ByteRecord = fields.iter().map(|field| field.name()).collect();
        let used: Vec<_> = used(&header)?.into_iter().filter_map(|place| fields.get(place)).collect();
        if let Some(group) = used.iter().find(|field| !is_plain(field)) {
            return Err(FileError::unusable(format!(
                "the column {} holds lists or groups; write one value for each row in it",
                group.name()
            )));
        }
        let pages = file.pages();
        let nanos = used.iter().map(|field| is_nanos(field)).collect();
        let projection =
            Type::group_type_builder(schema.name()).with_fields(used.into_iter().cloned().collect());
        let rows = unless_it_panics(|| {
            let rows = RowIter::from_file_into(Box::new(file)).project(Some(projection.build()?))?;
            Ok(rows.with_batch_size(BATCH))
        });
        let rows = rows.ok_or_else(damaged)?;
        Ok((Self { rows, pages, nanos, number: 0 }, header))
    }

    /// The next row; its line is its number in the file.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        self.number += 1;
        let number = self.number;
        // Turning fields into text is part of it: the reader's own formatting panics on times out of range.
        let nanos = &self.nanos;
        let rows = &mut self.rows;
        let fields = unless_it_panics(|| {
            let Some(row) = rows.next().transpose()? else { return Ok(None) };
            let mut fields = ByteRecord::new();
            for ((_, field), &is_nanos) in row.get_column_iter().zip(nanos) {
                fields.push_field(text(field, is_nanos).as_bytes());
                if fields.as_slice().len() > MAX_ROW {
                    break;
                }
            }
            Ok(Some(fields))
        });
        let fields = fields.ok_or_else(|| {
            let damaged =
                || format!("row {number} is damaged, or holds text that is not UTF-8; nothing was loaded");
            self.pages.refusal().unwrap_or_else(|| FileError::unusable(damaged()))
        })?;
        let Some(fields) = fields else { return Ok(None) };
        if fields.as_slice().len() > MAX_ROW {
            return Err(FileError::unusable(format!(
                "row {number} is longer than 1 MiB; is this a file of contact records?"
            )));
        }
        Ok(Some(Row { line: number, content: Content::Fields(fields) }))
    }
}

/// Whether a column has one value, or none, in each row.
pub(crate) fn is_plain(field: &Type) -> bool {
    let info = field.get_basic_info();
    field.is_primitive() && info.has_repetition() && info.repetition() != Repetition::REPEATED
}

pub(crate) fn is_nanos(field: &Type) -> bool {
    let logical = field.get_basic_info().logical_type_ref();
    matches!(logical, Some(LogicalType::Timestamp(timestamp)) if timestamp.unit == TimeUnit::NANOS)
}

/// A decimal without its fraction if that is zero.
fn without_fraction(text: String) -> String {
    match text.split_once('.') {
        Some((whole, rest)) if rest.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

/// A field as the text that it would be in a CSV.
pub(crate) fn text(field: &Field, is_nanos: bool) -> String {
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
