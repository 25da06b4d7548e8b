//! Rows of a CSV file with a header.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::rc::Rc;

use csv::ByteRecord;

use crate::dialect::Dialect;
use crate::error::{FileError, Tried};
use crate::rows::{Content, MAX_ROW_BYTES, Row};

/// A field that is passed to the parser after the end of the file. If it is not parsed as a separate row, the file
/// ends inside a quoted field. It is random, so that no file contains it.
fn end_field() -> Vec<u8> {
    format!("\u{1}end{:016x}", RandomState::new().build_hasher().finish()).into_bytes()
}

/// A file being read.
pub(crate) struct CsvRows {
    reader: csv::Reader<Bounded>,
    /// How many more bytes may be read for the current row.
    left: Rc<Cell<u64>>,
    /// The field after the end of the file.
    end: Vec<u8>,
    last_line: u64,
}

impl CsvRows {
    /// Reads the header.
    pub(crate) fn open(input: Box<dyn Read>, dialect: Dialect) -> Result<(Self, ByteRecord), FileError> {
        let left = Rc::new(Cell::new(MAX_ROW_BYTES));
        let end = end_field();
        let after_end = io::Cursor::new([b"\n", end.as_slice(), b"\n"].concat());
        let input = Bounded { input: input.chain(after_end), left: Rc::clone(&left) };
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            .delimiter(dialect.delimiter)
            // Not CRLF, which would make the line numbers one too low; the carriage return is removed below.
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(input);
        let mut header = ByteRecord::new();
        if dialect.has_sep_line {
            reader.read_byte_record(&mut header).tried("the file cannot be read")?;
            header.clear();
        }
        while is_blank(&header) && reader.read_byte_record(&mut header).tried("the file cannot be read")? {
            header = without_return(header);
        }
        let header = without_mark(header);
        if header.iter().all(|field| field == end || field.is_empty()) {
            return Err(FileError::unusable(
                "the file is empty: the first line has to name the columns, such as profileUrl,phone,email",
            ));
        }
        refuse_what_is_not_csv(&header, dialect.delimiter)?;
        Ok((Self { reader, left, end, last_line: 1 }, header))
    }

    /// The next row, valid or not; none at the end of the file. If the file cannot be read to its end,
    /// that is an error, because rows are missing.
    pub(crate) fn read_row(&mut self) -> Result<Option<Row>, FileError> {
        // Blank lines before it count too.
        self.left.set(MAX_ROW_BYTES);
        loop {
            let mut fields = ByteRecord::new();
            if !self.reader.read_byte_record(&mut fields).tried("the file cannot be read further")? {
                return Err(FileError::unusable(format!(
                    "a quote is opened on line {} and never closed; correct it; nothing was loaded",
                    // The last row did not end with a line feed, so `last_line` is one too low.
                    self.last_line + 1
                )));
            }
            if fields.len() == 1 && fields.get(0) == Some(self.end.as_slice()) {
                return Ok(None);
            }
            // A complete row ends with a line feed, so this is the line it begins on.
            let inner: usize = fields.iter().map(count_line_feeds).sum();
            let line = (self.reader.position().line() - 1).saturating_sub(inner as u64);
            self.last_line = line;
            let fields = without_return(fields);
            if !is_blank(&fields) {
                return Ok(Some(Row { line, content: Content::Fields(fields) }));
            }
        }
    }
}

fn is_blank(fields: &ByteRecord) -> bool {
    fields.len() < 2 && fields.get(0).is_none_or(<[u8]>::is_empty)
}

fn count_line_feeds(field: &[u8]) -> usize {
    field.iter().filter(|&&byte| byte == b'\n').count()
}

/// A row without the carriage return at its end, if it has one.
fn without_return(fields: ByteRecord) -> ByteRecord {
    let Some(last) = fields.iter().next_back().and_then(|last| last.strip_suffix(b"\r")) else {
        return fields;
    };
    fields.iter().take(fields.len() - 1).chain([last]).collect()
}

/// A header without the byte-order mark before it, if there is one.
fn without_mark(header: ByteRecord) -> ByteRecord {
    let Some(first) = header.get(0).and_then(|first| first.strip_prefix(b"\xEF\xBB\xBF")) else {
        return header;
    };
    std::iter::once(first).chain(header.iter().skip(1)).collect()
}

/// How files begin that are sent in place of a CSV, and what they are.
const NO_CSV: [(&[u8], &str); 8] = [
    (b"<!doctype", "a web page (HTML)"),
    (b"<html", "a web page (HTML)"),
    (b"<table", "a web page (HTML)"),
    (b"<?xml", "XML"),
    (b"%PDF-", "a PDF"),
    ("\u{2030}PNG".as_bytes(), "a picture"),
    (b"BEGIN:VCARD", "a vCard"),
    (b"MIME-Version:", "a web archive"),
];

/// Refuses files that are often mistaken for CSV, and says what they are.
fn refuse_what_is_not_csv(header: &ByteRecord, delimiter: u8) -> Result<(), FileError> {
    let first = header.get(0).unwrap_or_default();
    let is = |start: &[u8]| first.starts_with(start);
    if is(b"PK\x03\x04") || is(b"\xFD7zXZ") || is(b"BZh") {
        return Err(FileError::unusable("the file is an archive or a workbook, and no CSV; unpack it"));
    }
    if header.iter().any(|field| field.contains(&0)) {
        return Err(FileError::unusable("the file is not text; save it as .xlsx, or as CSV in UTF-8"));
    }
    if is(b"[") {
        return Err(FileError::unusable("the file is one JSON array; write one object per line"));
    }
    if header.iter().any(|field| field.split(|&b| b == b'\r').skip(1).any(|next| !next.starts_with(b"\n"))) {
        return Err(FileError::unusable(
            "the lines end in carriage returns (old Mac format); save the file with line feeds",
        ));
    }
    for (start, what) in NO_CSV {
        if first.trim_ascii_start().get(..start.len()).is_some_and(|first| first.eq_ignore_ascii_case(start))
        {
            return Err(FileError::unusable(format!(
                "the file is {what}, and no CSV; open it in the program that it is for, and save it as .xlsx or CSV"
            )));
        }
    }
    if header.len() > 1 {
        return Ok(());
    }
    for (separator, name) in [(b';', "semicolons"), (b'\t', "tabs"), (b'|', "vertical bars")] {
        if first.contains(&separator) && delimiter != separator {
            return Err(FileError::unusable(format!(
                "the columns are separated by {name}, but another delimiter was chosen, or is named in its first line (sep=); correct that"
            )));
        }
    }
    if first.contains(&delimiter) {
        return Err(FileError::unusable(
            "each line is in quotes as a whole, so that it is one column; save the file again without them",
        ));
    }
    Ok(())
}

/// An input that limits how many bytes are read for one row, so that memory stays bounded.
struct Bounded {
    input: io::Chain<Box<dyn Read>, io::Cursor<Vec<u8>>>,
    left: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        match self.left.get().checked_sub(read as u64) {
            Some(left) => self.left.set(left),
            None => return Err(io::Error::other("a row is longer than 16 MiB; is this a CSV file?")),
        }
        Ok(read)
    }
}
