//! Reading the stored rows of the profiles of an import, which come in order.
//!
//! A large import, or one that replaces a source, scans the table once, in step with its own rows. A
//! small import looks each profile up. An import into an empty store reads nothing.

use std::collections::VecDeque;

use contactd_core::store::place::{IDS_OF_PLACE, first_id};
use contactd_core::{Kind, Profile};
use rusqlite::{Connection, Result};

use crate::profile_rows::{ProfileRows, StoredRow};

/// Rows read at a time.
const CHUNK: i64 = 5_000;

/// Looking up one profile costs about as much as scanning this many.
const SCAN_WORTH: u64 = 20;

pub(crate) struct Ahead {
    strategy: Strategy,
    /// The highest first id of a profile read so far.
    done_to: i64,
}

enum Strategy {
    Lookups,
    Nothing,
    Scan { rows: VecDeque<StoredRow>, next: i64, is_last: bool },
}

impl Ahead {
    /// For profiles in any order.
    pub(crate) fn lookups() -> Self {
        Self { strategy: Strategy::Lookups, done_to: -1 }
    }

    /// For about `coming` records in order, with `held` profiles in the store. `all`: every row has to be read.
    pub(crate) fn in_order(coming: u64, held: u64, all: bool) -> Self {
        let strategy = match held {
            0 => Strategy::Nothing,
            _ if all || coming.saturating_mul(SCAN_WORTH) > held => {
                Strategy::Scan { rows: VecDeque::new(), next: 0, is_last: false }
            }
            _ => Strategy::Lookups,
        };
        Self { strategy, ..Self::lookups() }
    }

    /// Whether the rows of this profile, or of another one with the same hash, may have been read already.
    pub(crate) fn has_passed(&self, profile: &Profile) -> bool {
        first_id(profile, Kind::Phone) <= self.done_to
    }

    /// The stored rows of a profile.
    pub(crate) fn rows_of(&mut self, connection: &Connection, profile: &Profile) -> Result<ProfileRows> {
        let first = first_id(profile, Kind::Phone);
        let is_again = self.has_passed(profile);
        self.done_to = self.done_to.max(first);
        match &self.strategy {
            Strategy::Nothing if !is_again => Ok(ProfileRows::of(profile, Vec::new())),
            Strategy::Scan { .. } if !is_again => {
                while self.pass(connection, first, |_| {})? {}
                let mut rows = Vec::new();
                while self.pass(connection, first + IDS_OF_PLACE, |row| rows.push(row))? {}
                Ok(ProfileRows::of(profile, rows))
            }
            _ => ProfileRows::read(connection, profile),
        }
    }

    /// In a scan, passes the rows before `end` to `give`, at most one chunk per call. Returns whether there
    /// may be more.
    pub(crate) fn pass(
        &mut self,
        connection: &Connection,
        end: i64,
        mut give: impl FnMut(StoredRow),
    ) -> Result<bool> {
        let Strategy::Scan { rows, next, is_last } = &mut self.strategy else { return Ok(false) };
        while rows.front().is_some_and(|row| row.id < end) {
            rows.pop_front().into_iter().for_each(&mut give);
        }
        if !rows.is_empty() || *is_last {
            return Ok(false);
        }
        let read = StoredRow::read(connection, (*next, i64::MAX, CHUNK))?;
        match read.last() {
            Some(last) => *next = last.id + 1,
            None => *is_last = true,
        }
        rows.extend(read);
        Ok(true)
    }
}
