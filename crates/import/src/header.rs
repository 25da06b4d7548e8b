//! The header of a file with columns: which of them is what.

use std::borrow::Cow;

use contactd_core::{Networks, unmarked};
use csv::ByteRecord;

use crate::COLUMNS;
use crate::ReadOptions;
use crate::columns::{REJECTED, SOURCE};
use crate::error::FileError;
use crate::mapping::Field;
use crate::read_row::{Fault, MoreValue, ReadRow, Texts};
use crate::suggest::{looks_like_data, suggestions};

/// How many columns a file may have: as many as a spreadsheet.
const MAX_COLUMNS: usize = 16_384;

/// The header of a file, and where each of [`COLUMNS`] is in it.
pub(crate) struct Columns {
    pub(crate) header: ByteRecord,
    places: [Option<usize>; COLUMNS.len()],
    /// More columns of numbers and addresses, each with its place.
    more: Vec<(Field, usize)>,
    /// In a rejects file: where the columns are that say what was rejected.
    pub(crate) about_rejects: Vec<usize>,
    /// Whether it is a CSV: a `'` before what a spreadsheet takes for a formula is taken off, and a row has no more fields than the
    /// header. In a workbook people write beside their table.
    pub(crate) is_csv: bool,
}

impl Columns {
    /// Finds the columns that an import needs. `is_csv` as in the field of that name.
    pub(crate) fn find(header: ByteRecord, options: &ReadOptions, is_csv: bool) -> Result<Self, FileError> {
        Self::locate(header, options, is_csv)?.complete(options)
    }

    /// Finds the columns that are there. `is_csv` as in the field of that name.
    pub(crate) fn locate(header: ByteRecord, options: &ReadOptions, is_csv: bool) -> Result<Self, FileError> {
        if header.len() > MAX_COLUMNS {
            return Err(FileError::unusable(
                "it has more than 16,384 columns; is this a file of contact records?",
            ));
        }
        let names: Vec<Cow<'_, str>> = header.iter().map(|name| cell_name(name, is_csv)).collect();
        let mut places = [None; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = find(&names, column, options.header_of(column), options.mapped(column).is_some())?;
        }
        let more = options.more_values().map(|(field, header)| {
            Ok(find(&names, field.name(), Some(header), true)?.map(|place| (field, place)))
        });
        let more: Vec<(Field, usize)> =
            more.filter_map(Result::transpose).collect::<Result<_, FileError>>()?;
        let about: Option<Vec<usize>> =
            REJECTED.iter().map(|column| names.iter().position(|name| name == column)).collect();
        let is_without_header = names.iter().any(|name| looks_like_data(name));
        let columns = Self { about_rejects: about.unwrap_or_default(), places, more, is_csv, header };
        match columns.missing() {
            Some(_) if is_without_header => Err(FileError::NoHeader),
            _ => Ok(columns),
        }
    }

