//! Details: reading, removing, counting.

use std::sync::atomic::Ordering;

use contactd_core::store::{
    Aged, DetailTotal, Details, ImportSummary, Outcome, PastImport, PutCounts, StoreError, Swept, Totals,
    Verdict,
};
use contactd_core::{ContactValue, Detail, Kind, Label, Profile, Timestamp};
use rusqlite::{Connection, Row};

use crate::held::{Held, Names};
use crate::import::SqliteImport;
use crate::reader::Reader;
use crate::writing::Writing;
use crate::{SqliteStore, connection, held, place};

impl Details for SqliteStore {
    type Import<'a> = SqliteImport;

    fn best_personal(
        &self,
        profile: &Profile,
        kind: Kind,
        now: Timestamp,
        judge: impl Fn(&str) -> Verdict + Send + Sync,
    ) -> impl Outcome<Option<ContactValue>> {
        let generation = self.generation.load(Ordering::SeqCst);
        let found = self
            .readers
            .get_or_try(|| Reader::open(&self.details_file()))
            .and_then(|reader| reader.best_personal(generation, profile, kind, now, judge));
        std::future::ready(found)
    }

    fn list_details(&self, profile: &Profile) -> impl Outcome<Vec<Detail>> {
        let held = Held::read(&self.details(), &mut Names::default(), profile).map_err(connection::error);
        std::future::ready(held.map(|held| held.details.into_iter().map(|held| held.detail).collect()))
    }

    fn remove_details(
        &self,
        profile: &Profile,
        remove: impl Fn(&Detail) -> bool + Send + Sync,
    ) -> impl Outcome<u64> {
        std::future::ready(self.remove(profile, remove))
    }

    fn begin_import(&self, at: Timestamp) -> impl Outcome<SqliteImport> {
        std::future::ready(SqliteImport::begin(&self.details_file(), at))
    }

    fn visit_all(&self, visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send) -> impl Outcome<()> {
        let visited = connection::sorting_reader(&self.details_file())
            .and_then(|reader| held::visit_all(&reader, visit).map_err(connection::error));
        std::future::ready(visited)
    }

    fn list_imports(&self) -> impl Outcome<Vec<PastImport>> {
        let listed = imports(&self.details(), "ORDER BY id").map_err(connection::error);
        std::future::ready(listed)
    }

    fn undo_import(&self, id: i64, at: Timestamp) -> impl Outcome<Option<u64>> {
        std::future::ready(self.undo(id, at))
    }

    fn find_profiles(&self, kind: Kind, value: &ContactValue) -> impl Outcome<Vec<Profile>> {
        let found = connection::reader(&self.details_file())
            .and_then(|reader| find_profiles(&reader, kind, value).map_err(connection::error));
        std::future::ready(found)
    }

    fn sweep(&self, now: Timestamp, aged: Aged<'_>) -> impl Outcome<Swept> {
        std::future::ready(self.sweep_all(now, aged))
    }

    fn place(profile: &Profile) -> u64 {
        place::first_id(profile, Kind::Phone).cast_unsigned()
    }

    fn totals(&self) -> impl Outcome<Totals> {
        // Not the writer's connection: whoever asks must not wait for whoever writes.
        let totals = connection::reader(&self.details_file())
            .and_then(|reader| totals(&reader).map_err(connection::error));
        std::future::ready(totals.map(|totals| Totals { bytes: self.file_sizes(), ..totals }))
    }

    fn renew(&self) {
        if let Some(reader) = self.readers.get() {
            reader.renew();
        }
    }
}

impl SqliteStore {
    fn undo(&self, id: i64, at: Timestamp) -> Result<Option<u64>, StoreError> {
        let mut details = self.details();
        let transaction = connection::write(&mut details)?;
        let marked = transaction
            .execute(
                "UPDATE imports SET undone_at = ?2 WHERE id = ?1 AND undone_at IS NULL",
                (id, at.millis()),
            )
            .map_err(connection::error)?;
        if marked == 0 {
            return Ok(None);
        }
        let mut writing = Writing::default();
        let undone = writing.withdraw_import(&transaction, id).map_err(connection::error)?;
        writing.finish(&transaction).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        self.renew_readers();
        Ok(Some(undone))
    }

