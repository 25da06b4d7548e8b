//! What is held about the profiles of an import that comes in order.
//!
//! An import that touches a good part of the store reads it once from front to back, beside its own
//! rows; a small one looks each profile up; one into an empty store reads nothing.

use std::collections::VecDeque;

use contactd_core::{Kind, Profile};
use rusqlite::Connection;

use crate::place::{PLACES_OF_PROFILE, first_id};
use crate::profile_rows::{ProfileRows, SourceNames, StoredRow};

/// Rows read in one go.
const CHUNK: i64 = 5_000;

/// Looking one profile up costs about as much as reading so many in a row.
const SCAN_WORTH: u64 = 20;

pub(crate) struct Ahead {
    names: SourceNames,
    way: Way,
    /// Up to here profiles have been read.
    done_to: i64,
}

enum Way {
    Lookups,
    Nothing,
    Scan { rows: VecDeque<StoredRow>, next: i64, is_last: bool },
}

impl Ahead {
    /// For profiles in any order.
    pub(crate) fn lookups() -> Self {
        Self { names: SourceNames::default(), way: Way::Lookups, done_to: -1 }
    }

    /// For so many profiles in order, where so many are held. `all` where every row has to be seen.
    pub(crate) fn in_order(coming: u64, held: u64, all: bool) -> Self {
        let way = match held {
            0 => Way::Nothing,
            _ if all || coming.saturating_mul(SCAN_WORTH) > held => {
                Way::Scan { rows: VecDeque::new(), next: 0, is_last: false }
            }
            _ => Way::Lookups,
        };
        Self { way, ..Self::lookups() }
    }

    /// What is held about a profile.
    pub(crate) fn rows_of(
        &mut self,
        connection: &Connection,
        profile: &Profile,
    ) -> rusqlite::Result<ProfileRows> {
        let first = first_id(profile, Kind::Phone);
        let is_again = first <= self.done_to;
        self.done_to = self.done_to.max(first);
        match &self.way {
            Way::Nothing if !is_again => Ok(ProfileRows::of(profile, Vec::new())),
            Way::Scan { .. } if !is_again => {
                while self.pass(connection, first, |_| {})? {}
                let mut rows = Vec::new();
                while self.pass(connection, first + PLACES_OF_PROFILE, |row| rows.push(row))? {}
                Ok(ProfileRows::of(profile, rows))
            }
            _ => ProfileRows::read(connection, &mut self.names, profile),
        }
    }

    /// Gives away rows before `end`, if everything is read: as many as were read in one go. Whether there
    /// may be more.
    pub(crate) fn pass(
        &mut self,
        connection: &Connection,
        end: i64,
        mut give: impl FnMut(StoredRow),
    ) -> rusqlite::Result<bool> {
        let Way::Scan { rows, next, is_last } = &mut self.way else { return Ok(false) };
        while rows.front().is_some_and(|row| row.id < end) {
            rows.pop_front().into_iter().for_each(&mut give);
        }
        if !rows.is_empty() || *is_last {
            return Ok(false);
        }
        let read = StoredRow::read(connection, &mut self.names, (*next, i64::MAX, CHUNK))?;
        match read.last() {
            Some(last) => *next = last.id + 1,
            None => *is_last = true,
        }
        rows.extend(read);
        Ok(true)
    }
}
