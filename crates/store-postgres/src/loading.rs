//! Filling an empty table: a new table gets the rows first and its indexes afterwards, and takes the place of the empty one just
//! before the commit. Sorting all keys once costs less than half of adding them one by one.
//!
//! Others go on reading the empty table meanwhile. It is replaced only if it has no page at all, so that nobody reads an older
//! state of it in which it had rows; and only if the new one is like it in everything, also in what the owner of the database
//! may have added. Otherwise, and if somebody reads it for so long that it cannot be replaced, rows go in the usual way.

use crate::database::Work;
use crate::failure::{Failure, Tried};

/// The table that is being filled.
pub(crate) const TABLE: &str = "details_loading";

/// Whether both tables are alike, and the old one has never held a row, or not since it was emptied to the last page. The
/// three indexes are those of [`INDEX`].
const IS_ALIKE: &str = "SELECT pg_relation_size(old.oid) = 0
        AND old.relowner = new.relowner
        AND old.reltablespace = new.reltablespace
        AND old.relam = new.relam
        AND old.relreplident = new.relreplident
        AND old.relacl IS NOT DISTINCT FROM new.relacl
        AND old.reloptions IS NOT DISTINCT FROM new.reloptions
        AND NOT (old.relhastriggers OR old.relhasrules OR old.relrowsecurity OR old.relhassubclass)
        AND (SELECT count(*) FROM pg_index WHERE indrelid = old.oid) = 3
        AND (SELECT count(*) FROM pg_attribute WHERE attrelid = old.oid AND attnum > 0)
            = (SELECT count(*) FROM pg_attribute WHERE attrelid = new.oid AND attnum > 0)
        AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = old.oid
            AND classid NOT IN ('pg_class'::regclass, 'pg_type'::regclass, 'pg_constraint'::regclass))
        AND NOT EXISTS (SELECT 1 FROM pg_description WHERE classoid = 'pg_class'::regclass AND objoid = old.oid)
        AND NOT EXISTS (SELECT 1 FROM pg_publication_tables
            WHERE schemaname = 'contactd' AND tablename IN ('details', 'details_loading'))
    FROM pg_class AS old, pg_class AS new
    WHERE old.oid = to_regclass('contactd.details') AND new.oid = to_regclass('contactd.details_loading')";

/// What the schema says about the table.
const INDEX: &str = "ALTER TABLE details_loading ADD CONSTRAINT details_loading_by_id PRIMARY KEY (id);
    CREATE INDEX details_loading_by_number ON details_loading (number);
    CREATE INDEX details_loading_by_expiry ON details_loading (expires_at) WHERE expires_at IS NOT NULL";

/// Readers that come while it waits for earlier ones wait too, so it does not wait for long.
const REPLACE: &str = "SET LOCAL lock_timeout TO '3s';
    DROP TABLE details;
    ALTER TABLE details_loading RENAME TO details;
    ALTER INDEX details_loading_by_id RENAME TO details_by_id;
    ALTER INDEX details_loading_by_number RENAME TO details_by_number;
    ALTER INDEX details_loading_by_expiry RENAME TO details_by_expiry;
    SET LOCAL lock_timeout TO '10s'";

const ADD: &str = "INSERT INTO details SELECT * FROM details_loading ORDER BY id; DROP TABLE details_loading";

/// Creates the table. False if rows have to go in the usual way.
pub(crate) async fn begin(work: &Work) -> Tried<bool> {
    let create = async {
        work.batch_execute(
            "SAVEPOINT loading; CREATE TABLE details_loading (LIKE details INCLUDING ALL EXCLUDING INDEXES)",
        )
        .await?;
        Ok::<bool, tokio_postgres::Error>(work.query_one(IS_ALIKE, &[]).await?.get(0))
    };
    let is_ready = create.await.unwrap_or(false);
    // If the connection was lost, this says so.
    end_savepoint(work, is_ready).await?;
    Ok(is_ready)
}

/// Creates the indexes. Takes as long as it takes.
pub(crate) async fn index(work: &Work) -> Tried<()> {
    Ok(work.batch_execute(INDEX).await?)
}

/// Puts the table in place of the empty one. From here on, whoever wants to read details waits for the commit.
pub(crate) async fn put_in_place(work: &Work) -> Tried<()> {
    work.batch_execute("SAVEPOINT loading").await?;
    let replaced = work.batch_execute(REPLACE).await;
    end_savepoint(work, replaced.is_ok()).await?;
    if let Err(error) = replaced {
        tracing::debug!(what = Failure::from(error).what(), "rows have to be copied once more");
        work.batch_execute(ADD).await?;
    }
    Ok(())
}

async fn end_savepoint(work: &Work, is_kept: bool) -> Tried<()> {
    let undo = if is_kept { "" } else { "ROLLBACK TO SAVEPOINT loading;" };
    Ok(work.batch_execute(&format!("{undo} RELEASE SAVEPOINT loading")).await?)
}
