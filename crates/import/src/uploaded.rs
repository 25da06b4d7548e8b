//! Uploaded files: what they hold, and what an import would do with their first rows.
//!
//! Everything is read and checked by the code of an import. Only the first part of a file is read, however long it is.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use contactd_core::{DiskBudget, Networks, Record, SuppressionList};

use crate::columns::{COLUMNS, REJECTED, REJECTED_ROW};
use crate::countries::Countries;
use crate::header::Columns;
use crate::input::{Opened, Opening, Reach, Recognized, Rows};
use crate::json_rows;
use crate::layout::{Layout, Written};
use crate::read_row::ReadRow;
use crate::rows::{Content, MAX_ROW_BYTES, Row};
use crate::sample::{SAMPLES, short};
use crate::seen::Seen;
use crate::suppressed::leave_out;
use crate::xlsx::Workbook;
use crate::{
    Field, FileColumn, FileError, FileShape, Files, Input, InputRead, NotLoaded, Preview, PreviewedRow,
    ReadOptions, Rejects, RowChecks, SubjectList, UploadedFile, Verdict, parquet_samples,
};

/// In how many rows values of a column are looked for.
const SAMPLED_ROWS: usize = 100;

/// How many sheets are tried.
const MOST_SHEETS: usize = 20;

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
        options.check_mapping()?;
        self.opening(options).open((0, &file.path, &file.name), &Arc::default())
    }

    /// What a file holds. Reads only its first part. If no sheet of a workbook is chosen and the first one cannot be used, because it
    /// is empty or a cover, this is about the first one that can.
    pub fn describe(&self, file: &UploadedFile, options: &ReadOptions) -> Result<FileShape, FileError> {
        let first = self.describe_sheet(file, options);
        if first.is_ok() || options.sheet.is_some() {
            return first;
        }
        let sheet = |sheet| ReadOptions { sheet: Some(sheet), ..options.clone() };
        let mut others = self.sheets(file, options).into_iter().take(MOST_SHEETS).map(sheet);
        others.find_map(|options| self.describe_sheet(file, &options).ok()).map_or(first, Ok)
    }

    fn describe_sheet(&self, file: &UploadedFile, options: &ReadOptions) -> Result<FileShape, FileError> {
        let opening = self.opening(options);
        let recognized = opening.recognize_file(&file.path, &file.name)?;
        shape(opening, recognized).map_err(|error| refused(error.of(&file.name)))
    }

    /// The sheets of a file, if it is a workbook.
    fn sheets(&self, file: &UploadedFile, options: &ReadOptions) -> Vec<String> {
        match self.opening(options).recognize_file(&file.path, &file.name) {
            Ok(Recognized::Xlsx(book)) => Workbook::open(book).map(|book| book.sheets()).unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// The people, numbers and addresses that a list names.
    pub fn subjects(
        &self,
        list: Box<dyn Read>,
        options: &ReadOptions,
        networks: &Networks,
    ) -> Result<SubjectList, FileError> {
        SubjectList::read(list, options, &self.disk, networks)
    }

    /// What an import would do with the first rows. Returns at most `rows`, and fewer if they are very long. Reads only the first part
    /// of the file, with the code of an import.
    pub fn preview(
        &self,
        file: &UploadedFile,
        options: &ReadOptions,
        checks: &RowChecks<'_>,
        rows: usize,
    ) -> Result<Preview, FileError> {
        let (layout, mut from) = self.start(file, options).map_err(refused)?;
        let (mut previewed, mut countries) = (Vec::new(), Countries::default());
        let each = |row: Row| {
            layout.note_countries(&row, options, &mut countries);
            previewed.push(preview_row(&layout, &row, options, checks));
        };
        first_rows(rows, || from.next(), each).map_err(|error| refused(error.of(&file.name)))?;
        let warning = options.region.as_deref().and_then(|chosen| countries.warning(chosen));
        Ok(Preview {
            rows: previewed,
            other_countries: warning.map(|warning| warning.countries).unwrap_or_default(),
        })
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
            Some(path) => Rejects::to(Some(path.to_owned()), slice::from_ref(&file.path), Vec::new())
                .map_err(refused)?,
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

fn shape(opening: Opening<'_>, recognized: Recognized) -> Result<FileShape, FileError> {
    let options = opening.options;
    if let Recognized::Parquet(file) = recognized {
        let places = |columns: &Columns| listed(columns).into_iter().map(|(place, _)| place).collect();
        let (columns, samples) = parquet_samples::sampled(file, options, SAMPLED_ROWS, places)?;
        let mut listed = listed(&columns);
        for (place, values) in samples {
            if let Some((_, column)) = listed.iter_mut().find(|(at, _)| *at == place) {
                column.samples = values;
            }
        }
        return Ok(of_columns(&Written::Parquet, &columns, listed));
    }
    let is_csv = matches!(recognized, Recognized::Csv { .. });
    let Opened { written, header, mut rows } = opening.read_header(recognized, |_| Ok(Vec::new()))?;
    let Some(header) = header else { return json_shape(rows, &written, options) };
    let columns = Columns::locate(header, options, is_csv)?;
    let mut listed = listed(&columns);
    first_rows(
        SAMPLED_ROWS,
        || rows.next(),
        |row| {
            if let Content::Fields(fields) = row.content {
                for (place, column) in &mut listed {
                    add_sample(column, || Some(columns.text(fields.get(*place)?)));
                }
            }
        },
    )?;
    Ok(of_columns(&written, &columns, listed))
}

fn of_columns(written: &Written, columns: &Columns, mut listed: Vec<(usize, FileColumn)>) -> FileShape {
    let suggested = columns.suggestions();
    for (_, column) in listed.iter_mut().filter(|(_, column)| column.field.is_none()) {
        column.suggested =
            suggested.iter().find(|(_, header)| *header == column.name).map(|(field, _)| *field);
    }
    file_shape(written, listed.into_iter().map(|(_, column)| column).collect(), suggested)
}

fn file_shape(
    written: &Written,
    columns: Vec<FileColumn>,
    suggested: Vec<(&'static str, String)>,
) -> FileShape {
    let InputRead { format, encoding, delimiter, sheet, .. } = written.about("");
    let sheets = if let Written::Xlsx { sheets, .. } = written { sheets.clone() } else { Vec::new() };
    // Of several columns that may be the same, the first.
    let suggested_mapping = suggested.into_iter().rev().collect();
    FileShape { format, encoding, delimiter, sheet, sheets, columns, suggested_mapping }
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
    all.map(|(place, name, field)| (place, FileColumn { name, field, suggested: None, samples: Vec::new() }))
        .collect()
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

fn json_shape(mut rows: Rows, written: &Written, options: &ReadOptions) -> Result<FileShape, FileError> {
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
                let column = columns.entry(name.clone()).or_insert(FileColumn {
                    name,
                    field,
                    suggested: None,
                    samples: Vec::new(),
                });
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
    for column in &mut columns {
        let suggested = about.suggested_mapping.iter().find(|(_, header)| *header == column.name);
        column.suggested = suggested.map(|(field, _)| *field);
    }
    Ok(file_shape(written, columns, about.suggested_mapping))
}

/// What an import would do with a row.
fn preview_row(layout: &Layout, row: &Row, options: &ReadOptions, checks: &RowChecks<'_>) -> PreviewedRow {
    let mut values: BTreeMap<&'static str, String> = BTreeMap::new();
    for (column, text) in layout.texts(row, options) {
        let text = short(&text);
        if !text.is_empty() {
            let value = values.entry(column).or_default();
            // A row may have several numbers.
            *value = if value.is_empty() { text } else { short(&format!("{value}, {text}")) };
        }
    }
    let read = layout.read(row, checks.networks, options, &mut Seen::default());
    let digest = read.record.as_ref().map(|record| checks.suppressions.profile_digest(&record.profile).0);
    let (verdict, reasons, stored) = judge(read, checks.suppressions);
    PreviewedRow { line: row.line, values, stored, verdict, reasons, digest }
}

/// What would be stored of a row, in the fields that it came from.
fn stored(record: &Record) -> BTreeMap<&'static str, String> {
    let mut stored: BTreeMap<&'static str, String> = BTreeMap::new();
    stored.insert("profileUrl", record.profile.as_str().to_owned());
    for detail in &record.details {
        let values = stored.entry(Field::of(detail.kind, detail.label).name()).or_default();
        let comma = if values.is_empty() { "" } else { ", " };
        *values = format!("{values}{comma}{}", detail.value.expose());
        let times = [("observedAt", detail.observed_at), ("expiresAt", detail.expires_at)];
        stored.extend(times.into_iter().filter_map(|(name, time)| Some((name, time?.to_string()))));
    }
    stored
}

fn judge(
    read: ReadRow,
    suppressions: &SuppressionList,
) -> (Verdict, Vec<NotLoaded>, BTreeMap<&'static str, String>) {
    let faults = read.faults.into_iter();
    let mut reasons: Vec<NotLoaded> =
        faults.map(|fault| NotLoaded { column: fault.column, reason: fault.reason }).collect();
    let Some(mut record) = read.record else { return (Verdict::Rejected, reasons, BTreeMap::new()) };
    let left_out = leave_out(&mut record, suppressions);
    if record.details.is_empty() {
        return (Verdict::OptedOut, reasons, BTreeMap::new());
    }
    for kind in left_out {
        let reason = NotLoaded { column: kind.name().into(), reason: NotLoaded::OPTED_OUT };
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let verdict = if reasons.is_empty() { Verdict::Loaded } else { Verdict::LoadedInPart };
    (verdict, reasons, stored(&record))
}
