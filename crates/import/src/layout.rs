//! What all rows of a file have in common, and what a row means in it.

use contactd_core::Networks;

use crate::header::Columns;
use crate::json_rows;
use crate::read_row::{Fault, ReadRow};
use crate::rows::{Content, Row};
use crate::seen::Seen;
use crate::suggest::suggestions;
use crate::{InputRead, ReadOptions};

/// What all rows of a file have in common.
pub(crate) struct Layout {
    /// The name of the file in messages.
    pub(crate) file: String,
    /// Which of the inputs it is, counted from 0.
    pub(crate) input: usize,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    /// A CSV.
    Csv { columns: Columns, delimiter: u8, has_sep_line: bool, has_mark: bool, encoding: &'static str },
    /// A Parquet file; its rows have only the columns that are used.
    Parquet { columns: Columns, not_used: Vec<String> },
    /// One JSON object per row.
    Json { encoding: &'static str },
}

impl Layout {
    /// What was read from the row. Names of unknown fields are added to `seen`.
    pub(crate) fn read(
        &self,
        row: &Row,
        networks: &Networks,
        options: &ReadOptions,
        seen: &mut Seen,
    ) -> ReadRow {
        match (&row.content, &self.shape) {
            (Content::Fields(fields), Shape::Csv { columns, .. } | Shape::Parquet { columns, .. }) => {
                columns.read(fields, networks, options)
            }
            (Content::Json(text), _) => json_rows::read(text, networks, options, seen),
            (Content::Fields(_), Shape::Json { .. }) => ReadRow::rejected(Fault::of_row("not_json")),
        }
    }

    /// The texts that a row has in the columns of the import format, as they are in the file: the position of the column in
    /// [`COLUMNS`](crate::COLUMNS), and the text.
    pub(crate) fn texts(&self, row: &Row, options: &ReadOptions) -> Vec<(usize, String)> {
        match (&row.content, &self.shape) {
            (Content::Fields(fields), Shape::Csv { columns, .. } | Shape::Parquet { columns, .. }) => {
                columns.texts(fields)
            }
            (Content::Json(text), _) => json_rows::texts(text, options),
            (Content::Fields(_), Shape::Json { .. }) => Vec::new(),
        }
    }

    /// What the report says about the file.
    pub(crate) fn about(&self) -> InputRead {
        let file = self.file.clone();
        match &self.shape {
            Shape::Csv { columns, delimiter, encoding, .. } => {
                let columns_not_used = columns.not_used();
                InputRead {
                    file,
                    format: "csv",
                    encoding: Some(encoding),
                    delimiter: Some((*delimiter).into()),
                    holds_rejects: !columns.about_rejects.is_empty(),
                    suggested_mapping: suggestions(&columns_not_used, |column| columns.has(column)),
                    columns_not_used,
                }
            }
            Shape::Parquet { columns, not_used } => InputRead {
                file,
                format: "parquet",
                suggested_mapping: suggestions(not_used, |column| columns.has(column)),
                columns_not_used: not_used.clone(),
                ..InputRead::default()
            },
            Shape::Json { encoding } => {
                InputRead { file, format: "jsonl", encoding: Some(encoding), ..InputRead::default() }
            }
        }
    }
}