    /// The first column that an import needs and that is not there.
    fn missing(&self) -> Option<&'static str> {
        match () {
            () if !self.has("profileUrl") => Some("profileUrl"),
            () if !self.has("phone") && !self.has("email") => Some("phone or email"),
            () => None,
        }
    }

    /// The same columns, if an import needs no others.
    fn complete(self, options: &ReadOptions) -> Result<Self, FileError> {
        match self.missing() {
            Some(missing) if options.only_mapped => {
                Err(FileError::NotMapped { missing, found: self.names() })
            }
            Some(missing) => {
                let suggested = self.suggestions();
                Err(FileError::MissingColumn { missing, found: self.names(), suggested })
            }
            None if !self.has(COLUMNS[SOURCE]) && options.source.is_none() => Err(FileError::NoSource),
            None => Ok(self),
        }
    }

    /// For each column that is not there, the header that probably means it.
    pub(crate) fn suggestions(&self) -> Vec<(&'static str, String)> {
        suggestions(&self.not_used(), |column| self.has(column))
    }

    /// Every column of the file, except what a rejects file says about its rows: its place, its name, and the column of the
    /// import format that it is.
    pub(crate) fn all(&self) -> impl Iterator<Item = (usize, String, Option<&'static str>)> {
        let field = |place| {
            let own = COLUMNS.iter().zip(&self.places).find(|(_, at)| **at == Some(place));
            let more = || self.more.iter().find(|(_, at)| *at == place);
            own.map(|(name, _)| *name).or_else(|| more().map(|(field, _)| field.name()))
        };
        let names = self.header.iter().map(|name| cell_name(name, self.is_csv).into_owned());
        let all = names.enumerate().map(move |(place, name)| (place, name, field(place)));
        all.filter(|(place, ..)| !self.about_rejects.contains(place))
    }

    /// The texts of a row in the columns that are used: the name of the field, and the text.
    pub(crate) fn texts(&self, fields: &ByteRecord) -> Vec<(&'static str, String)> {
        let own = COLUMNS.into_iter().zip(self.places).filter_map(|(name, place)| Some((name, place?)));
        let more = self.more.iter().map(|(field, place)| (field.name(), *place));
        own.chain(more).filter_map(|(name, place)| Some((name, self.text(fields.get(place)?)))).collect()
    }

    /// A cell for people; what is not UTF-8 is replaced by marks.
    pub(crate) fn text(&self, cell: &[u8]) -> String {
        let text = String::from_utf8_lossy(cell);
        (if self.is_csv { unmarked(&text) } else { &*text }).to_owned()
    }

    /// Whether there is such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        COLUMNS.iter().zip(&self.places).any(|(name, place)| *name == column && place.is_some())
            || self.more.iter().any(|(field, _)| field.column_name() == column)
    }

    /// The names of all columns, except empty ones.
    fn names(&self) -> Vec<String> {
        self.header
            .iter()
            .map(|name| cell_name(name, self.is_csv).into_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The names of the columns that mean nothing to an import.
    pub(crate) fn not_used(&self) -> Vec<String> {
        let used = self.used();
        let is_used = |place: usize| used.contains(&place) || self.about_rejects.contains(&place);
        let names = self.header.iter().enumerate().filter(|(place, _)| !is_used(*place));
        names
            .map(|(_, name)| cell_name(name, self.is_csv).into_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The places of the columns that are used, in order.
    pub(crate) fn used(&self) -> Vec<usize> {
        let more = self.more.iter().map(|(_, place)| *place);
        let mut used: Vec<usize> = self.places.iter().flatten().copied().chain(more).collect();
        used.sort_unstable();
        used
    }

    /// These columns alone, if rows have no others.
    pub(crate) fn only(&self, used: &[usize]) -> Self {
        let place_of = |place: usize| used.iter().position(|&used| used == place);
        Self {
            header: used.iter().filter_map(|&place| self.header.get(place)).collect(),
            places: self.places.map(|place| place.and_then(place_of)),
            more: self.more.iter().filter_map(|(field, place)| Some((*field, place_of(*place)?))).collect(),
            about_rejects: Vec::new(),
            is_csv: self.is_csv,
        }
    }

    /// What was read from a row.
    pub(crate) fn read(&self, fields: &ByteRecord, networks: &Networks, options: &ReadOptions) -> ReadRow {
        if self.is_csv && fields.len() > self.header.len() {
            return ReadRow::rejected(Fault::of_row("too_many_fields"));
        }
        let text_at = |place: usize| {
            let text = std::str::from_utf8(fields.get(place)?).map_err(|_| "not_utf8");
            Some(if self.is_csv { text.map(unmarked) } else { text })
        };
        let mut texts = Texts::empty();
        for (column, place) in self.places.iter().enumerate() {
            if let Some(text) = place.and_then(text_at) {
                texts.set(column, text);
            }
        }
        let name = |place| String::from_utf8_lossy(self.header.get(place).unwrap_or_default());
        let more = self.more.iter().filter_map(|(field, place)| {
            Some(MoreValue { field: *field, text: text_at(*place)?, name: name(*place) })
        });
        texts.read(more, networks, options)
    }
}

/// The name of a column as people see it.
fn cell_name(name: &[u8], is_csv: bool) -> Cow<'_, str> {
    match String::from_utf8_lossy(name) {
        Cow::Borrowed(name) if is_csv => Cow::Borrowed(unmarked(visible(name))),
        Cow::Borrowed(name) => Cow::Borrowed(visible(name)),
        Cow::Owned(name) => Cow::Owned(visible(&name).to_owned()),
    }
}

/// A name without what nobody sees before and after it.
pub(crate) fn visible(name: &str) -> &str {
    let is_unseen = |c: char| matches!(c, '\u{200B}'..='\u{200D}' | '\u{2060}' | '\u{FEFF}');
    name.trim_matches(|c: char| c.is_whitespace() || is_unseen(c))
}

/// Whether two names look the same: whatever kind of space is in them.
fn looks_like(name: &str, other: &str) -> bool {
    name.split_whitespace().eq(visible(other).split_whitespace())
}

/// The position of a column: by its own name, ignoring case, or by the exact header it is mapped to.
fn find(
    names: &[Cow<'_, str>],
    column: &'static str,
    wanted: Option<&str>,
    is_mapped: bool,
) -> Result<Option<usize>, FileError> {
    let Some(wanted) = wanted else { return Ok(None) };
    let is_wanted =
        |name: &str| if is_mapped { looks_like(name, wanted) } else { name.eq_ignore_ascii_case(wanted) };
    let mut places = names.iter().enumerate().filter(|(_, name)| is_wanted(name)).map(|(place, _)| place);
    let found = || names.iter().map(|name| name.clone().into_owned()).collect();
    match (places.next(), places.next()) {
        (None, _) if is_mapped => {
            Err(FileError::MappedHeader { column, header: wanted.to_owned(), found: found() })
        }
        (Some(_), Some(_)) => Err(FileError::TwoColumns { name: wanted.to_owned(), found: found() }),
        (place, _) => Ok(place),
    }
}
