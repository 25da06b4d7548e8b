//! Uploaded files: what they hold, and what an import would do with their first rows.
//!
//! Everything is read and checked by the code of an import. Only the first part of a file is read, however long it is.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::slice;
use std::sync::Arc;

use contactd_core::{DiskBudget, SuppressionList};

use crate::columns::{COLUMNS, REJECTED, REJECTED_ROW};
use crate::csv_rows::CsvRows;
use crate::header::Columns;
use crate::input::{Opening, Reach, Recognized, Rows};
use crate::json_rows::{self, JsonRows};
use crate::layout::Layout;
use crate::read_row::ReadRow;
use crate::rows::{Content, MAX_ROW_BYTES, Row};
use crate::sample::{SAMPLES, short};
use crate::seen::Seen;
use crate::suppressed::leave_out;
use crate::{
    FileColumn, FileError, FileShape, Files, Input, InputRead, NotLoaded, PreviewedRow, ReadOptions, Rejects,
    RowChecks, UploadedFile, Verdict, parquet_samples,
};

/// In how many rows values of a column are looked for.
const SAMPLED_ROWS: usize = 100;

/// How many columns are listed, besides those of the import format, and how long their names may be.
const MOST_COLUMNS: usize = 2_000;
const MAX_NAME: usize = 1_000;

/// Reads uploaded files.
#[derive(Clone, Debug)]
pub struct UploadedFiles {
    disk: DiskBudget,
}

impl UploadedFiles {
    /// What does not fit into memory is written to the directory of `disk`, which has to be as private as the data.
    pub fn new(disk: DiskBudget) -> Self {
        Self { disk }
    }

    /// The room that they share with whatever else is written in large files.
    pub fn disk(&self) -> &DiskBudget {
        &self.disk
    }

    /// How the first rows of a file are read.
    fn opening<'a>(&'a self, options: &'a ReadOptions) -> Opening<'a> {
        Opening { format: None, options, disk: &self.disk, reach: Reach::Start }
    }

    fn start(&self, file: &UploadedFile, options: &ReadOptions) -> Result<(Layout, Rows), FileError> {
        refuse_mapping(options)?;
        self.opening(options).open((0, &file.path, &file.name), &Arc::default())
    }

    /// What a file holds. Reads only its first part.
    pub fn describe(&self, file: &UploadedFile) -> Result<FileShape, FileError> {
        let options = ReadOptions::default();
        let recognized = self.opening(&options).recognize_file(&file.path, &file.name);
        let shape =
            recognized.and_then(|recognized| shape(recognized, &options).map_err(|e| e.of(&file.name)));
        shape.map_err(refused)
    }

    /// What an import would do with the first rows. Returns at most `rows`, and fewer if they are very long. Reads only the first part
    /// of the file, with the code of an import.
    pub fn preview(
        &self,
        file: &UploadedFile,
        options: &ReadOptions,
        checks: &RowChecks<'_>,
        rows: usize,
    ) -> Result<Vec<PreviewedRow>, FileError> {
        let (layout, mut from) = self.start(file, options).map_err(refused)?;
        let mut previewed = Vec::new();
        let each = |row: Row| previewed.push(preview_row(&layout, &row, options, checks));
        first_rows(rows, || from.next(), each).map_err(|error| refused(error.of(&file.name)))?;
        Ok(previewed)
    }

    /// The rows of a file, for an import. Rows of which a value is rejected are written to `rejects`, a file that does not exist yet;
    /// it is made only if there are any. Fails at once if the columns that an import needs are missing.
    pub fn open(
        &self,
        file: &UploadedFile,
        options: &ReadOptions,
        rejects: Option<&Path>,
    ) -> Result<Files, FileError> {
        self.start(file, options).map_err(refused)?;
        let rejects = match rejects {
            Some(path) => Rejects::to(Some(path.to_owned()), slice::from_ref(&file.path)).map_err(refused)?,
            None => Rejects::nowhere(),
        };
        let inputs = vec![Input::Uploaded(file.clone())];
        Ok(Files::new(inputs, None, options.clone(), self.disk.clone(), rejects))
    }
}

