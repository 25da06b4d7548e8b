//! Lists of people, numbers and addresses, such as opt-outs: one on each line, or the columns of a file of any format.

use std::io::Read;

use contactd_core::{DiskBudget, Networks, SubjectName, SubjectNameError, subject_lines};
use csv::ByteRecord;

use crate::csv_rows::CsvRows;
use crate::error::Tried;
use crate::header::visible;
use crate::input::{Opened, Opening, Reach, Recognized, Rows};
use crate::json_rows::{object, shown};
use crate::mapping::Field;
use crate::rows::{Content, Row};
use crate::suggest::{looks_like_data, meaning};
use crate::{FileError, ReadOptions};

/// How long a list may be, and how many people, numbers and addresses it may name.
const MAX_BYTES: u64 = 64 << 20;
const MAX_NAMES: usize = 2_000_000;

/// The subjects that a list names.
#[derive(Debug, Default)]
pub struct SubjectList {
    /// Those that can be read.
    pub named: Vec<SubjectName>,
    /// The lines of the others, and why they cannot be read.
    pub rejected: Vec<(u64, SubjectNameError)>,
    /// The columns that were read, if the list has a header.
    pub columns: Vec<String>,
    /// The sheets of a workbook that were not read.
    pub other_sheets: Vec<String>,
}

impl SubjectList {
    /// Reads a list. What does not fit into memory is written to the directory of `disk`.
    pub(crate) fn read(
        input: Box<dyn Read>,
        options: &ReadOptions,
        disk: &DiskBudget,
        networks: &Networks,
    ) -> Result<Self, FileError> {
        let opening = Opening { format: None, options, disk, reach: Reach::Everything };
        let mut reading = Reading { networks, list: Self::default() };
        // Why the columns mean nothing, if none of its lines names anybody.
        let mut refused = None;
        match opening.recognize(input, None)? {
            Recognized::Csv { input, dialect, .. } => {
                let mut text = Vec::new();
                let read =
                    input.take(MAX_BYTES + 1).read_to_end(&mut text).tried("the list cannot be read")?;
                if read as u64 > MAX_BYTES {
                    return Err(FileError::unusable("the list is longer than 64 MiB; split it"));
                }
                if text.split(|&b| b == b'\n').take(2).any(|line| line.contains(&0)) {
                    return Err(FileError::unusable(
                        "the list is not text; save it as UTF-8 text, CSV or .xlsx",
                    ));
                }
                let opened = CsvRows::open(Box::new(std::io::Cursor::new(text.clone())), dialect);
                let columns_of = |header: &ByteRecord| columns(header).ok_or_else(|| no_subject(header));
                match opened.map(|(rows, header)| (columns_of(&header), rows, header)) {
                    Ok((Ok(columns), rows, header)) => reading.rows(Rows::Csv(rows), &header, &columns)?,
                    Err(error) | Ok((Err(error), ..)) => {
                        refused = Some(error);
                        for (line, text) in subject_lines(&text) {
                            reading.recognize(line, &text)?;
                        }
                    }
                }
            }
            recognized => {
                let everything = |header: &ByteRecord| Ok((0..header.len()).collect());
                let Opened { written, header, rows } = opening.read_header(recognized, everything)?;
                reading.list.other_sheets = written.about("").other_sheets;
                match header {
                    None => reading.objects(rows)?,
                    Some(header) => {
                        let columns = columns(&header).unwrap_or_default();
                        reading.rows(rows, &header, &columns)?;
                        refused = Some(written.other_sheets(no_subject(&header)));
                    }
                }
            }
        }
        let list = reading.list;
        let is_without_columns =
            list.columns.is_empty() && list.named.is_empty() && !list.rejected.is_empty();
        match refused.filter(|error| is_without_columns && !is_of_lines(error)) {
            Some(error) => Err(error),
            None => Ok(list),
        }
    }
}

/// Its columns mean nothing. A first line that is somebody is no header.
fn no_subject(header: &ByteRecord) -> FileError {
    let names = names(header);
    if names.iter().any(|name| looks_like_data(name)) {
        return FileError::NoHeader;
    }
    FileError::NoSubject { found: names.into_iter().filter(|name| !name.is_empty()).collect() }
}

