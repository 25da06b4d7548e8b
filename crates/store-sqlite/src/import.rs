//! Importing: one transaction, so that a crash at any moment leaves the old data or the new data, never a mix.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use contactd_core::store::merge::Merging;
use contactd_core::store::place::first_id;
use contactd_core::store::{
    FormerDetail, FormerTotal, Import, ImportPlan, ImportSummary, Importing, Noted, PastImport, Stored, Undo,
    Undone, ValueOfProfile, WithdrawnFrom,
};
use contactd_core::{Kind, Profile, Record, Timestamp};
use rusqlite::{Connection, Result, params};

use crate::ahead::Ahead;
use crate::former;
use crate::lookup_table::{self, MOST_CHANGED, Made, MadeBeside};
use crate::profile_rows::{NewRows, ProfileRows};
use crate::steady::SteadySync;
use crate::writing::Writing;
use crate::{SqliteStore, connection, outbox, totals, undo, wipe};

#[async_trait]
impl Importing for SqliteStore {
    async fn begin_import(&self, plan: &ImportPlan) -> Stored<Box<dyn Import + '_>> {
        Ok(Box::new(connection::run_blocking(|| SqliteImport::begin(&self.dir, plan))?))
    }

    async fn list_imports(&self) -> Stored<Vec<PastImport>> {
        self.read_details(|details| totals::imports(details, "ORDER BY id"))
    }

    async fn undo_import(&self, id: i64, at: Timestamp, entry: Noted<'_>) -> Stored<Undo> {
        self.change_details(|transaction, writing| {
            let undone = undo::undo(transaction, writing, id, at)?;
            if let Undo::Done(Undone { removed, restored }) = undone {
                outbox::add(transaction, entry, &[("removed", removed), ("restored", restored)])?;
            }
            Ok(undone)
        })
    }

    async fn list_former(&self, profile: &Profile) -> Stored<Vec<FormerDetail>> {
        self.read_details(|details| former::list(details, profile))
    }

    async fn former_total(&self) -> Stored<FormerTotal> {
        self.read_details(former::total)
    }
}

/// An import in progress, on its own connection. Dropping it rolls it back.
pub(crate) struct SqliteImport {
    connection: Connection,
    steady: SteadySync,
    /// The data directory.
    dir: PathBuf,
    at: Timestamp,
    merging: Merging,
    writing: Writing,
    ahead: Ahead,
    same_hash: SameHash,
    /// Rows of the batch that is being put. They are inserted before anything that may be among them is read.
    new_rows: NewRows,
    /// The next lookup table, while everything that will be held is in `new_rows`.
    table: Option<MadeBeside>,
}

impl SqliteImport {
    fn begin(dir: &Path, plan: &ImportPlan) -> Result<Self> {
        let file = dir.join("details.db");
        let connection = connection::impatient_writer(&file)?;
        // What is in memory when it commits is written at once. Records come in the store's order, so little is enough.
        connection.execute_batch("PRAGMA cache_size = -16384; BEGIN IMMEDIATE")?;
        Self::prepare(connection, SteadySync::of(&file), dir.to_owned(), plan)
    }

    fn prepare(connection: Connection, steady: SteadySync, dir: PathBuf, plan: &ImportPlan) -> Result<Self> {
        let id =
            connection.query_row("SELECT coalesce(max(id), 0) + 1 FROM imports", (), |row| row.get(0))?;
        let held = connection.query_row("SELECT count FROM profile_total", (), |row| row.get(0))?;
        let aged = connection
            .prepare("SELECT id FROM sources WHERE max_age IS NOT NULL")
            .and_then(|mut aged| aged.query_map((), |row| row.get(0))?.collect())?;
        let mut merging = Merging::new(id, held_by(&connection, &plan.replaced)?, plan.keep_former);
        merging.aged = aged;
        let fills_an_empty_store = held == 0 && plan.records > MOST_CHANGED as u64;
        let mut import = Self {
            at: plan.at,
            table: fills_an_empty_store.then(|| MadeBeside::begin(&dir)).flatten(),
            merging,
            writing: Writing::default(),
            ahead: Ahead::in_order(plan.records, held, !plan.replaced.is_empty()),
            connection,
            steady,
            dir,
            same_hash: SameHash::default(),
            new_rows: NewRows::default(),
        };
        if let Some((sources, max_age)) = &plan.max_age {
            let seconds = i64::try_from(max_age.as_secs()).unwrap_or(i64::MAX);
            for source in sources {
                let id = import.writing.sources.of(&import.connection, "sources", source)?;
                import.merging.aged.insert(id);
                import.connection.execute("UPDATE sources SET max_age = ?2 WHERE id = ?1", (id, seconds))?;
            }
        }
        for source in &plan.replaced {
            let id = import.writing.sources.of(&import.connection, "sources", source)?;
            import.merging.sources.insert(id);
        }
        Ok(import)
    }