/// An error about an uploaded file, with what to do about it.
fn refused(error: FileError) -> FileError {
    let advice = match error.inner() {
        FileError::MissingColumn { missing, .. } | FileError::NotMapped { missing, .. } => {
            format!("; map {missing} to one of them")
        }
        FileError::NoSource => "; name a source for the file".to_owned(),
        _ => return error,
    };
    FileError::Advised { error: Box::new(error), advice }
}

fn refuse_mapping(options: &ReadOptions) -> Result<(), FileError> {
    let mut mapped = HashSet::new();
    for (column, _) in &options.mapping {
        let Some(column) = COLUMNS.iter().find(|name| *name == column) else {
            return Err(FileError::unusable(format!(
                "the mapping names a field that an import does not have; the fields are {}",
                COLUMNS.join(", ")
            )));
        };
        if !mapped.insert(column) {
            return Err(FileError::unusable(format!("the mapping names {column} twice; name it once")));
        }
    }
    Ok(())
}

/// Hands over the first rows, fewer if they are very long.
fn first_rows(
    most: usize,
    mut next: impl FnMut() -> Result<Option<Row>, FileError>,
    mut each: impl FnMut(Row),
) -> Result<(), FileError> {
    let mut length = 0;
    for _ in 0..most {
        let Some(row) = next()? else { break };
        length += row.bytes() as u64;
        each(row);
        if length >= MAX_ROW_BYTES {
            break;
        }
    }
    Ok(())
}

fn shape(recognized: Recognized, options: &ReadOptions) -> Result<FileShape, FileError> {
    match recognized {
        Recognized::Csv { input, dialect, encoding, .. } => {
            let (mut rows, header) = CsvRows::open_as(input, dialect)?;
            let columns = Columns::locate(header, options, true)?;
            let mut listed = listed(&columns);
            first_rows(
                SAMPLED_ROWS,
                || rows.read_row(),
                |row| {
                    if let Content::Fields(fields) = row.content {
                        for (place, column) in &mut listed {
                            add_sample(column, || Some(columns.text(fields.get(*place)?)));
                        }
                    }
                },
            )?;
            let delimiter = Some(dialect.delimiter.into());
            Ok(of_columns(("csv", Some(encoding), delimiter), &columns, listed))
        }
        Recognized::Json { input, encoding } => json_shape(JsonRows::read(input), encoding, options),
        Recognized::Parquet(file) => {
            let places = |columns: &Columns| listed(columns).into_iter().map(|(place, _)| place).collect();
            let (columns, samples) = parquet_samples::sampled(file, options, SAMPLED_ROWS, places)?;
            let mut listed = listed(&columns);
            for (place, values) in samples {
                if let Some((_, column)) = listed.iter_mut().find(|(at, _)| *at == place) {
                    column.samples = values;
                }
            }
            Ok(of_columns(("parquet", None, None), &columns, listed))
        }
    }
}

/// The format, the encoding and the delimiter of a file.
type How = (&'static str, Option<&'static str>, Option<char>);

fn of_columns(how: How, columns: &Columns, listed: Vec<(usize, FileColumn)>) -> FileShape {
    let (format, encoding, delimiter) = how;
    let columns_of = listed.into_iter().map(|(_, column)| column).collect();
    let suggested_mapping = columns.suggestions().into_iter().collect();
    FileShape { format, encoding, delimiter, columns: columns_of, suggested_mapping }
}

/// The columns of a file that are listed, without samples, each with its place.
fn listed(columns: &Columns) -> Vec<(usize, FileColumn)> {
    let mut left = MOST_COLUMNS;
    let mut is_listed = |name: &str, field: Option<_>| {
        let is_listed = name.len() <= MAX_NAME && (field.is_some() || left > 0);
        left = left.saturating_sub(usize::from(is_listed));
        is_listed
    };
    let all = columns.all().filter(|(_, name, field)| is_listed(name, *field));
    all.map(|(place, name, field)| (place, FileColumn { name, field, samples: Vec::new() })).collect()
}

