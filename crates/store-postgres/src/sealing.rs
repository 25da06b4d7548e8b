//! The seal of a change of tokens, suppressions or accounts.
//!
//! A change reads the seal of the change before, under the lock of its counter, and adds the rows that it stores to the sum. What it
//! stores is what it was told, and not what the database says that it has stored. If the change before has no seal, or a wrong one,
//! this one has none either: only a new database and [`PostgresStore::put_back`](crate::PostgresStore::put_back) begin to seal.

use contactd_core::DigestKeys;
use contactd_core::store::StoreError;
use contactd_core::store::sealing::{BoundRow, RowSum, Seal, SealFault, SealedChange, StateKey, open_newest};
use parking_lot::Mutex;
use tokio_postgres::Row;

use crate::connecting::Session;
use crate::counter::Counter;
use crate::failure::Tried;

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

    /// Notes that a row is stored, in place of another one.
    pub(crate) fn replace(&self, before: Option<BoundRow<'_>>, after: Option<BoundRow<'_>>) {
        if let Some((key, sum)) = &mut *self.sum.lock() {
            *sum = sum.minus(key.sum(before)).plus(key.sum(after));
        }
    }

    pub(crate) fn key(&self) -> Option<StateKey> {
        self.sum.lock().as_ref().map(|(key, _)| key.clone())
    }

    pub(crate) fn begin_anew(&self, key: &StateKey, sum: RowSum) {
        *self.sum.lock() = Some((key.clone(), sum));
    }

    pub(crate) fn seal(&self) -> Option<Seal> {
        let at = (self.counter, self.number, &self.id[..]);
        self.sum.lock().as_ref().map(|(key, sum)| key.seal(&self.previous, at, *sum))
    }

    /// How a line of the journal notes the seal.
    pub(crate) fn noted(&self) -> Option<String> {
        let Self { counter, number, id, .. } = self;
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
