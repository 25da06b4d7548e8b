//! The header of a CSV or Parquet file: which column is where.

use contactd_core::{Networks, Record, RecordError};
use csv::ByteRecord;

use crate::COLUMNS;
use crate::error::FileError;
use crate::rows::{Defaults, raw};

/// The header of a file, and where each of [`COLUMNS`] is in it.
pub(crate) struct Columns {
    pub(crate) header: ByteRecord,
    places: [Option<usize>; COLUMNS.len()],
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
                "no column is called profileUrl; choose one with --map profileUrl=\"its header\"",
            ));
        }
        if !has("phone") && !has("email") {
            return Err(FileError::unusable(
                "no column is called phone or email; choose one with --map phone=\"its header\"",
            ));
        }
        if !has("source") && defaults.source.is_none() {
            return Err(FileError::unusable("there is no source column; name the source with --source NAME"));
        }
        Ok(columns)
    }

    /// Whether there is such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        COLUMNS.iter().zip(&self.places).any(|(name, place)| *name == column && place.is_some())
    }

    /// The profile and details of a row.
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

/// The position of a column: by its own name, ignoring case, or by the exact header it is mapped to.
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