/// Adds a value to the samples of a column, if there are not enough.
fn add_sample(column: &mut FileColumn, value: impl FnOnce() -> Option<String>) {
    if column.samples.len() < SAMPLES
        && let Some(value) = value()
        && !value.trim().is_empty()
    {
        column.samples.push(short(&value));
    }
}

fn json_shape(
    mut rows: JsonRows,
    encoding: &'static str,
    options: &ReadOptions,
) -> Result<FileShape, FileError> {
    let mut seen = Seen::default();
    let mut is_nested = false;
    let mut columns: BTreeMap<String, FileColumn> = BTreeMap::new();
    first_rows(
        SAMPLED_ROWS,
        || rows.next(),
        |row| {
            let Content::Json(text) = row.content else { return };
            // Other lines are rejected one by one.
            let Ok(object) = json_rows::object(&text) else { return };
            json_rows::note_fields(&object, options, &mut seen);
            is_nested |= json_rows::is_nested(&object);
            for (name, value) in object {
                let is_about_rejects = name == REJECTED_ROW || REJECTED.contains(&name.as_str());
                let is_new = !columns.contains_key(&name);
                if is_about_rejects || is_new && (columns.len() >= MOST_COLUMNS || name.len() > MAX_NAME) {
                    continue;
                }
                let field = COLUMNS.into_iter().find(|column| *column == name);
                let column =
                    columns.entry(name.clone()).or_insert(FileColumn { name, field, samples: Vec::new() });
                add_sample(column, || Some(json_rows::shown(&value)));
            }
        },
    )?;
    let mut about = InputRead::default();
    seen.report(&mut about);
    let mut columns: Vec<FileColumn> = if is_nested { Vec::new() } else { columns.into_values().collect() };
    // JSON objects have no order: those of the import format come first.
    let place = |column: &FileColumn| COLUMNS.iter().position(|name| column.field == Some(name));
    columns.sort_by_key(|column| place(column).unwrap_or(COLUMNS.len()));
    Ok(FileShape {
        format: "jsonl",
        encoding: Some(encoding),
        delimiter: None,
        columns,
        suggested_mapping: about.suggested_mapping.into_iter().collect(),
    })
}

/// What an import would do with a row.
fn preview_row(layout: &Layout, row: &Row, options: &ReadOptions, checks: &RowChecks<'_>) -> PreviewedRow {
    let mut values: BTreeMap<&'static str, String> = BTreeMap::new();
    for (column, text) in layout.texts(row, options) {
        let text = short(&text);
        if !text.is_empty() {
            let value = values.entry(COLUMNS[column]).or_default();
            // A JSON line may have a number of its own and a list of others.
            *value = if value.is_empty() { text } else { short(&format!("{value}, {text}")) };
        }
    }
    let read = layout.read(row, checks.networks, options, &mut Seen::default());
    let digest = read.record.as_ref().map(|record| checks.suppressions.profile_digest(&record.profile).0);
    let (verdict, reasons) = judge(read, checks.suppressions);
    PreviewedRow { line: row.line, values, verdict, reasons, digest }
}

fn judge(read: ReadRow, suppressions: &SuppressionList) -> (Verdict, Vec<NotLoaded>) {
    let faults = read.faults.into_iter();
    let mut reasons: Vec<NotLoaded> =
        faults.map(|fault| NotLoaded { column: fault.column, reason: fault.reason }).collect();
    let Some(mut record) = read.record else { return (Verdict::Rejected, reasons) };
    let left_out = leave_out(&mut record, suppressions);
    if record.details.is_empty() {
        return (Verdict::OptedOut, reasons);
    }
    for kind in left_out {
        let reason = NotLoaded { column: kind.name().into(), reason: NotLoaded::OPTED_OUT };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    (if reasons.is_empty() { Verdict::Loaded } else { Verdict::LoadedInPart }, reasons)
}
