//! One thread's snapshot of the details.
//!
//! Beginning a read transaction costs more than the read itself, so a reader keeps its snapshot across
//! lookups. The snapshot ends when a change is announced (the generation increases) or when
//! [`Reader::renew`] is called, which the serving thread does every 100 ms, also when idle. A longer
//! snapshot would hide changes and block checkpoints.

use std::cell::Cell;
use std::path::Path;

use contactd_core::store::{StoreError, Verdict};
use contactd_core::{ContactValue, Kind, Profile, Timestamp};
use rusqlite::Connection;

use crate::{connection, place};

pub(crate) struct Reader {
    connection: Connection,
    /// The generation of the current snapshot, if there is one.
    held: Cell<Option<u64>>,
}

/// Rows from the id of a profile's best detail of a kind on, each with whether it may be returned.
// 32768 is place::PLACES.
const FROM_PLACE: &str = "SELECT
        id < ?1 + 32768 AND profile = ?2 AND label = 0 AND (expires_at IS NULL OR expires_at > ?3), value, id
    FROM details WHERE id >= ?1 ORDER BY id";

/// If no row is taken, at least this many are read (unless the table ends), so that a person whose detail
/// is not taken costs the same as a person without one.
const LEAST_ROWS: u32 = 2;

impl Reader {
    pub(crate) fn open(file: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: connection::reader(file)?, held: Cell::new(None) })
    }

    /// Reads in a snapshot that is not older than `generation`.
    pub(crate) fn best_personal(
        &self,
        generation: u64,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>, StoreError> {
        let found = self.hold(generation).and_then(|()| self.first_taken(profile, kind, now, judge));
        found.map_err(|error| {
            self.renew();
            connection::error(error)
        })
    }

    fn first_taken(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> rusqlite::Result<Option<ContactValue>> {
        let mut statement = self.connection.prepare_cached(FROM_PLACE)?;
        let first = place::first_id(profile, kind);
        let mut rows = statement.query((first, profile.key(), now.seconds()))?;
        let (mut read, mut is_over) = (0, false);
        while let Some(row) = rows.next()? {
            read += 1;
            #[cfg(test)]
            tests::ROWS.set(tests::ROWS.get() + 1);
            let counts = !is_over && row.get::<_, bool>(0)?;
            // The first row is always judged, even if it belongs to another profile, so that timing is equal.
            if counts || read == 1 {
                let value = row.get_ref(1)?.as_str()?;
                let verdict = judge(value);
                if counts && verdict == Verdict::Take {
                    return Ok(Some(ContactValue::from_store(value.to_owned())));
                }
                is_over |= counts && verdict == Verdict::Enough;
            }
            is_over |= row.get::<_, i64>(2)? >= first + place::PLACES;
            if is_over && read >= LEAST_ROWS {
                break;
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
            // A read transaction has nothing to lose, so errors are ignored. If COMMIT fails, roll back.
            let ended = self.connection.prepare_cached("COMMIT").and_then(|mut end| end.execute(()));
            if ended.is_err() && !self.connection.is_autocommit() {
                let _ = self.connection.execute_batch("ROLLBACK");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;
    use crate::testing::put_all;
    use contactd_core::store::LocalRead;
    use contactd_core::{Detail, Label, Record};

    thread_local! {
        /// Rows read on this thread.
        pub(super) static ROWS: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn whoever_is_not_found_costs_as_many_rows() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");
        let at = Timestamp::from_seconds(1_000);
        let profile = |slug: &str| Profile::from_key(&format!("linkedin.com/in/{slug}"));
        let value = |text: &str| ContactValue::from_store(text.to_owned());
        let phone = Detail::new(Kind::Phone, value("+14155550101"), "crm");
        let mut records: Vec<Record> = [
            ("held", phone.clone()),
            ("work", Detail { label: Label::Work, ..phone.clone() }),
            ("expired", Detail { expires_at: Some(at), ..phone.clone() }),
            ("empty", Detail::new(Kind::Email, value("e@example.com"), "crm")),
        ]
        .into_iter()
        .map(|(slug, detail)| Record { profile: profile(slug), details: vec![detail] })
        .collect();
        // More rows, so that each of the profiles above is followed by another in the table.
        records.extend(
            (0..200)
                .map(|n| Record { profile: profile(&format!("other-{n}")), details: vec![phone.clone()] }),
        );
        put_all(&store, records);
        for (slug, verdict) in [
            ("unknown", Verdict::Take),
            ("work", Verdict::Take),
            ("expired", Verdict::Take),
            ("empty", Verdict::Take),
            // The person has opted out; the number has opted out.
            ("held", Verdict::Enough),
            ("held", Verdict::Next),
        ] {
            ROWS.set(0);
            let judged = Cell::new(0);
            let judge = |_: &str| {
                judged.set(judged.get() + 1);
                verdict
            };
            let found = store.best_personal(&profile(slug), Kind::Phone, at, judge);
            assert!(found.expect("reads").is_none(), "{slug}");
            assert_eq!((ROWS.get(), judged.get()), (LEAST_ROWS, 1), "{slug}, {verdict:?}");
        }
    }
}
