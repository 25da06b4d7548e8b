//! Sealing tokens, suppressions and accounts, and checking their seals.
//!
//! A change reads the seal of the change before, under the lock of its counter, and adds the rows that it stores to the sum. What it
//! stores is what it was told, and not what the database says that it has stored. If the change before has no seal, or a wrong one,
//! this one has none either: only a new database and [`PostgresStore::put_back`] begin to seal.

use contactd_core::store::copying::ChangePoint;
use contactd_core::store::sealing::{BoundRow, RowSum, Seal, SealFault, SealedChange, StateKey, open_newest};
use contactd_core::store::{EntityTable, StoreError, Stored};
use contactd_core::{DigestKeys, hex};
use parking_lot::Mutex;
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::connecting::Session;
use crate::database::{Counter, Work};
use crate::entities::list_since;
use crate::failure::Tried;
use crate::nodes::newest;

/// Rows that are fetched at once.
const FETCHED: usize = 5_000;

/// Of the newest changes, this many are always kept.
pub(crate) const KEPT_CHANGES: i64 = 999;

/// The seal of a change that is being made.
pub(crate) struct Sealing {
    counter: &'static str,
    number: i64,
    id: Vec<u8>,
    /// The tag of the change before.
    previous: Vec<u8>,
    /// The sum of the rows so far; `None` if the change gets no seal.
    sum: Mutex<Option<(StateKey, RowSum)>>,
}

impl Sealing {
    /// Begins to seal a change. Its counter is locked.
    pub(crate) async fn begin(
        keys: &DigestKeys,
        session: &Session,
        counter: Counter,
        (number, id): (i64, &[u8]),
    ) -> Tried<Self> {
        let before = changes_between(session, counter, number - 2, number - 1).await?;
        let sum = match open_newest(&before, number - 1, keys) {
            Ok(opened) => Some(opened),
            Err(fault @ SealFault::NoKey(_)) => {
                return Err(StoreError::Unavailable(format!("{}: {fault}", counter.rows())).into());
            }
            Err(_) => None,
        };
        let previous = before.last().map_or_else(Vec::new, |before| before.tag().to_vec());
        let (counter, id) = (counter.name(), id.to_vec());
        Ok(Self { counter, number, id, previous, sum: Mutex::new(sum) })
    }

    fn seal(&self) -> Option<Seal> {
        let at = (self.counter, self.number, &self.id[..]);
        self.sum.lock().as_ref().map(|(key, sum)| key.seal(&self.previous, at, *sum))
    }
}

impl Work {
    /// Notes that a row is stored, in place of another one.
    pub(crate) fn replace(&self, before: Option<BoundRow<'_>>, after: Option<BoundRow<'_>>) {
        let Some(sealing) = &self.sealing else { return };
        if let Some((key, sum)) = &mut *sealing.sum.lock() {
            *sum = sum.minus(key.sum(before)).plus(key.sum(after));
        }
    }

    /// Whether what is stored is to be noted.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealing.as_ref().is_some_and(|sealing| sealing.sum.lock().is_some())
    }

    /// Seals what the rows of a group are now, whatever they were before.
    pub(crate) async fn seal_all(&self, counter: Counter) -> Tried<()> {
        let key = self.sealing.as_ref().and_then(|sealing| Some(sealing.sum.lock().as_ref()?.0.clone()));
        if let Some(key) = key {
            self.seal_anew(&key, sum_rows(self, counter, &key).await?);
        }
        Ok(())
    }

    /// Seals rows with this sum, whatever they were before.
    pub(crate) fn seal_anew(&self, key: &StateKey, sum: RowSum) {
        if let Some(sealing) = &self.sealing {
            *sealing.sum.lock() = Some((key.clone(), sum));
        }
    }

    pub(crate) fn seal(&self) -> Option<Seal> {
        self.sealing.as_ref().and_then(|sealing| sealing.seal())
    }

    /// How a line of the journal notes the seal. All rows have to be stored.
    pub(crate) fn noted_seal(&self) -> Option<String> {
        let Sealing { counter, number, id, .. } = &**self.sealing.as_ref()?;
        let seal = Some(self.seal()?);
        Some(SealedChange { counter, number: *number, id: id.clone(), seal }.noted())
    }
}

/// The changes of a counter with these numbers, in order.
pub(crate) async fn changes_between(
    session: &Session,
    counter: Counter,
    from: i64,
    through: i64,
) -> Tried<Vec<SealedChange>> {
    let list = "SELECT number, id, seal_key, seal_sum, seal_tag FROM changes
        WHERE counter = $1 AND number BETWEEN $2 AND $3 ORDER BY number";
    let seal = |row: &Row| {
        let bytes = |column: usize| row.get::<_, Option<&[u8]>>(column)?.try_into().ok();
        Some(Seal { key: row.get::<_, Option<String>>(2)?, sum: bytes(3)?, tag: bytes(4)? })
    };
    let change = |row: &Row| SealedChange {
        counter: counter.name(),
        number: row.get(0),
        id: row.get(1),
        seal: seal(row),
    };
    Ok(session.query(list, &[&counter.name(), &from, &through]).await?.iter().map(change).collect())
}