/// Whether each line of a list is somebody, or a mistake of its own: it has no header, or one column only.
fn is_of_lines(error: &FileError) -> bool {
    match error.inner() {
        FileError::NoSubject { found } => found.len() < 2,
        error => matches!(error, FileError::NoHeader),
    }
}

fn names(header: &ByteRecord) -> Vec<String> {
    header.iter().map(|name| visible(&String::from_utf8_lossy(name)).to_owned()).collect()
}

/// The columns of a header that name people, numbers or addresses, with their places; none if it is no header.
fn columns(header: &ByteRecord) -> Option<Vec<(usize, Field)>> {
    let names = names(header);
    if names.iter().any(|name| looks_like_data(name)) {
        return None;
    }
    let places = names.iter().enumerate().filter_map(|(place, name)| Some((place, named_by(name)?)));
    Some(places.collect::<Vec<_>>()).filter(|columns| !columns.is_empty())
}

/// What a column with this name names, if it is a subject.
fn named_by(name: &str) -> Option<Field> {
    let (field, _) = meaning(name)?;
    (field.may_repeat() || field.column_name() == "profileUrl").then_some(field)
}

struct Reading<'a> {
    networks: &'a Networks,
    list: SubjectList,
}

impl Reading<'_> {
    fn take(&mut self, line: u64, read: Result<SubjectName, SubjectNameError>) -> Result<(), FileError> {
        match read {
            Ok(name) => self.list.named.push(name),
            Err(error) => self.list.rejected.push((line, error)),
        }
        match self.list.named.len() + self.list.rejected.len() {
            ..=MAX_NAMES => Ok(()),
            _ => Err(FileError::unusable(
                "the list names more than 2,000,000 people, numbers and addresses; split it",
            )),
        }
    }

    fn recognize(&mut self, line: u64, text: &str) -> Result<(), FileError> {
        self.take(line, SubjectName::recognize(text, self.networks))
    }

    /// Reads what is in columns of these fields. A row that names nobody is not left out without a word.
    fn fields<'t>(
        &mut self,
        line: u64,
        texts: impl Iterator<Item = (Field, &'t str)>,
    ) -> Result<(), FileError> {
        let mut is_empty = true;
        for (field, text) in texts.filter(|(_, text)| !text.trim().is_empty()) {
            is_empty = false;
            let read = match field.column_name() {
                "phone" => SubjectName::phone(text.trim()),
                "email" => SubjectName::email(text.trim()),
                _ => SubjectName::person(text, self.networks),
            };
            self.take(line, read)?;
        }
        match is_empty {
            true => self.take(line, Err(SubjectNameError::Nobody)),
            false => Ok(()),
        }
    }

    /// Reads rows below a header. Without a column that names somebody, the header is a row like the others.
    fn rows(
        &mut self,
        mut rows: Rows,
        header: &ByteRecord,
        columns: &[(usize, Field)],
    ) -> Result<(), FileError> {
        let text = |fields: &ByteRecord, place| {
            String::from_utf8_lossy(fields.get(place).unwrap_or_default()).into_owned()
        };
        self.list.columns =
            columns.iter().map(|(place, _)| visible(&text(header, *place)).to_owned()).collect();
        let mut cells = |line, fields: &ByteRecord| match columns {
            [] => {
                let texts = (0..fields.len()).map(|place| text(fields, place));
                let mut texts = texts.filter(|text| !text.trim().is_empty());
                texts.try_for_each(|text| self.recognize(line, text.trim()))
            }
            columns => {
                let texts: Vec<_> =
                    columns.iter().map(|(place, field)| (*field, text(fields, *place))).collect();
                self.fields(line, texts.iter().map(|(field, text)| (*field, text.as_str())))
            }
        };
        if columns.is_empty() {
            cells(1, header)?;
        }
        while let Some(row) = rows.next()? {
            if let Content::Fields(fields) = row.content {
                cells(row.line, &fields)?;
            }
        }
        Ok(())
    }

    fn objects(&mut self, mut rows: Rows) -> Result<(), FileError> {
        while let Some(Row { line, content: Content::Json(text) }) = rows.next()? {
            let object = object(&text).unwrap_or_default();
            let texts: Vec<_> =
                object.iter().filter_map(|(name, value)| Some((named_by(name)?, shown(value)))).collect();
            self.fields(line, texts.iter().map(|(field, text)| (*field, text.as_str())))?;
        }
        Ok(())
    }
}
