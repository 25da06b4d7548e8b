//! The columns of a Parquet file, with the first values of each.

use std::fs::File;

use csv::ByteRecord;
use parquet::file::reader::FileReader;
use parquet::record::reader::RowIter;
use parquet::schema::types::{Type, TypePtr};

use crate::FileError;
use crate::ReadOptions;
use crate::header::Columns;
use crate::parquet_memory::{BATCH, BoundedFile, unless_it_panics};
use crate::parquet_rows::{is_nanos, is_plain, text};
use crate::sample::{SAMPLES, short};

/// The place of a column, and its first values.
type Samples = (usize, Vec<String>);

/// The columns of a file, whether an import needs others or not, and the first values of the `wanted` ones. A
/// column whose values cannot be read has none: an import may not need it.
pub(crate) fn sampled(
    file: File,
    options: &ReadOptions,
    rows: usize,
    wanted: impl Fn(&Columns) -> Vec<usize>,
) -> Result<(Columns, Vec<Samples>), FileError> {
    let file = BoundedFile::open(file, true)?;
    let schema = file.metadata().file_metadata().schema_descr().root_schema().clone();
    let fields = schema.get_fields();
    let header: ByteRecord = fields.iter().map(|field| field.name()).collect();
    let columns = Columns::locate(header, options, false)?;
    let wanted = wanted(&columns).into_iter().filter_map(|place| {
        let field = fields.get(place).filter(|field| is_plain(field))?;
        Some((place, values(&file, schema.name(), field, rows).unwrap_or_default()))
    });
    let samples = wanted.collect();
    Ok((columns, samples))
}

/// The first values of a column that are not empty, as they are shown. Only these are kept: a page may repeat a long text.
fn values(file: &BoundedFile, schema: &str, field: &TypePtr, rows: usize) -> Option<Vec<String>> {
    unless_it_panics(|| {
        let projection = Type::group_type_builder(schema).with_fields(vec![field.clone()]).build()?;
        let is_nanos = is_nanos(field);
        let mut values = Vec::new();
        for row in RowIter::from_file(Some(projection), file)?.with_batch_size(BATCH).take(rows) {
            let texts =
                row?.get_column_iter().map(|(_, field)| short(&text(field, is_nanos))).collect::<String>();
            if !texts.is_empty() {
                values.push(texts);
            }
            if values.len() == SAMPLES {
                break;
            }
        }
        Ok(values)
    })
}