/// The sum of all rows of a group.
async fn sum_rows(work: &Work, counter: Counter, key: &StateKey) -> Tried<RowSum> {
    let mut sum = RowSum::default();
    for table in EntityTable::ALL.into_iter().filter(|table| Counter::of(*table) == counter) {
        let rows = list_since(work, table, -1).await?;
        sum = sum.plus(key.sum(rows.iter().map(|row| BoundRow::Entity(table, row))));
    }
    if counter == Counter::Access {
        let all = "SELECT digest, key, suppressed_at FROM suppressions WHERE NOT is_removed";
        let mut all = work.cursor("sealed", all, &[]).await?;
        loop {
            let rows = all.next(FETCHED).await?;
            let bound = |row| BoundRow::Suppression(Row::get(row, 0), Row::get(row, 1), Row::get(row, 2));
            sum = sum.plus(key.sum(rows.iter().map(bound)));
            if rows.is_empty() {
                break;
            }
        }
    }
    Ok(sum)
}

/// What the newest change of a group sealed, if that is what its rows are; or what is wrong.
async fn check(work: &Work, counter: Counter, keys: &DigestKeys) -> Tried<CheckedRows> {
    let at = newest(work, counter).await?;
    let changes = changes_between(work, counter, at.number - 1, at.number).await?;
    let sealed = match open_newest(&changes, at.number, keys) {
        Ok((key, sum)) if sum_rows(work, counter, &key).await? != sum => Err(SealFault::Rows),
        opened => opened,
    };
    Ok(CheckedRows { at, sealed })
}

/// All rows of a group, checked.
#[derive(Clone)]
pub struct CheckedRows {
    /// The newest change.
    pub at: ChangePoint,
    /// What it sealed, if that is what the rows are; or what is wrong.
    pub sealed: Result<(StateKey, RowSum), SealFault>,
}

impl PostgresStore {
    /// Checks tokens and suppressions. Reads all of them. `None` without keys.
    pub async fn check_access(&self) -> Stored<Option<CheckedRows>> {
        self.check_group(Counter::Access).await
    }

    async fn check_group(&self, counter: Counter) -> Stored<Option<CheckedRows>> {
        let Some(keys) = self.keys() else { return Ok(None) };
        let check = move |work: Work| async move { check(&work, counter, keys).await };
        self.database.read(check).await.map(Some)
    }

    async fn fault_of(&self, counter: Counter) -> Stored<Option<String>> {
        let fault = self.check_group(counter).await?.and_then(|checked| checked.sealed.err());
        Ok(fault.map(|fault| in_words(counter, &fault)))
    }

    /// What is wrong with tokens and suppressions, in words.
    pub fn access_fault(fault: &SealFault) -> String {
        in_words(Counter::Access, fault)
    }

    /// Fails if users or admin tokens are not those that were stored.
    pub(crate) async fn check_users(&self) -> Stored<()> {
        self.fault_of(Counter::Accounts).await?.map_or(Ok(()), |fault| Err(StoreError::Tampered(fault)))
    }

    /// What is wrong with all groups, and with states that the journal has noted.
    pub(crate) async fn find_faults(&self, noted: &[String]) -> Stored<Vec<String>> {
        let mut faults = Vec::new();
        for counter in [Counter::Access, Counter::Accounts] {
            faults.extend(self.fault_of(counter).await?);
            let prefix = format!("{}:", counter.name());
            for noted in noted.iter().filter_map(|noted| noted.strip_prefix(&prefix)) {
                if !self.knows_noted(counter, noted).await? {
                    faults.push(format!(
                        "{}: the newest change in the journal is not in the database, or another one has its place: an older \
                         state was put there",
                        counter.rows()
                    ));
                }
            }
        }
        Ok(faults)
    }

    /// Whether the database has this change, which is noted as number and tag, or had it so long ago that it was forgotten.
    async fn knows_noted(&self, counter: Counter, noted: &str) -> Stored<bool> {
        let noted = noted
            .split_once(':')
            .and_then(|(number, tag)| Some((number.parse::<i64>().ok()?, hex::decode::<32>(tag)?.to_vec())));
        let Some((number, tag)) = &noted else { return Ok(true) };
        let find = "SELECT coalesce((SELECT number - $4 > $2 FROM counters WHERE counter = $1), FALSE)
            OR EXISTS (SELECT 1 FROM changes WHERE counter = $1 AND number = $2 AND seal_tag = $3)";
        Ok(self.database.query_one(find, &[&counter.name(), number, tag, &KEPT_CHANGES]).await?.get(0))
    }
}

fn in_words(counter: Counter, fault: &SealFault) -> String {
    format!(
        "the {} in the database are not those that contactd stored: {fault}. `contactd node reconcile` shows the difference",
        counter.rows()
    )
}