    fn put_record(&mut self, record: &Record) -> Result<()> {
        let Record { profile, details } = record;
        self.withdraw_before(first_id(profile, Kind::Phone))?;
        if self.ahead.has_passed(profile) {
            self.insert_new_rows()?;
        }
        let mut rows = self.ahead.rows_of(&self.connection, profile)?;
        if !rows.details.is_empty() {
            self.table = None;
        }
        self.same_hash.note(profile, &rows.others);
        let (connection, import) = (&self.connection, self.merging.id);
        let Writing { sources, totals, changed } = &mut self.writing;
        let touched = self.merging.put(
            totals,
            profile,
            details,
            &mut rows.details,
            |source| sources.of(connection, "sources", source),
            |held, fate| former::keep(connection, import, profile, held, fate),
        )?;
        rows.replace(connection, profile, touched, changed, &mut self.new_rows)
    }

    fn insert_new_rows(&mut self) -> Result<()> {
        let rows = self.new_rows.insert(&self.connection)?;
        if let Some(table) = &self.table {
            table.add(rows);
        }
        Ok(())
    }

    /// Removes the details of replaced sources from profiles before the id `end` that are not in the
    /// import.
    fn withdraw_before(&mut self, end: i64) -> Result<()> {
        if self.merging.replaced.is_empty() {
            return Ok(());
        }
        let missed = self.same_hash.missed_before(end);
        self.withdraw_from(&missed)?;
        loop {
            let mut profiles = Vec::new();
            let more = self.ahead.pass(&self.connection, end, |row| {
                if self.merging.is_replaced(row.source()) {
                    profiles.push(row.profile);
                }
            })?;
            profiles.dedup();
            self.withdraw_from(&profiles)?;
            if !more {
                return Ok(());
            }
        }
    }

    fn withdraw_from(&mut self, profiles: &[String]) -> Result<()> {
        if !profiles.is_empty() {
            self.insert_new_rows()?;
            self.table = None;
        }
        let (connection, import) = (&self.connection, self.merging.id);
        for key in profiles {
            let profile = Profile::from_key(key);
            let mut rows = ProfileRows::read(connection, &profile)?;
            let keep = |held: &_, fate| former::keep(connection, import, &profile, held, fate);
            let touched = self.merging.withdraw(&mut self.writing.totals, &mut rows.details, keep)?;
            rows.write(connection, &profile, touched, &mut self.writing.changed)?;
        }
        Ok(())
    }

    fn take_back_all(&mut self, values: &[ValueOfProfile]) -> Result<()> {
        if !values.is_empty() {
            self.table = None;
        }
        for value in values {
            let mut rows = ProfileRows::read(&self.connection, &value.0)?;
            let touched = self.merging.take_back(&mut self.writing.totals, value, &mut rows.details);
            rows.write(&self.connection, &value.0, touched, &mut self.writing.changed)?;
        }
        Ok(())
    }

    fn write_summary(&mut self, summary: &ImportSummary, entry: Noted<'_>) -> Result<()> {
        let next = self.next_table();
        self.writing.changed.store(&self.connection, next.as_ref().map(|next| next.id))?;
        self.writing.finish(&self.connection)?;
        let Merging { id, keep_former, .. } = self.merging;
        let stored = summary.to_json().map_err(connection::refused)?;
        self.connection.execute(
            "INSERT INTO imports (id, imported_at, is_kept, summary) VALUES (?1, ?2, ?3, ?4)",
            params![id, self.at.millis(), keep_former, stored],
        )?;
        let mut add = self.connection.prepare("INSERT INTO import_sources VALUES (?1, ?2)")?;
        for source in &self.merging.sources {
            add.execute((self.merging.id, source))?;
        }
        drop(add);
        outbox::add(&self.connection, entry, &summary.counted())?;
        if self.merging.counts.taken_back > 0 {
            // These people may have been erased already, and nobody else will look for their traces.
            wipe::wipe_gaps(&self.connection)?;
        }
        self.connection.execute_batch("COMMIT")?;
        next.into_iter().for_each(Made::keep);
        Ok(())
    }

    /// After a large import, the table that lookups read from its commit on. If it cannot be made, they read the details, and a server
    /// makes it later.
    fn next_table(&mut self) -> Option<Made> {
        let beside = self.table.take();
        if !self.writing.changed.are_too_many() {
            return None;
        }
        beside.and_then(MadeBeside::finish).or_else(|| lookup_table::make(&self.connection, &self.dir).ok())
    }
}

