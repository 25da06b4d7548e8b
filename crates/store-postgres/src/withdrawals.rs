//! Opt-outs and revocations of another store, to be applied to one made from an older backup.

use contactd_core::Timestamp;
use contactd_core::store::{EntityTable, TakenOver, Withdrawals};

use crate::database::Work;
use crate::failure::Tried;
use crate::{entities, suppressions};

pub(crate) async fn take_over(work: &Work, withdrawals: &Withdrawals, now: Timestamp) -> Tried<TakenOver> {
    let suppressed = withdrawals.suppressions.iter().map(|(subject, at)| (subject, *at));
    let mut taken =
        TakenOver { suppressions: suppressions::add(work, suppressed).await?, ..TakenOver::default() };
    for table in EntityTable::ALL {
        let rows = entities::list_since(work, table, -1).await?;
        entities::put(work, table, &withdrawals.decide(table, &rows, now, &mut taken)?).await?;
    }
    Ok(taken)
}
