//! The header of a CSV or Parquet file: which column is where.

use std::borrow::Cow;

use contactd_core::{Networks, unmarked};
use csv::ByteRecord;

use crate::COLUMNS;
use crate::columns::{REJECTED, SOURCE};
use crate::error::FileError;
use crate::read_row::{Fault, ReadRow, Texts};
use crate::rows::Defaults;
use crate::suggest::{looks_like_data, suggestions};

/// The header of a file, and where each of [`COLUMNS`] is in it.
pub(crate) struct Columns {
    pub(crate) header: ByteRecord,
    places: [Option<usize>; COLUMNS.len()],
    /// In a rejects file: where the columns are that say what was rejected.
    pub(crate) about_rejects: Vec<usize>,
    /// Whether a `'` before what a spreadsheet takes for a formula is taken off, as in CSV files.
    pub(crate) is_marked: bool,
}

impl Columns {
    /// Finds the columns in the header of a CSV file.
    pub(crate) fn of_csv(header: ByteRecord, defaults: &Defaults) -> Result<Self, FileError> {
        Self::find(header, defaults, true)
    }

    /// Finds the columns in the schema of a Parquet file.
    pub(crate) fn of_parquet(header: ByteRecord, defaults: &Defaults) -> Result<Self, FileError> {
        Self::find(header, defaults, false)
    }

    fn find(header: ByteRecord, defaults: &Defaults, is_marked: bool) -> Result<Self, FileError> {
        let names: Vec<Cow<'_, str>> = header.iter().map(|name| cell_name(name, is_marked)).collect();
        let mut places = [None; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            *place = find(&names, column, defaults)?;
        }
        let about: Option<Vec<usize>> =
            REJECTED.iter().map(|column| names.iter().position(|name| name == column)).collect();
        let columns =
            Self { about_rejects: about.unwrap_or_default(), places, is_marked, header: header.clone() };
        let has = |column: &str| columns.has(column);
        let missing = match () {
            () if !has("profileUrl") => Some("profileUrl"),
            () if !has("phone") && !has("email") => Some("phone or email"),
            () => None,
        };
        if let Some(missing) = missing {
            if names.iter().any(|name| looks_like_data(name)) {
                return Err(FileError::NoHeader);
            }
            let found = columns.not_used();
            let suggested = suggestions(&found, has);
            return Err(FileError::MissingColumn { missing, found: columns.names(), suggested });
        }
        if !has(COLUMNS[SOURCE]) && defaults.source.is_none() {
            return Err(FileError::NoSource);
        }
        Ok(columns)
    }

    /// Whether there is such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        COLUMNS.iter().zip(&self.places).any(|(name, place)| *name == column && place.is_some())
    }

    /// The names of all columns, except empty ones.
    fn names(&self) -> Vec<String> {
        self.header
            .iter()
            .map(|name| cell_name(name, self.is_marked).into_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The names of the columns that mean nothing to an import.
    pub(crate) fn not_used(&self) -> Vec<String> {
        let is_used =
            |place: usize| self.places.contains(&Some(place)) || self.about_rejects.contains(&place);
        let names = self.header.iter().enumerate().filter(|(place, _)| !is_used(*place));
        names
            .map(|(_, name)| cell_name(name, self.is_marked).into_owned())
            .filter(|name| !name.is_empty())
            .collect()
    }

    /// The places of the columns that are used, in order.
    pub(crate) fn used(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.places.iter().flatten().copied().collect();
        used.sort_unstable();
        used
    }

    /// These columns alone, if rows have no others.
    pub(crate) fn only(&self, used: &[usize]) -> Self {
        let place_of = |place: usize| used.iter().position(|&used| used == place);
        Self {
            header: used.iter().filter_map(|&place| self.header.get(place)).collect(),
            places: self.places.map(|place| place.and_then(place_of)),
            about_rejects: Vec::new(),
            is_marked: self.is_marked,
        }
    }

    /// What was read from a row.
    pub(crate) fn read(&self, fields: &ByteRecord, networks: &Networks, defaults: &Defaults) -> ReadRow {
        if fields.len() > self.header.len() {
            return ReadRow::rejected(Fault::of_row("too_many_fields"));
        }
        let mut texts = Texts::empty();
        for (column, place) in self.places.iter().enumerate() {
            let Some(field) = place.and_then(|place| fields.get(place)) else { continue };
            let text = std::str::from_utf8(field).map_err(|_| "not_utf8");
            texts.set(column, if self.is_marked { text.map(unmarked) } else { text });
        }
        texts.read(networks, defaults)
    }
}

/// The name of a column as people see it.
fn cell_name(name: &[u8], is_marked: bool) -> Cow<'_, str> {
    match String::from_utf8_lossy(name.trim_ascii()) {
        Cow::Borrowed(name) if is_marked => Cow::Borrowed(unmarked(name)),
        name => name,
    }
}

/// The position of a column: by its own name, ignoring case, or by the exact header it is mapped to.
fn find(
    names: &[Cow<'_, str>],
    column: &'static str,
    defaults: &Defaults,
) -> Result<Option<usize>, FileError> {
    let mapped = defaults.mapped(column);
    let wanted = mapped.unwrap_or(column);
    let is_wanted =
        |name: &str| if mapped.is_some() { name == wanted } else { name.eq_ignore_ascii_case(wanted) };
    let mut places = names.iter().enumerate().filter(|(_, name)| is_wanted(name)).map(|(place, _)| place);
    match (places.next(), places.next()) {
        (None, _) if mapped.is_some() => Err(FileError::MappedHeader {
            column,
            header: wanted.to_owned(),
            found: names.iter().map(|name| name.clone().into_owned()).collect(),
        }),
        (Some(_), Some(_)) => Err(FileError::unusable(format!("two columns are called {wanted}"))),
        (place, _) => Ok(place),
    }
}
