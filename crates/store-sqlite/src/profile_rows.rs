//! Reading and writing the rows of one profile.

use contactd_core::store::merge::{HeldDetail, Touched};
use contactd_core::store::place::{
    IDS_OF_KIND, IDS_OF_PLACE, NEVER_OBSERVED, first_id, kind, kind_number, label, label_number, no_room,
    observed,
};
use contactd_core::{ContactValue, Detail, Kind, Profile, Timestamp};
use rusqlite::{Connection, Result, Row, Statement, ToSql};

use crate::connection;
use crate::lookup_table::ChangedPlaces;

/// The details of one profile, to be changed and written back.
pub(crate) struct ProfileRows {
    pub(crate) details: Vec<HeldDetail>,
    /// Kinds that had details in the table.
    kinds_before: Vec<Kind>,
    /// Ids used by other profiles with the same hash.
    taken: Vec<i64>,
    /// Those profiles: hardly ever one.
    pub(crate) others: Vec<String>,
}

/// The columns that [`read_held`] reads. `former` calls one of them differently.
const COLUMNS: &str =
    "id, profile, kind, label, value, source, confidence, observed_at, basis, expires_at, import, said_by,
    (SELECT name FROM sources WHERE sources.id = source)";

/// A row of the table.
pub(crate) struct StoredRow {
    pub(crate) id: i64,
    pub(crate) profile: String,
    stored: HeldDetail,
}

impl StoredRow {
    /// The rows with ids from `first` to before `end`, in order, at most `limit`.
    pub(crate) fn read(connection: &Connection, (first, end, limit): (i64, i64, i64)) -> Result<Vec<Self>> {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM details WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3"
        ))?;
        let rows = statement.query_map((first, end, limit), |row| {
            Ok(Self { id: row.get(0)?, profile: row.get(1)?, stored: read_held(row)? })
        })?;
        rows.collect()
    }

    pub(crate) fn source(&self) -> &str {
        &self.stored.detail.source
    }
}

impl ProfileRows {
    /// Reads all details of a profile, each kind in order of preference.
    pub(crate) fn read(connection: &Connection, profile: &Profile) -> Result<Self> {
        let first = first_id(profile, Kind::Phone);
        let rows = StoredRow::read(connection, (first, first + IDS_OF_PLACE, IDS_OF_PLACE))?;
        Ok(Self::of(profile, rows))
    }

    /// From all rows in the profile's range of ids.
    pub(crate) fn of(profile: &Profile, rows: Vec<StoredRow>) -> Self {
        let mut of_profile =
            Self { details: Vec::new(), kinds_before: Vec::new(), taken: Vec::new(), others: Vec::new() };
        for row in rows {
            if row.profile == profile.key() {
                of_profile.kinds_before.push(row.stored.detail.kind);
                of_profile.details.push(row.stored);
            } else {
                of_profile.taken.push(row.id);
                if !of_profile.others.contains(&row.profile) {
                    of_profile.others.push(row.profile);
                }
            }
        }
        of_profile
    }

    /// Rewrites the details of these kinds: the best first, in ids that no other profile uses.
    pub(crate) fn write(
        self,
        connection: &Connection,
        profile: &Profile,
        touched: Touched,
        changed: &mut ChangedPlaces,
    ) -> Result<()> {
        let mut new_rows = NewRows::default();
        self.replace(connection, profile, touched, changed, &mut new_rows)?;
        new_rows.insert(connection).map(drop)
    }

    /// Like [`write`](Self::write), but what is to be inserted is added to `new_rows`. Insert it before rows of this profile, or of another
    /// one with the same hash, are read again.
    pub(crate) fn replace(
        self,
        connection: &Connection,
        profile: &Profile,
        touched: Touched,
        changed: &mut ChangedPlaces,
        new_rows: &mut NewRows,
    ) -> Result<()> {
        let mut details = self.details;
        details.sort_by(|a, b| a.preference().cmp(&b.preference()));
        for kind in touched {
            let first = first_id(profile, kind);
            changed.note(first);
            if self.kinds_before.contains(&kind) {
                connection
                    .prepare_cached("DELETE FROM details WHERE id >= ?1 AND id < ?1 + ?2 AND profile = ?3")?
                    .execute((first, IDS_OF_KIND, profile.key()))?;
            }
            let mut free = (first..first + IDS_OF_KIND).filter(|id| !self.taken.contains(id));
            for held in details.extract_if(.., |held| held.detail.kind == kind) {
                let id = free.next().ok_or_else(|| connection::refused(no_room()))?;
                new_rows.0.push(NewRow { id, profile: profile.clone(), held });
            }
        }
        Ok(())
    }
}

/// Everything in the table, profile by profile. `visit` returns whether to continue.
pub(crate) fn visit_all(
    connection: &Connection,
    mut visit: impl FnMut(&Profile, Vec<Detail>) -> bool,
) -> Result<()> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM details ORDER BY profile, id"))?;
    let mut rows = statement.query(())?;
    let mut current: Option<(Profile, Vec<Detail>)> = None;
    while let Some(row) = rows.next()? {
        let detail = read_held(row)?.detail;
        let key = row.get_ref(1)?.as_str()?;
        match &mut current {
            Some((profile, details)) if profile.key() == key => details.push(detail),
            _ => {
                if let Some((profile, details)) = current.replace((Profile::from_key(key), vec![detail]))
                    && !visit(&profile, details)
                {
                    return Ok(());
                }
            }
        }
    }
    if let Some((profile, details)) = current {
        visit(&profile, details);
    }
    Ok(())
}

