//! One thread's view of the details.
//!
//! Beginning a read transaction costs more than the read itself, so a reader keeps its
//! snapshot across lookups: until a change is announced (the generation goes up), and until
//! [`Reader::renew`] ends it, which the serving thread does every 100 ms, also when idle. A
//! snapshot held longer would hide changes and stop checkpoints.

use std::cell::Cell;
use std::path::Path;

use contactd_core::store::StoreError;
use contactd_core::{ContactValue, Kind, Profile, Timestamp};
use rusqlite::Connection;

use crate::{connection, place};

pub(crate) struct Reader {
    connection: Connection,
    /// The generation of the snapshot that is held, if one is.
    held: Cell<Option<u64>>,
}

// 32768 is place::PLACES.
const BEST_PERSONAL: &str = "SELECT value FROM details WHERE id >= ?1 AND id < ?1 + 32768
    AND profile = ?2 AND label = 0 AND (expires_at IS NULL OR expires_at > ?3) ORDER BY id";

impl Reader {
    pub(crate) fn open(file: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: connection::reader(file)?, held: Cell::new(None) })
    }

    /// Reads in a snapshot no older than `generation`.
    pub(crate) fn best_personal(
        &self,
        generation: u64,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        accept: impl Fn(&str) -> bool,
    ) -> Result<Option<ContactValue>, StoreError> {
        let found = self.hold(generation).and_then(|()| self.first_accepted(profile, kind, now, accept));
        found.map_err(|error| {
            self.renew();
            connection::error(error)
        })
    }

    fn first_accepted(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        accept: impl Fn(&str) -> bool,
    ) -> rusqlite::Result<Option<ContactValue>> {
        let mut statement = self.connection.prepare_cached(BEST_PERSONAL)?;
        let mut rows = statement.query((place::first_id(profile, kind), profile.key(), now.seconds()))?;
        while let Some(row) = rows.next()? {
            let value = row.get_ref(0)?.as_str()?;
            if accept(value) {
                return Ok(Some(ContactValue::from_store(value.to_owned())));
            }
        }
        Ok(None)
    }

    fn hold(&self, generation: u64) -> rusqlite::Result<()> {
        if self.held.get() == Some(generation) {
            return Ok(());
        }
        self.renew();
        self.connection.prepare_cached("BEGIN")?.execute(())?;
        self.held.set(Some(generation));
        Ok(())
    }

    /// Ends the snapshot, if one is held.
    pub(crate) fn renew(&self) {
        if self.held.take().is_some() {
            // A read transaction has nothing to lose: if it cannot be ended it is not there.
            let ended = self.connection.prepare_cached("COMMIT").and_then(|mut end| end.execute(()));
            if ended.is_err() && !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
    }
}
