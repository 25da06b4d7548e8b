//! Which column of a file is which field. A number or an address may have several columns, each with its label.

use contactd_core::{Kind, Label};

use crate::columns::{EMAIL, EMAIL_LABEL, PHONE, PHONE_LABEL};
use crate::{COLUMNS, FileError, ReadOptions};

/// What a column of a file can be: a column of the import format, or a number or an address with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    column: usize,
    label: Option<Label>,
}

/// Numbers and addresses with a label.
const LABELLED: [(&str, usize, Label); 4] = [
    ("phone:personal", PHONE, Label::Personal),
    ("phone:work", PHONE, Label::Work),
    ("email:personal", EMAIL, Label::Personal),
    ("email:work", EMAIL, Label::Work),
];

impl Field {
    /// The field with this name, such as `phone` or `phone:work`.
    pub fn parse(name: &str) -> Option<Self> {
        let plain = COLUMNS.iter().position(|column| *column == name);
        let labelled = || LABELLED.iter().find(|(labelled, ..)| *labelled == name);
        match plain {
            Some(column) => Some(Self { column, label: None }),
            None => labelled().map(|(_, column, label)| Self { column: *column, label: Some(*label) }),
        }
    }

    /// The field of a detail: a personal one has no label in the name of its field.
    pub(crate) fn of(kind: Kind, label: Label) -> Self {
        let column = if kind == Kind::Phone { PHONE } else { EMAIL };
        Self { column, label: (label == Label::Work).then_some(label) }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let is_same =
            |(_, column, label): &&(_, usize, Label)| *column == self.column && Some(*label) == self.label;
        LABELLED.iter().find(is_same).map_or(COLUMNS[self.column], |(name, ..)| name)
    }

    /// Its column of the import format, counted from 0.
    pub(crate) fn column(self) -> usize {
        self.column
    }

    /// The name of its column of the import format.
    pub(crate) fn column_name(self) -> &'static str {
        COLUMNS[self.column]
    }

    /// Whether several columns can be it.
    pub fn may_repeat(self) -> bool {
        matches!(self.column, PHONE | EMAIL)
    }

    pub(crate) fn label(self) -> Option<Label> {
        self.label
    }

    /// The column with the label of its values.
    pub(crate) fn label_column(self) -> usize {
        if self.column == PHONE { PHONE_LABEL } else { EMAIL_LABEL }
    }
}

impl ReadOptions {
    /// The columns of numbers and addresses besides the one that has a field of its own: those with a label, and the second and later
    /// ones of a kind. Each with its header.
    pub(crate) fn more_values(&self) -> impl Iterator<Item = (Field, &str)> {
        let is_first = |at: usize, name: &str| !self.mapping[..at].iter().any(|(other, _)| other == name);
        self.mapping.iter().enumerate().filter_map(move |(at, (name, header))| {
            let field = Field::parse(name)?;
            let is_more = field.label.is_some() || field.may_repeat() && !is_first(at, name);
            is_more.then_some((field, header.as_str()))
        })
    }

    /// Fails if a mapping says two things.
    pub fn check_mapping(&self) -> Result<(), FileError> {
        for (at, (name, header)) in self.mapping.iter().enumerate() {
            let Some(field) = Field::parse(name) else {
                return Err(FileError::unusable(format!(
                    "the mapping names a field that an import does not have; the fields are {}",
                    field_names().join(", ")
                )));
            };
            let before = &self.mapping[..at];
            if !field.may_repeat() && before.iter().any(|(other, _)| other == name) {
                return Err(FileError::unusable(format!("the mapping names {name} twice; name it once")));
            }
            if let Some((other, _)) = before.iter().find(|(_, other)| other == header) {
                return Err(FileError::unusable(format!(
                    "the mapping names one column for {other} and for {name}; a column can be one of them"
                )));
            }
        }
        Ok(())
    }
}

/// The names of all fields.
pub fn field_names() -> Vec<&'static str> {
    COLUMNS.into_iter().chain(LABELLED.iter().map(|(name, ..)| *name)).collect()
}