/// Rows to be inserted.
#[derive(Default)]
pub(crate) struct NewRows(Vec<NewRow>);

pub(crate) struct NewRow {
    pub(crate) id: i64,
    pub(crate) profile: Profile,
    pub(crate) held: HeldDetail,
}

/// How many rows one statement inserts. Each statement costs as much as several rows.
const TOGETHER: usize = 16;

impl NewRows {
    /// Inserts them all, and returns them.
    pub(crate) fn insert(&mut self, connection: &Connection) -> Result<Vec<NewRow>> {
        let (many, rest) = self.0.as_chunks::<TOGETHER>();
        if !many.is_empty() {
            let mut insert = connection.prepare_cached(&Self::statement(TOGETHER))?;
            many.iter().try_for_each(|rows| Self::execute(&mut insert, rows))?;
        }
        if !rest.is_empty() {
            let mut insert = connection.prepare_cached(&Self::statement(1))?;
            rest.iter().try_for_each(|row| Self::execute(&mut insert, std::slice::from_ref(row)))?;
        }
        Ok(std::mem::take(&mut self.0))
    }

    fn statement(rows: usize) -> String {
        const ROW: &str = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        // Whatever fails ends the transaction, so SQLite need not keep what would undo the statement alone.
        format!("INSERT OR FAIL INTO details VALUES {}", vec![ROW; rows].join(", "))
    }

    fn execute(insert: &mut Statement<'_>, rows: &[NewRow]) -> Result<()> {
        let mut index = 0;
        let mut bind = |value: &dyn ToSql| {
            index += 1;
            insert.raw_bind_parameter(index, value)
        };
        for NewRow { id, profile, held } in rows {
            let detail = &held.detail;
            bind(id)?;
            bind(&profile.key())?;
            bind(&kind_number(detail.kind))?;
            bind(&label_number(detail.label))?;
            bind(&detail.confidence)?;
            bind(&observed(detail))?;
            bind(&detail.value.expose())?;
            bind(&held.source)?;
            bind(&detail.expires_at.map(Timestamp::seconds))?;
            bind(&detail.basis)?;
            bind(&held.import)?;
            bind(&held.said_by)?;
        }
        insert.raw_execute().map(|_| ())
    }
}

/// Reads a row with [`COLUMNS`].
pub(crate) fn read_held(row: &Row<'_>) -> Result<HeldDetail> {
    let observed_at: i64 = row.get(7)?;
    let expires_at: Option<i64> = row.get(9)?;
    let detail = Detail {
        kind: kind(row.get(2)?),
        label: label(row.get(3)?),
        value: ContactValue::from_store(row.get(4)?),
        source: row.get(12)?,
        confidence: row.get(6)?,
        observed_at: (observed_at != NEVER_OBSERVED).then(|| Timestamp::from_seconds(observed_at)),
        basis: row.get(8)?,
        expires_at: expires_at.map(Timestamp::from_seconds),
    };
    Ok(HeldDetail { detail, source: row.get(5)?, import: row.get(10)?, said_by: row.get(11)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;
    use crate::testing::now;
    use crate::testing::put;
    use contactd_core::store::{DetailFilter, Details, LocalRead, Verdict};

    /// Two profiles with the same hash.
    const COLLIDING: [&str; 2] = ["linkedin.com/in/quell-1620615", "linkedin.com/in/quell-8174454"];

    fn phone(value: &str, source: &str, confidence: u8) -> Detail {
        Detail { confidence, ..Detail::new(Kind::Phone, ContactValue::from_store(value.to_owned()), source) }
    }

    fn best(store: &SqliteStore, profile: &Profile) -> Option<String> {
        let found = store.best_personal(profile, Kind::Phone, Timestamp::from_seconds(1), |_| Verdict::Take);
        found.expect("reads").map(|value| value.expose().to_owned())
    }

    #[test]
    fn profiles_with_the_same_hash_are_kept_apart() {
        let [ada, bo] = COLLIDING.map(Profile::from_key);
        assert_eq!(first_id(&ada, Kind::Phone), first_id(&bo, Kind::Phone));
        let dir = tempfile::tempdir().expect("a directory");
        let store = SqliteStore::open(dir.path()).expect("opens");

        put(&store, &ada, vec![phone("+14155550101", "crm", 50), phone("+14155550102", "hr", 40)]);
        assert_eq!(best(&store, &bo), None);
        put(&store, &bo, vec![phone("+14155550103", "crm", 50)]);
        put(&store, &ada, vec![phone("+14155550104", "ats", 90)]);
        put(&store, &bo, vec![phone("+14155550105", "ats", 90)]);
        assert_eq!(best(&store, &ada).as_deref(), Some("+14155550104"));
        assert_eq!(best(&store, &bo).as_deref(), Some("+14155550105"));

        let by_ats = DetailFilter { source: Some("ats".to_owned()), ..DetailFilter::all() };
        assert_eq!(now(store.remove_details(&ada, &by_ats, None)).expect("removes"), 1);
        assert_eq!(best(&store, &ada).as_deref(), Some("+14155550101"));
        assert_eq!(now(store.list_details(&bo)).expect("lists").len(), 2);
    }
}
