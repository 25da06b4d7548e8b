//! Keeping the totals up to date with the details.

use contactd_core::Profile;
use contactd_core::store::merge::{HeldDetail, TakenAway, TotalChanges};
use contactd_core::store::place::{kind_number, label_number};
use rusqlite::{Connection, Result};

use crate::ids::Ids;
use crate::lookup_table::ChangedPlaces;
use crate::profile_rows::ProfileRows;

/// Changes to the totals, collected until [`Writing::finish`] writes them.
#[derive(Default)]
pub(crate) struct Writing {
    pub(crate) sources: Ids,
    pub(crate) totals: TotalChanges,
    pub(crate) changed: ChangedPlaces,
}

impl Writing {
    /// Removes the details of a profile for which `is_gone` is true.
    pub(crate) fn take_away(
        &mut self,
        connection: &Connection,
        profile: &Profile,
        is_gone: impl Fn(&HeldDetail) -> bool,
    ) -> Result<TakenAway> {
        let mut rows = ProfileRows::read(connection, profile)?;
        let taken = self.totals.take_away(&mut rows.details, is_gone);
        let touched = taken.gone.iter().map(|gone| gone.detail.kind).collect();
        rows.write(connection, profile, touched, &mut self.changed)?;
        Ok(taken)
    }

    /// Updates the totals and the state of the lookup table; call it in the same transaction, at its end.
    pub(crate) fn finish(&mut self, connection: &Connection) -> Result<()> {
        let mut add = connection.prepare_cached(
            "INSERT INTO totals VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT DO UPDATE SET count = count + excluded.count",
        )?;
        let TotalChanges { details, profiles } = std::mem::take(&mut self.totals);
        for ((source, kind, label), by) in details.into_iter().filter(|(_, by)| *by != 0) {
            add.execute((source, kind_number(kind), label_number(label), by))?;
        }
        connection.execute("UPDATE profile_total SET count = count + ?1", [profiles])?;
        self.changed.store(connection, None)
    }
}
