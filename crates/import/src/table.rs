//! A file with all its columns, for those who write it again with more of them.

use std::fs::File;
use std::io;
use std::path::Path;

use contactd_core::DiskBudget;
use csv::ByteRecord;

use crate::header::visible;
use crate::input::{self, Opened, Opening, Reach, Rows};
use crate::json_rows::{object, shown};
use crate::layout::Written;
use crate::rows::{Content, Row};
use crate::suggest::{looks_like_data, suggestions};
use crate::table_writer::TableWriter;
use crate::{FileError, Format, InputRead, ReadOptions};

/// A file that is read row by row.
pub struct Table {
    file: String,
    written: Written,
    header: Option<ByteRecord>,
    rows: Rows,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub enum TableColumn {
    /// The one at this place.
    Place(usize),
    /// The field of each JSON object that has this name.
    Field(String),
}

impl Table {
    /// Reads the header of a file. What does not fit into memory is written to the directory of `disk`.
    pub fn open(path: &Path, options: &ReadOptions, disk: &DiskBudget) -> Result<Self, FileError> {
        let file = input::name(path);
        let opening = Opening { format: None, options, disk, reach: Reach::Everything };
        let recognized = opening.recognize_file(path, &file)?;
        let everything = |header: &ByteRecord| Ok((0..header.len()).collect());
        let opened = opening.read_header(recognized, everything).map_err(|error| error.of(&file))?;
        let Opened { written, header, rows } = opened;
        Ok(Self { file, written, header, rows })
    }

    /// The names of its columns; none if each row is a JSON object.
    pub fn names(&self) -> Option<Vec<String>> {
        let name = |name: &[u8]| visible(&String::from_utf8_lossy(name)).to_owned();
        self.header.as_ref().map(|header| header.iter().map(name).collect())
    }

    /// The column with this name.
    pub fn column(&self, name: &str) -> Result<TableColumn, FileError> {
        let Some(found) = self.names() else { return Ok(TableColumn::Field(name.to_owned())) };
        let mut named =
            found.iter().enumerate().filter(|(_, found)| found.eq_ignore_ascii_case(visible(name)));
        match (named.next(), named.next()) {
            (Some((place, _)), None) => Ok(TableColumn::Place(place)),
            (Some(_), Some(_)) => Err(FileError::TwoColumns { name: name.to_owned(), found }.of(&self.file)),
            (None, _) if found.iter().any(|name| looks_like_data(name)) => {
                Err(FileError::NoHeader.of(&self.file))
            }
            (None, _) => {
                let suggested = suggestions(&found, |column| column != "profileUrl").pop();
                let suggested = suggested.map(|(_, header)| header);
                let found = found.into_iter().filter(|name| !name.is_empty()).collect();
                Err(FileError::NoColumn { name: name.to_owned(), found, suggested }.of(&self.file))
            }
        }
    }

    /// The next row; none at the end. A row with more fields than columns is an error, because what is added would be in the wrong
    /// place; so is a line that is no JSON object, and one with bytes that could not be written again.
    pub fn next_row(&mut self) -> Result<Option<Row>, FileError> {
        let row = self.rows.next().map_err(|error| error.of(&self.file))?;
        let is_fit = |row: &Row| match (&row.content, &self.header) {
            (Content::Fields(fields), Some(header)) => fields.len() <= header.len(),
            (Content::Json(text), _) => object(text).is_ok(),
            (Content::Fields(_), None) => false,
        };
        if let (Some(row), Some(encoding)) = (&row, self.written.lost_bytes()) {
            let is_whole = |row: &Row| match &row.content {
                Content::Fields(fields) => fields.iter().all(|field| std::str::from_utf8(field).is_ok()),
                Content::Json(text) => std::str::from_utf8(text).is_ok(),
            };
            if !is_whole(row) {
                let what = format!(
                    "line {}: some bytes are not valid in {encoding}; correct this line, or name the encoding of the file",
                    row.line
                );
                return Err(FileError::unusable(what).of(&self.file));
            }
        }
        if let Some(row) = row.as_ref().filter(|row| !is_fit(row)) {
            let what = match row.content {
                Content::Fields(_) => "there are more fields than columns; correct this line",
                Content::Json(_) => "this is no JSON object; correct this line",
            };
            return Err(FileError::unusable(format!("line {}: {what}", row.line)).of(&self.file));
        }
        Ok(row)
    }

    /// How it was read. Its encoding is certain only after the last row.
    pub fn about(&self) -> InputRead {
        self.written.about(&self.file)
    }

    /// Begins to write a table with these columns besides its own, in its format, delimiter and encoding or in another format.
    pub fn writer(&self, file: File, format: Option<Format>, added: &[String]) -> io::Result<TableWriter> {
        TableWriter::begin(file, &self.written, format, self.header.as_ref(), added)
    }
}

impl TableColumn {
    /// The text of a row in this column.
    pub fn text(&self, row: &Row) -> String {
        match (self, &row.content) {
            (Self::Place(place), Content::Fields(fields)) => {
                String::from_utf8_lossy(fields.get(*place).unwrap_or_default()).trim().to_owned()
            }
            (Self::Field(name), Content::Json(text)) => {
                let object = object(text).unwrap_or_default();
                object.get(name).map(shown).unwrap_or_default().trim().to_owned()
            }
            _ => String::new(),
        }
    }
}

impl Row {
    /// The names of its fields, if it is a JSON object.
    pub fn field_names(&self) -> Vec<String> {
        match &self.content {
            Content::Json(text) => {
                object(text).map(|object| object.keys().cloned().collect()).unwrap_or_default()
            }
            Content::Fields(_) => Vec::new(),
        }
    }
}
