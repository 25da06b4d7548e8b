//! Opt-outs and revocations of another store, to be applied to one made from an older backup.

use contactd_core::Timestamp;
use contactd_core::store::{EntityTable, TakenOver, Withdrawals};

use crate::database::{Counter, Work};
use crate::failure::Tried;
use crate::{entities, suppressions};

/// Takes over what is in the tables of a counter. Returns what was taken so far, and this.
pub(crate) async fn take_over(
    work: &Work,
    counter: Counter,
    withdrawals: &Withdrawals,
    now: Timestamp,
    mut taken: TakenOver,
) -> Tried<TakenOver> {
    if counter == Counter::Access {
        let suppressed = withdrawals.suppressions.iter().map(|(subject, at)| (subject, *at));
        taken.suppressions = suppressions::add(work, suppressed).await?;
    }
    for table in EntityTable::ALL.into_iter().filter(|table| Counter::of(*table) == counter) {
        let rows = entities::list_since(work, table, -1).await?;
        entities::put(work, table, &rows, &withdrawals.decide(table, &rows, now, &mut taken)?).await?;
    }
    Ok(taken)
}
