//! Comparing a copy with the database.

use std::time::{Duration, Instant};

use contactd_core::store::Stored;
use contactd_core::store::copying::CopyDigest;
use contactd_store_postgres::PostgresStore;
use contactd_store_sqlite::SqliteStore;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verified {
    /// Both hold the same.
    Equal(CopyDigest),
    /// They differ, although both contain the same changes.
    Different {
        /// What the copy holds.
        copy: CopyDigest,
        /// What the database holds.
        database: CopyDigest,
    },
    /// The copy did not come to the same change as the database in time: it does not follow, or too much is changed.
    NotReached {
        /// What the copy holds.
        copy: CopyDigest,
        /// What the database holds.
        database: CopyDigest,
    },
}

/// The pause between two looks at the copy.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Compares counts and digests of a copy with the database, both after the same change. Waits for the copy if it is behind,
/// and begins again if it is ahead.
pub async fn verify(local: &SqliteStore, database: &PostgresStore, patience: Duration) -> Stored<Verified> {
    let began = Instant::now();
    loop {
        let theirs = database.digest().await?;
        let wanted = (theirs.access_number, theirs.details_number);
        loop {
            let state = local.copy_state()?;
            let is_loaded = state.as_ref().is_some_and(|state| state.loaded_through.is_none());
            let (access, details) = state.map_or((-1, -1), |state| {
                (state.access.number, state.details.map_or(-1, |details| details.number))
            });
            let is_there = is_loaded && access >= wanted.0 && details >= wanted.1;
            if is_there || began.elapsed() > patience {
                break;
            }
            database.sleep(LOOK_PAUSE).await;
        }
        let ours = local.digest()?;
        if (ours.access_number, ours.details_number) == wanted {
            return Ok(if ours == theirs {
                Verified::Equal(ours)
            } else {
                Verified::Different { copy: ours, database: theirs }
            });
        }
        if began.elapsed() > patience {
            return Ok(Verified::NotReached { copy: ours, database: theirs });
        }
    }
}
