//! Rows of a CSV file with a header.

use std::cell::Cell;
use std::io::{self, Read};
use std::rc::Rc;

use anyhow::{Context, bail};
use contactd_core::{Networks, RawRecord, Record, RecordError};
use csv::ByteRecord;

/// The columns of the import format.
const COLUMNS: [&str; 11] = [
    "profileUrl",
    "phone",
    "email",
    "phoneLabel",
    "emailLabel",
    "confidence",
    "observedAt",
    "basis",
    "expiresAt",
    "region",
    "source",
];

/// What counts where a row says nothing, and what the columns are called.
#[derive(Clone, Copy, Default)]
pub(crate) struct Defaults<'a> {
    pub(crate) source: Option<&'a str>,
    pub(crate) region: Option<&'a str>,
    pub(crate) mapping: &'a [(String, String)],
}

/// Longest row that is read. More in one piece is not a row but a file that is no CSV.
const MAX_ROW_BYTES: u64 = 16 << 20;

/// A file being read.
pub(crate) struct CsvRows<'a> {
    reader: csv::Reader<Bounded>,
    /// What may still be read before the row has to end.
    left: Rc<Cell<u64>>,
    header: ByteRecord,
    /// Where each of [`COLUMNS`] is in the file.
    places: [Option<usize>; COLUMNS.len()],
    defaults: Defaults<'a>,
}

/// One row as it was written.
pub(crate) struct Row<'a> {
    fields: ByteRecord,
    line: u64,
    header: &'a ByteRecord,
    places: &'a [Option<usize>; COLUMNS.len()],
    defaults: Defaults<'a>,
}

impl<'a> CsvRows<'a> {
    /// Reads the header and finds the columns in it.
    pub(crate) fn read(input: Box<dyn Read>, defaults: Defaults<'a>) -> anyhow::Result<Self> {
        let left = Rc::new(Cell::new(MAX_ROW_BYTES));
        let input = Bounded { input, left: Rc::clone(&left) };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(input);
        let mut header = reader.byte_headers()?.clone();
        if let Some(first) = header.get(0).and_then(|first| first.strip_prefix(b"\xEF\xBB\xBF")) {
            let first = first.to_vec();
            header = std::iter::once(first.as_slice()).chain(header.iter().skip(1)).collect();
        }
        if header.is_empty() {
            bail!(
                "the file is empty: the first line has to name the columns, such as profileUrl,phone,email"
            );
        }
        for (column, _) in defaults.mapping {
            if !COLUMNS.contains(&column.as_str()) {
                bail!("--map {column}=…: there is no column {column}; there are {}", COLUMNS.join(", "));
            }
        }
        let mut places = [None; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = find(&header, column, defaults.mapping)?;
        }
        let has = |column: &str| {
            COLUMNS.iter().zip(&places).any(|(name, place)| *name == column && place.is_some())
        };
        if !has("profileUrl") {
            bail!("no column is called profileUrl; say which it is with --map profileUrl=\"its header\"");
        }
        if !has("phone") && !has("email") {
            bail!("no column is called phone or email; say which it is with --map phone=\"its header\"");
        }
        if !has("source") && defaults.source.is_none() {
            bail!("the rows do not say where they come from; say it with --source NAME");
        }
        Ok(Self { reader, left, header, places, defaults })
    }

    /// The next row, good or bad; none at the end of the file. A file that cannot be read
    /// on is an error: what has been read of it is not all of it.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<Row<'_>>> {
        self.left.set(MAX_ROW_BYTES);
        let mut fields = ByteRecord::new();
        if !self.reader.read_byte_record(&mut fields).context("the file cannot be read on")? {
            return Ok(None);
        }
        let line = fields.position().map_or(0, csv::Position::line);
        Ok(Some(Row { fields, line, header: &self.header, places: &self.places, defaults: self.defaults }))
    }
}

/// An input of which only so much is read in one row, so that memory stays bounded.
struct Bounded {
    input: Box<dyn Read>,
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
fn find(header: &ByteRecord, column: &str, mapping: &[(String, String)]) -> anyhow::Result<Option<usize>> {
    let mapped = mapping.iter().find(|(name, _)| name == column).map(|(_, header)| header.as_str());
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
        (None, _) if mapped.is_some() => bail!("--map {column}=\"{wanted}\": no column has that header"),
        (Some(_), Some(_)) => bail!("two columns are called {wanted}"),
        (place, _) => Ok(place),
    }
}

impl Row<'_> {
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    pub(crate) fn header(&self) -> &ByteRecord {
        self.header
    }

    pub(crate) fn fields(&self) -> &ByteRecord {
        &self.fields
    }

    /// The profile and details that the row means.
    pub(crate) fn record(&self, networks: &Networks) -> Result<Record, RecordError> {
        if self.fields.len() > self.header.len() {
            return Err(RecordError { column: "row", reason: "too_many_fields" });
        }
        let mut texts = [""; COLUMNS.len()];
        for ((text, place), column) in texts.iter_mut().zip(self.places).zip(COLUMNS) {
            let Some(field) = place.and_then(|place| self.fields.get(place)) else { continue };
            *text = std::str::from_utf8(field).map_err(|_| RecordError { column, reason: "not_utf8" })?;
        }
        let [
            profile_url,
            phone,
            email,
            phone_label,
            email_label,
            confidence,
            observed_at,
            basis,
            expires_at,
            region,
            source,
        ] = texts;
        let source = if source.trim().is_empty() { self.defaults.source.unwrap_or_default() } else { source };
        let row = RawRecord {
            profile_url,
            phone,
            email,
            phone_label,
            email_label,
            confidence,
            observed_at,
            basis,
            expires_at,
            region,
            source,
        };
        row.read(networks, self.defaults.region)
    }
}
