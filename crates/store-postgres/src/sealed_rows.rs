//! All rows of tokens, suppressions and accounts: sealing them, and checking that they are what the newest change sealed.

use contactd_core::store::copying::ChangePoint;
use contactd_core::store::sealing::{BoundRow, RowSum, SealFault, StateKey, open_newest};
use contactd_core::store::{EntityTable, Stored};
use contactd_core::{DigestKeys, hex};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::database::{Counter, Work};
use crate::entities::list_since;
use crate::failure::Tried;
use crate::nodes::newest;
use crate::sealing::changes_between;

/// Rows that are fetched at once.
const FETCHED: usize = 5_000;

/// Of the newest changes, this many are always kept.
pub(crate) const KEPT_CHANGES: i64 = 999;

/// Seals what the rows of a group are now, whatever they were before.
pub(crate) async fn seal_all(work: &Work, counter: Counter) -> Tried<()> {
    if let Some(key) = work.sealing_key() {
        work.seal_anew(&key, sum_rows(work, counter, &key).await?);
    }
    Ok(())
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

    /// What is wrong with a group, in words.
    pub(crate) async fn fault_of(&self, counter: Counter) -> Stored<Option<String>> {
        let fault = self.check_group(counter).await?.and_then(|checked| checked.sealed.err());
        Ok(fault.map(|fault| in_words(counter, &fault)))
    }

    /// What is wrong with tokens and suppressions, in words.
    pub fn access_fault(fault: &SealFault) -> String {
        in_words(Counter::Access, fault)
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
