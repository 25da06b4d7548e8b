//! The header of a sheet. People write a title above it, and merge cells: `Telefon` over `mobil` and `geschäftlich`.

use std::collections::VecDeque;

use csv::ByteRecord;

use crate::rows::{Content, Row};
use crate::suggest::{looks_like_data, means_something};
use crate::xlsx::rows::{SheetRow, SheetRows};
use crate::{FileError, ReadOptions};

/// In how many rows a header is looked for.
const MOST_ABOVE: usize = 10;

/// The rows of a sheet below its header.
pub(crate) struct Headed {
    rows: SheetRows,
    /// Rows that were read to find the header.
    first: VecDeque<SheetRow>,
    /// How many columns the header has.
    width: usize,
}

impl Headed {
    /// Finds the header: of the first rows the one with the most names that mean something.
    pub(crate) fn open(mut rows: SheetRows, options: &ReadOptions) -> Result<(Self, ByteRecord), FileError> {
        let mut first = VecDeque::new();
        while first.len() < MOST_ABOVE
            && let Some(row) = rows.next()?
        {
            first.push_back(row);
        }
        let meant =
            |row: &SheetRow| row.cells.iter().filter(|(_, name)| means_something(name, options)).count();
        // Of equal ones the first.
        let header = (0..first.len()).rev().max_by_key(|row| meant(&first[*row])).unwrap_or(0);
        first.drain(..header);
        let Some(header) = first.pop_front() else {
            return Err(FileError::EmptySheet);
        };
        let mut names = texts(&header);
        if let Some(below) = first.front().filter(|below| is_second_line(&header, below)) {
            names = joined(&names, &texts(below));
            first.pop_front();
        }
        let header: ByteRecord = names.iter().map(String::as_bytes).collect();
        Ok((Self { rows, first, width: header.len() }, header))
    }

    /// The next row that is not blank; its line is its number in the sheet.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        let row = match self.first.pop_front() {
            Some(row) => Some(row),
            None => self.rows.next()?,
        };
        let row = row.map(|row| Row { line: row.number, content: Content::Fields(self.fields(&row)) });
        Ok(row)
    }

    /// A field for each column. What stands to the right of them is one more.
    fn fields(&self, row: &SheetRow) -> ByteRecord {
        let mut fields = ByteRecord::new();
        for (column, text) in &row.cells {
            while fields.len() < (*column).min(self.width) {
                fields.push_field(b"");
            }
            if fields.len() <= self.width {
                fields.push_field(text.as_bytes());
            }
        }
        fields
    }
}

/// The text of each column, up to the last one that has any.
fn texts(row: &SheetRow) -> Vec<String> {
    let width = row.cells.last().map_or(0, |(column, _)| column + 1);
    let mut texts = vec![String::new(); width];
    for (column, text) in &row.cells {
        // On several lines it cannot be typed.
        texts[*column] = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    texts
}

/// Whether the row below belongs to the header: it has a name where a cell of the header is merged with the one before it.
fn is_second_line(header: &SheetRow, below: &SheetRow) -> bool {
    let is_named = |column: &usize| header.cells.iter().any(|(named, _)| named == column);
    below.number == header.number + 1
        && below.cells.iter().all(|(_, text)| !looks_like_data(text))
        && below
            .cells
            .iter()
            .any(|(column, _)| !is_named(column) && (0..*column).any(|before| is_named(&before)))
}

/// The names of two lines. A merged cell of the first one counts for each of its columns.
fn joined(above: &[String], below: &[String]) -> Vec<String> {
    let mut merged = "";
    let at = |names: &[String], column: usize| names.get(column).cloned().unwrap_or_default();
    let mut names = Vec::new();
    for column in 0..above.len().max(below.len()) {
        let (own, second) = (above.get(column).map_or("", String::as_str), at(below, column));
        merged = if own.is_empty() { merged } else { own };
        let first = if second.is_empty() { own } else { merged };
        names.push(format!("{first} {second}").trim().to_owned());
    }
    names
}
