//! The tables. A step is never edited once released: a change to them is a new step after it. Steps only add, so that nodes of the
//! version before go on while the first new one starts.

use contactd_core::store::{StoreError, Stored};

use crate::database::Database;
use crate::failure::Tried;

const STEPS: &[&str] = &[
    include_str!("../schema/contactd.sql"),
    include_str!("../schema/journal-lists.sql"),
    include_str!("../schema/sealed.sql"),
    include_str!("../schema/node-reports.sql"),
    include_str!("../schema/journal-entries.sql"),
    include_str!("../schema/audit-batch.sql"),
    include_str!("../schema/audit-via.sql"),
];

/// The names of all tables.
pub(crate) fn tables() -> Vec<&'static str> {
    let lines = STEPS.iter().flat_map(|step| step.lines());
    lines.filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split(' ').next()).collect()
}

/// The number of the advisory lock under which one process at a time takes steps.
const LOCK: i64 = 0x636f_6e74_6163_7464;

/// Brings the tables to the newest schema. Makes them if there are none and `makes_tables` says so.
pub(crate) async fn bring_up_to_date(database: &Database, makes_tables: bool) -> Stored<()> {
    let known = i32::try_from(STEPS.len()).unwrap_or(i32::MAX);
    let found = database.read(|work| async move { version(&work).await }).await?;
    if found == Some(known) {
        return Ok(());
    }
    if found.is_none() && !makes_tables {
        return Err(StoreError::Unavailable(
            "there are no tables of contactd in this database: check the URL. `contactd serve` with an empty data directory, \
             `import` and `migrate` make them"
                .to_owned(),
        ));
    }
    database
        .prepare(|work| async move {
            work.query_one("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await?;
            work.batch_execute("CREATE SCHEMA IF NOT EXISTS contactd").await?;
            work.batch_execute("CREATE TABLE IF NOT EXISTS schema_version (number integer NOT NULL)").await?;
            // Another process may have taken them while this one waited.
            let found = version(&work).await?.unwrap_or(0);
            if found > known {
                let number = |number: i32| u32::try_from(number).unwrap_or(0);
                return Err(StoreError::SchemaTooNew { found: number(found), known: number(known) }.into());
            }
            for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
                work.batch_execute(step).await?;
            }
            work.batch_execute("DELETE FROM schema_version").await?;
            work.execute("INSERT INTO schema_version VALUES ($1)", &[&known]).await?;
            Ok(())
        })
        .await
}

/// The schema of the database; `None` if there is none yet.
async fn version(client: &tokio_postgres::Client) -> Tried<Option<i32>> {
    let table = client.query_one("SELECT to_regclass('contactd.schema_version') IS NOT NULL", &[]).await?;
    if !table.get::<_, bool>(0) {
        return Ok(None);
    }
    let row = client.query_opt("SELECT number FROM contactd.schema_version", &[]).await?;
    Ok(row.map(|row| row.get(0)))
}
