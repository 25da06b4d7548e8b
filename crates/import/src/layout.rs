//! What all rows of a file have in common, and what a row means in it.

use contactd_core::Networks;

use crate::countries::Countries;
use crate::dialect::Dialect;
use crate::encoding::{Encoding, FoundEncoding};
use crate::header::Columns;
use crate::json_rows;
use crate::read_row::{Fault, ReadRow};
use crate::rows::{Content, Row};
use crate::seen::Seen;
use crate::suggest::suggestions;
use crate::{FileError, Format, InputRead, ReadOptions, listed};

/// What all rows of a file have in common.
pub(crate) struct Layout {
    /// The name of the file in messages.
    pub(crate) file: String,
    /// Which of the inputs it is, counted from 0.
    pub(crate) input: usize,
    pub(crate) written: Written,
    /// Its columns, unless each row is a JSON object.
    pub(crate) columns: Option<Columns>,
    /// In a Parquet file, rows have only the columns that are used. These are the others.
    pub(crate) not_read: Vec<String>,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    Csv { dialect: Dialect, has_mark: bool, encoding: FoundEncoding },
    Parquet,
    Xlsx { sheet: String, sheets: Vec<String> },
    Json { encoding: FoundEncoding },
}

impl Written {
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Csv { .. } => Format::Csv,
            Self::Parquet => Format::Parquet,
            Self::Xlsx { .. } => Format::Xlsx,
            Self::Json { .. } => Format::Jsonl,
        }
    }

    /// The encoding of a text in which bytes that are not valid are lost: any but UTF-8.
    pub(crate) fn lost_bytes(&self) -> Option<&'static str> {
        match self {
            Self::Csv { encoding, .. } | Self::Json { encoding } => {
                Some(encoding.get()).filter(|encoding| *encoding != Encoding::UTF8).map(Encoding::name)
            }
            Self::Parquet | Self::Xlsx { .. } => None,
        }
    }

    /// An error about the columns, with the sheets that have others.
    pub(crate) fn other_sheets(&self, error: FileError) -> FileError {
        match self {
            Self::Xlsx { sheet, sheets } if sheets.len() > 1 => {
                let others: Vec<String> = sheets.iter().filter(|other| *other != sheet).cloned().collect();
                let advice = format!("; this is the sheet {sheet}, not {}", listed(&others));
                FileError::Advised { error: Box::new(error), advice }
            }
            _ => error,
        }
    }

    /// What a report says about it.
    pub(crate) fn about(&self, file: &str) -> InputRead {
        let file = file.to_owned();
        match self {
            Self::Csv { dialect, encoding, .. } => InputRead {
                file,
                format: "csv",
                encoding: Some(encoding.get().name()),
                delimiter: Some(dialect.delimiter.into()),
                ..InputRead::default()
            },
            Self::Parquet => InputRead { file, format: "parquet", ..InputRead::default() },
            Self::Xlsx { sheet, sheets } => InputRead {
                file,
                format: "xlsx",
                sheet: Some(sheet.clone()),
                other_sheets: sheets.iter().filter(|other| *other != sheet).cloned().collect(),
                ..InputRead::default()
            },
            Self::Json { encoding } => InputRead {
                file,
                format: "jsonl",
                encoding: Some(encoding.get().name()),
                ..InputRead::default()
            },
        }
    }
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
        match (&row.content, &self.columns) {
            (Content::Fields(fields), Some(columns)) => columns.read(fields, networks, options),
            (Content::Json(text), _) => json_rows::read(text, networks, options, seen),
            (Content::Fields(_), None) => ReadRow::rejected(Fault::of_row("not_json")),
        }
    }

    /// The texts that a row has in the fields of the import format, as they are in the file: the name of the field, and the text.
    pub(crate) fn texts(&self, row: &Row, options: &ReadOptions) -> Vec<(&'static str, String)> {
        match (&row.content, &self.columns) {
            (Content::Fields(fields), Some(columns)) => columns.texts(fields),
            (Content::Json(text), _) => json_rows::texts(text, options),
            (Content::Fields(_), None) => Vec::new(),
        }
    }

    /// Notes the phone numbers of a row that names no country itself.
    pub(crate) fn note_countries(&self, row: &Row, options: &ReadOptions, countries: &mut Countries) {
        let texts = self.texts(row, options);
        if texts.iter().any(|(field, text)| *field == "region" && !text.trim().is_empty()) {
            return;
        }
        for (_, text) in
            texts.iter().filter(|(field, _)| field.starts_with("phone") && *field != "phoneLabel")
        {
            countries.note(text);
        }
    }

    /// The name of its encoding, as far as it is known, if it is a text.
    pub(crate) fn encoding(&self) -> Option<&'static str> {
        match &self.written {
            Written::Csv { encoding, .. } | Written::Json { encoding } => Some(encoding.get().name()),
            Written::Parquet | Written::Xlsx { .. } => None,
        }
    }

    /// What the report says about the file.
    pub(crate) fn about(&self) -> InputRead {
        let mut about = self.written.about(&self.file);
        if let Some(columns) = &self.columns {
            about.holds_rejects = !columns.about_rejects.is_empty();
            about.columns_not_used =
                if self.not_read.is_empty() { columns.not_used() } else { self.not_read.clone() };
            about.suggested_mapping = suggestions(&about.columns_not_used, |column| columns.has(column));
        }
        about
    }
}