/// Profiles with the same hash as the one that was put last. Their rows were read with it; those that the import does not put
/// have to be withdrawn too if their source is replaced.
#[derive(Default)]
struct SameHash {
    first_id: i64,
    put: Vec<String>,
    others: Vec<String>,
}

impl SameHash {
    fn note(&mut self, profile: &Profile, others: &[String]) {
        if self.others.is_empty() && others.is_empty() {
            return;
        }
        self.first_id = first_id(profile, Kind::Phone);
        self.put.push(profile.key().to_owned());
        self.others.extend_from_slice(others);
    }

    /// Those that the import has not put, once it has passed them.
    fn missed_before(&mut self, end: i64) -> Vec<String> {
        if self.others.is_empty() || end <= self.first_id {
            return Vec::new();
        }
        let Self { put, mut others, .. } = std::mem::take(self);
        others.retain(|other| !put.contains(other));
        others.dedup();
        others
    }
}

#[async_trait]
impl Import for SqliteImport {
    async fn put(&mut self, batch: Vec<Record>) -> Stored<()> {
        connection::run_blocking(|| {
            let put = batch.iter().try_for_each(|record| self.put_record(record));
            let put = put.and_then(|()| self.insert_new_rows());
            self.steady.sync();
            put
        })
    }

    async fn finish(&mut self) -> Stored<()> {
        connection::run_blocking(|| self.withdraw_before(i64::MAX))
    }

    async fn take_back(&mut self, values: &[ValueOfProfile]) -> Stored<()> {
        connection::run_blocking(|| self.take_back_all(values))
    }

    fn merging(&self) -> &Merging {
        &self.merging
    }

    async fn commit(mut self: Box<Self>, summary: &ImportSummary, entry: Noted<'_>) -> Stored<i64> {
        connection::run_blocking(|| {
            self.write_summary(summary, entry)?;
            // The import is committed, even if its log cannot be emptied now.
            let _ = connection::empty_wal(&self.connection);
            Ok(self.merging.id)
        })
    }
}

/// What these sources hold.
fn held_by(connection: &Connection, sources: &[String]) -> Result<Vec<WithdrawnFrom>> {
    let mut held = connection.prepare(
        "SELECT coalesce(sum(count), 0) FROM totals JOIN sources ON sources.id = totals.source WHERE name = ?1",
    )?;
    let of_source = |source: &String| {
        let held = held.query_row([source], |row| row.get(0))?;
        Ok(WithdrawnFrom { source: source.clone(), held, withdrawn: 0 })
    };
    sources.iter().map(of_source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{now, put_all};
    use contactd_core::store::Details;
    use contactd_core::{ContactValue, Detail};

    /// Three profiles, of which the first two have the same hash.
    const KEYS: [&str; 3] =
        ["linkedin.com/in/quell-1620615", "linkedin.com/in/quell-8174454", "linkedin.com/in/quell-1"];

    fn record(key: &str, confidence: u8) -> Record {
        let value = ContactValue::from_store("+14155550101".to_owned());
        let detail = Detail { confidence, ..Detail::new(Kind::Phone, value, "crm") };
        Record { profile: Profile::from_key(key), details: vec![detail] }
    }

    #[test]
    fn a_replaced_source_is_withdrawn_from_a_profile_whose_hash_another_one_has_too() {
        for put in [vec![0], vec![1], vec![0, 1], vec![0, 2], vec![1, 2], vec![2], vec![0, 1, 2]] {
            let dir = tempfile::tempdir().expect("a directory");
            let store = SqliteStore::open(dir.path()).expect("opens");
            put_all(&store, KEYS.iter().map(|key| record(key, 50)).collect());
            let mut records: Vec<Record> = put.iter().map(|&at: &usize| record(KEYS[at], 60)).collect();
            records.sort_by_key(|record| store.sort_key(&record.profile));
            let plan = ImportPlan {
                replaced: vec!["crm".to_owned()],
                ..ImportPlan::of(records.len() as u64, Timestamp::from_seconds(1))
            };
            let mut import = now(store.begin_import(&plan)).expect("begins");
            now(import.put(records)).expect("puts");
            now(import.finish()).expect("finishes");
            assert_eq!(import.counts().withdrawn, 3 - put.len() as u64, "{put:?}");
            now(import.commit(&ImportSummary::default(), None)).expect("commits");
            for (at, key) in KEYS.iter().enumerate() {
                let held = now(store.list_details(&Profile::from_key(key))).expect("lists").len();
                assert_eq!(held, usize::from(put.contains(&at)), "{put:?}, {key}");
            }
        }
    }
}