    fn remove(&self, profile: &Profile, remove: impl Fn(&Detail) -> bool) -> Result<u64, StoreError> {
        let mut details = self.details();
        let transaction = connection::write(&mut details)?;
        let mut writing = Writing::default();
        let removed = writing
            .take_away(&transaction, &mut Names::default(), profile, |held| remove(&held.detail))
            .map_err(connection::error)?;
        writing.finish(&transaction).map_err(connection::error)?;
        transaction.commit().map_err(connection::error)?;
        self.renew_readers();
        Ok(removed.details)
    }
}

fn find_profiles(
    connection: &Connection,
    kind: Kind,
    value: &ContactValue,
) -> rusqlite::Result<Vec<Profile>> {
    let mut statement = connection.prepare("SELECT profile, value FROM details WHERE kind = ?1")?;
    let mut rows = statement.query([kind_number(kind)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        if value.compares_to(kind, row.get_ref(1)?.as_str()?) {
            found.push(Profile::from_key(row.get_ref(0)?.as_str()?));
        }
    }
    found.sort_by(|a, b| a.key().cmp(b.key()));
    found.dedup();
    Ok(found)
}

fn totals(connection: &Connection) -> rusqlite::Result<Totals> {
    let mut statement = connection.prepare_cached(
        "SELECT sources.name, kind, label, count FROM totals JOIN sources ON sources.id = totals.source
         WHERE count > 0 ORDER BY sources.name, kind, label",
    )?;
    let details = statement.query_map((), |row| {
        Ok(DetailTotal {
            source: row.get(0)?,
            kind: kind(row.get(1)?),
            label: label(row.get(2)?),
            count: row.get(3)?,
        })
    })?;
    Ok(Totals {
        profiles: connection.query_row("SELECT count FROM profile_total", (), |row| row.get(0))?,
        details: details.collect::<rusqlite::Result<_>>()?,
        newest_import: imports(connection, "ORDER BY id DESC LIMIT 1")?.pop(),
        bytes: Vec::new(),
    })
}

fn imports(connection: &Connection, order: &str) -> rusqlite::Result<Vec<PastImport>> {
    let mut statement = connection.prepare(&format!("SELECT * FROM imports {order}"))?;
    statement.query_map((), past_import)?.collect()
}

fn past_import(row: &Row<'_>) -> rusqlite::Result<PastImport> {
    let summary = ImportSummary {
        source: row.get("source")?,
        rows: row.get("rows")?,
        rejected: row.get("rejected")?,
        suppressed: row.get("suppressed")?,
        counts: PutCounts {
            profiles_new: row.get("profiles_new")?,
            profiles_changed: row.get("profiles_changed")?,
            new: row.get("new")?,
            changed: row.get("changed")?,
            unchanged: row.get("unchanged")?,
            withdrawn: row.get("withdrawn")?,
        },
    };
    let undone_at: Option<i64> = row.get("undone_at")?;
    Ok(PastImport {
        id: row.get("id")?,
        at: Timestamp::from_millis(row.get("imported_at")?),
        summary,
        undone_at: undone_at.map(Timestamp::from_millis),
    })
}

pub(crate) const fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::Phone => 0,
        Kind::Email => 1,
    }
}

pub(crate) const fn label_number(label: Label) -> i64 {
    match label {
        Label::Personal => 0,
        Label::Work => 1,
    }
}

pub(crate) const fn kind(number: i64) -> Kind {
    if number == kind_number(Kind::Phone) { Kind::Phone } else { Kind::Email }
}

pub(crate) const fn label(number: i64) -> Label {
    if number == label_number(Label::Personal) { Label::Personal } else { Label::Work }
}
