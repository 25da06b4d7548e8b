//! What all rows of a file have in common, and what a row means in it.

use contactd_core::{Networks, Record, RecordError};

use crate::header::Columns;
use crate::json_rows;
use crate::rows::{Content, Defaults, Row};

/// What all rows of a file have in common.
pub(crate) struct Layout {
    /// The name of the file in messages.
    pub(crate) file: String,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    /// Fields under a header.
    Fields(Columns),
    /// One JSON object per row.
    Json,
}

impl Layout {
    /// The profile and details of the row.
    pub(crate) fn record(
        &self,
        row: &Row,
        networks: &Networks,
        defaults: &Defaults,
    ) -> Result<Record, RecordError> {
        match (&row.content, &self.shape) {
            (Content::Fields(fields), Shape::Fields(columns)) => columns.record(fields, networks, defaults),
            (Content::Json(text), _) => json_rows::record(text, networks, defaults),
            (Content::Fields(_), Shape::Json) => Err(RecordError { column: "row", reason: "not_json" }),
        }
    }
}
