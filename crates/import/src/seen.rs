//! Which fields the lines of a JSON file have.

use std::collections::BTreeSet;

use crate::COLUMNS;
use crate::InputRead;
use crate::suggest::suggestions;

/// How many names of unknown fields are kept.
const MOST_NAMES: usize = 100;

/// The fields of some lines.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Fields that mean nothing to an import.
    not_used: BTreeSet<String>,
    /// Columns that some line has.
    columns: [bool; COLUMNS.len()],
    /// Whether some line is a rejected line of an earlier import.
    pub(crate) has_rejects: bool,
}

impl Seen {
    pub(crate) fn column(&mut self, column: usize) {
        self.columns[column] = true;
    }

    pub(crate) fn not_used(&mut self, name: &str) {
        if !self.not_used.contains(name) && self.not_used.len() < MOST_NAMES {
            self.not_used.insert(name.to_owned());
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for name in &other.not_used {
            self.not_used(name);
        }
        for (column, is_there) in self.columns.iter_mut().zip(other.columns) {
            *column |= is_there;
        }
        self.has_rejects |= other.has_rejects;
    }

    /// Adds to what the report says about the file.
    pub(crate) fn report(&self, about: &mut InputRead) {
        about.holds_rejects |= self.has_rejects;
        if about.columns_not_used.is_empty() && !self.not_used.is_empty() {
            about.columns_not_used = self.not_used.iter().cloned().collect();
            let is_there =
                |column: &str| COLUMNS.iter().zip(self.columns).any(|(name, is)| *name == column && is);
            about.suggested_mapping = suggestions(&about.columns_not_used, is_there);
        }
    }
}
