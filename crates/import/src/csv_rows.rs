//! Rows of a CSV file with a header.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::rc::Rc;

use contactd_core::{Networks, Record, RecordError};
use csv::ByteRecord;

use crate::COLUMNS;
use crate::error::{FileError, Tried};
use crate::rows::{Content, Defaults, MAX_ROW_BYTES, Row, raw};

/// A field that is fed to the parser behind the end of the file. If it does not come out as a row of its own, the file ends
/// inside a quoted field. No file holds it, because it is another every time.
fn end_field() -> Vec<u8> {
    format!("\u{1}the end {:016x}", RandomState::new().build_hasher().finish()).into_bytes()
}

/// A file being read.
pub struct CsvRows {
    reader: csv::Reader<Bounded>,
    /// What may still be read before the row has to end.
    left: Rc<Cell<u64>>,
    /// What stands behind the end.
    end: Vec<u8>,
    last_line: u64,
}

/// The header of a file, and where each of [`COLUMNS`] is in it.
pub(crate) struct Columns {
    pub(crate) header: ByteRecord,
    places: [Option<usize>; COLUMNS.len()],
}

impl CsvRows {
    /// Reads the header and finds the columns in it.
    pub(crate) fn read(input: Box<dyn Read>, defaults: &Defaults) -> Result<(Self, Columns), FileError> {
        let (rows, header) = Self::open(input)?;
        Ok((rows, Columns::find(header, defaults)?))
    }

    /// Reads the header.
    pub fn open(input: Box<dyn Read>) -> Result<(Self, ByteRecord), FileError> {
        let left = Rc::new(Cell::new(MAX_ROW_BYTES));
        let end = end_field();
        let behind = io::Cursor::new([b"\n", end.as_slice(), b"\n"].concat());
        let input = Bounded { input: input.chain(behind), left: Rc::clone(&left) };
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .has_headers(false)
            // Not CRLF, which would leave the line numbers one behind; the return is cut off below.
            .terminator(csv::Terminator::Any(b'\n'))
            .from_reader(input);
        let mut header = ByteRecord::new();
        while is_blank(&header) && reader.read_byte_record(&mut header).tried("the file cannot be read")? {
            header = without_return(header);
        }
        let header = without_mark(header);
        if header.len() == 1 && header.get(0).is_some_and(|field| field == end) {
            return Err(FileError::unusable(
                "the file is empty: the first line has to name the columns, such as profileUrl,phone,email",
            ));
        }
        refuse_what_is_not_csv(&header)?;
        Ok((Self { reader, left, end, last_line: 1 }, header))
    }

    /// The next row, good or bad; none at the end of the file. A file that cannot be read
    /// on is an error: what has been read of it is not all of it.
    pub fn read_row(&mut self) -> Result<Option<Row>, FileError> {
        loop {
            self.left.set(MAX_ROW_BYTES);
            let mut fields = ByteRecord::new();
            if !self.reader.read_byte_record(&mut fields).tried("the file cannot be read further")? {
                return Err(FileError::unusable(format!(
                    "a quote is opened on line {} and never closed; correct it; nothing was loaded",
                    // It did not end with a line feed, so the line it began on is one more than it seemed.
                    self.last_line + 1
                )));
            }
            if fields.len() == 1 && fields.get(0) == Some(self.end.as_slice()) {
                return Ok(None);
            }
            // Every row ends with a line feed, so this is the line it began on.
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

/// Says what a file is, if it is one of the things that are often taken for a CSV.
fn refuse_what_is_not_csv(header: &ByteRecord) -> Result<(), FileError> {
    let first = header.get(0).unwrap_or_default();
    let is = |start: &[u8]| first.starts_with(start);
    if is(b"PK\x03\x04") || is(b"\xFD7zXZ") || is(b"BZh") {
        return Err(FileError::unusable(
            "the file is an archive or a spreadsheet; unpack it, or save it as CSV in UTF-8",
        ));
    }
    if is(b"\xFF\xFE") || is(b"\xFE\xFF") || header.iter().any(|field| field.contains(&0)) {
        return Err(FileError::unusable("the file is not UTF-8 text; save it as CSV in UTF-8"));
    }
    if is(b"[") {
        return Err(FileError::unusable("the file is one JSON array; write one object per line"));
    }
    if header.iter().any(|field| field.split(|&b| b == b'\r').skip(1).any(|next| !next.starts_with(b"\n"))) {
        return Err(FileError::unusable(
            "the lines end in carriage returns, as on old Macintoshes; save the file with line feeds",
        ));
    }
    for (separator, name) in [(b';', "semicolons"), (b'\t', "tabs")] {
        if header.len() == 1 && first.contains(&separator) {
            return Err(FileError::unusable(format!(
                "the columns are separated by {name}; save the file with commas"
            )));
        }
    }
    Ok(())
}

/// An input of which only so much is read in one row, so that memory stays bounded.
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

/// Where a column is: under its own name in any case, or under the header it was mapped to.
fn find(header: &ByteRecord, column: &str, defaults: &Defaults) -> Result<Option<usize>, FileError> {
    let mapped = defaults.mapped(column);
    let wanted = mapped.unwrap_or(column);
    let is_wanted = |field: &[u8]| {
        let field = field.trim_ascii();
        if mapped.is_some() {
            field == wanted.as_bytes()
        } else {
            field.eq_ignore_ascii_case(wanted.as_bytes())
        }
    };
    let mut places = header.iter().enumerate().filter(|(_, field)| is_wanted(field)).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (None, _) if mapped.is_some() => {
            Err(FileError::unusable(format!("--map {column}=\"{wanted}\": no column has that header")))
        }
        (Some(_), Some(_)) => Err(FileError::unusable(format!("two columns are called {wanted}"))),
        (place, _) => Ok(place),
    }
}

impl Columns {
    /// Finds the columns in a header.
    pub(crate) fn find(header: ByteRecord, defaults: &Defaults) -> Result<Self, FileError> {
        let mut places = [None; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = find(&header, column, defaults)?;
        }
        let columns = Self { header, places };
        let has = |column| columns.has(column);
        if !has("profileUrl") {
            return Err(FileError::unusable(
                "no column is called profileUrl; say which it is with --map profileUrl=\"its header\"",
            ));
        }
        if !has("phone") && !has("email") {
            return Err(FileError::unusable(
                "no column is called phone or email; say which it is with --map phone=\"its header\"",
            ));
        }
        if !has("source") && defaults.source.is_none() {
            return Err(FileError::unusable(
                "the rows do not say where they come from; say it with --source NAME",
            ));
        }
        Ok(columns)
    }

    /// Whether there is such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        COLUMNS.iter().zip(&self.places).any(|(name, place)| *name == column && place.is_some())
    }

    /// The profile and details that a row means.
    pub(crate) fn record(
        &self,
        fields: &ByteRecord,
        networks: &Networks,
        defaults: &Defaults,
    ) -> Result<Record, RecordError> {
        if fields.len() > self.header.len() {
            return Err(RecordError { column: "row", reason: "too_many_fields" });
        }
        let mut texts = [""; COLUMNS.len()];
        for ((text, place), column) in texts.iter_mut().zip(self.places).zip(COLUMNS) {
            let Some(field) = place.and_then(|place| fields.get(place)) else { continue };
            *text = std::str::from_utf8(field).map_err(|_| RecordError { column, reason: "not_utf8" })?;
        }
        raw(texts, defaults).read(networks, defaults.region.as_deref())
    }
}
