//! Whether a database is whole. One that is being restored is not: what it holds so far must not be taken for everything.

use contactd_core::store::StoreError;

use crate::database::Work;
use crate::failure::{Failure, Tried};

/// The tables that nodes copy from, or that say which database it is.
const COPIED: [&str; 9] =
    ["changes", "counters", "details", "facts", "nodes", "sources", "suppressions", "tokens", "tombstones"];

/// Fails if the database is not whole: a restore gives a table its primary key when all of its rows are there.
pub(crate) async fn check(work: &Work) -> Tried<()> {
    let missing = "SELECT string_agg(name, ', ') FROM unnest($1::text[]) AS name WHERE NOT EXISTS (
        SELECT 1 FROM pg_index WHERE indrelid = to_regclass('contactd.' || name) AND indisprimary)";
    match work.query_one(missing, &[&&COPIED[..]]).await?.get::<_, Option<String>>(0) {
        None => Ok(()),
        Some(missing) => Err(Failure::Store(StoreError::Unavailable(format!(
            "the database is not whole, because these tables or their keys are missing: {missing}. If it is being restored, \
             this ends by itself"
        )))),
    }
}
