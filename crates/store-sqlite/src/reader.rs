//! One thread's snapshot of the details, for what the lookup table cannot tell.
//!
//! Beginning a read transaction costs more than the read itself, so a reader keeps its snapshot across
//! lookups. The snapshot ends when a change is announced (the generation increases) or when
//! [`Reader::renew`] is called, which the serving thread does every 100 ms, also when idle. A longer
//! snapshot would hide changes and block checkpoints.
//!
//! After an error, [`Reader::renew`] opens the file again, so that nothing of what was read before is kept: once the file
//! or the disk is repaired, lookups work again. If the file is locked, only one lookup waits for it between two renewals.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use contactd_core::store::{LocalRead, StoreError, Stored, Verdict, place};
use contactd_core::{ContactValue, Kind, Profile, Timestamp, blocking};
use rusqlite::{Connection, Result};

use crate::{SqliteStore, connection};

impl LocalRead for SqliteStore {
    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>> {
        let generation = self.generation.load(Ordering::SeqCst);
        let seen = self.seen.get_or_default();
        if seen.0.borrow().0 != Some(generation) {
            *seen.0.borrow_mut() = (Some(generation), self.lookup_table.current());
        }
        match seen.0.borrow().1.find(profile, kind, now, &judge) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(unsure)) => self.lookup_table.note(unsure),
            None => {}
        }
        let reader = self.readers.get_or_try(|| Reader::open(&self.details_file()))?;
        reader.best_personal(generation, profile, kind, now, judge)
    }

    fn renew(&self) {
        if let Some(reader) = self.readers.get() {
            reader.renew();
        }
        if let Some(seen) = self.seen.get() {
            seen.0.take();
        }
    }

    fn renew_all(&self) {
        blocking(|| self.lookup_table.follow());
        self.generation.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) struct Reader {
    file: PathBuf,
    connection: RefCell<Connection>,
    /// What the last lookup met, if it failed.
    trouble: Cell<Option<Trouble>>,
    /// The generation of the current snapshot, if there is one.
    held: Cell<Option<u64>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    /// Another process locks the file.
    Locked,
    /// It could not be read, or is damaged.
    Unreadable,
}

/// Rows from the id of a profile's best detail of a kind on, each with whether it may be returned.
// 32768 is place::IDS_OF_KIND.
const FROM_PLACE: &str = "SELECT
        id < ?1 + 32768 AND profile = ?2 AND label = 0 AND (expires_at IS NULL OR expires_at > ?3), value, id, profile
    FROM details WHERE id >= ?1 ORDER BY id";

/// If no row is taken, at least this many are read (unless the table ends), so that a person whose detail
/// is not taken costs the same as a person without one.
const LEAST_ROWS: u32 = 2;

impl Reader {
    pub(crate) fn open(file: &Path) -> Stored<Self> {
        let connection = RefCell::new(connection::stored(|| connection::lookup_reader(file))?);
        Ok(Self { file: file.to_owned(), connection, trouble: Cell::new(None), held: Cell::new(None) })
    }

    /// Reads in a snapshot that is not older than `generation`.
    pub(crate) fn best_personal(
        &self,
        generation: u64,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Stored<Option<ContactValue>> {
        if self.trouble.get() == Some(Trouble::Locked) {
            return Err(told(StoreError::Busy));
        }
        let found = self.hold(generation).and_then(|()| self.first_taken(profile, kind, now, judge));
        found.map_err(|error| {
            self.end_snapshot();
            let error = connection::error(error);
            let is_locked = matches!(error, StoreError::Busy);
            self.trouble.set(Some(if is_locked { Trouble::Locked } else { Trouble::Unreadable }));
            told(error)
        })
    }

    fn first_taken(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict,
    ) -> Result<Option<ContactValue>> {
        let connection = self.connection.borrow();
        let mut statement = connection.prepare_cached(FROM_PLACE)?;
        let first = place::first_id(profile, kind);
        let mut rows = statement.query((first, profile.key(), now.seconds()))?;
        let (mut read, mut is_over) = (0, false);
        while let Some(row) = rows.next()? {
            read += 1;
            #[cfg(test)]
            tests::ROWS.set(tests::ROWS.get() + 1);
            let id = row.get::<_, i64>(2)?;
            if !place::is_place_of(id, row.get_ref(3)?.as_str()?) {
                return Err(connection::damaged());
            }
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
            is_over |= id >= first + place::IDS_OF_KIND;
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
        self.end_snapshot();
        self.connection.borrow().prepare_cached("BEGIN")?.execute(())?;
        self.held.set(Some(generation));
        Ok(())
    }

    /// Ends the snapshot, if one is held. After an error, it opens the file again.
    pub(crate) fn renew(&self) {
        self.end_snapshot();
        if self.trouble.take() == Some(Trouble::Unreadable) {
            match connection::lookup_reader(&self.file) {
                Ok(opened) => drop(self.connection.replace(opened)),
                // It is tried again; until then the old connection may still read what is whole.
                Err(_) => self.trouble.set(Some(Trouble::Unreadable)),
            }
        }
    }

    fn end_snapshot(&self) {
        if self.held.take().is_some() {
            let connection = self.connection.borrow();
            // A read transaction has nothing to lose, so errors are ignored. If COMMIT fails, roll back.
            let ended = connection.prepare_cached("COMMIT").and_then(|mut end| end.execute(()));
            if ended.is_err() && !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
        }
    }
}

/// Names the file that a lookup found locked or damaged.
fn told(error: StoreError) -> StoreError {
    match error {
        StoreError::Busy => StoreError::Unavailable(
            "another process locks details.db; wait until it has finished, or end it".to_owned(),
        ),
        StoreError::Damaged(_) => StoreError::Damaged(
            "details.db is damaged: lookups that need the damaged page fail, the others work; restore the data directory from a backup"
                .to_owned(),
        ),
        other => other,
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
