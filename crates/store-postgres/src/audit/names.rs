//! Names and their ids: tokens, nodes, reasons and keys occur in many lines.

use std::collections::{BTreeSet, HashMap};

use crate::database::Work;
use crate::failure::Tried;

/// The ids of names. New names get one.
pub(super) async fn ids(work: &Work, names: BTreeSet<&str>) -> Tried<HashMap<String, i32>> {
    // In order, so that two transactions that add the same names wait for each other in one direction only.
    let names: Vec<&str> = names.into_iter().collect();
    let mut known = find(work, &names).await?;
    let missing: Vec<&str> = names.into_iter().filter(|name| !known.contains_key(*name)).collect();
    if !missing.is_empty() {
        let insert = "INSERT INTO names (name) SELECT * FROM unnest($1::text[]) ON CONFLICT DO NOTHING";
        work.execute(insert, &[&missing]).await?;
        known.extend(find(work, &missing).await?);
    }
    Ok(known)
}

async fn find(work: &Work, names: &[&str]) -> Tried<HashMap<String, i32>> {
    let rows = work.query("SELECT name, id FROM names WHERE name = ANY($1)", &[&names]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// The id of a name; `None` if it does not occur.
pub(super) async fn find_name(work: &Work, name: &str) -> Tried<Option<i32>> {
    Ok(find(work, &[name]).await?.remove(name))
}

/// The id of a node. Whoever has this does not change what is indexed of the node at the same time as others.
pub(crate) async fn lock_node(work: &Work, node: &str) -> Tried<i32> {
    ids(work, BTreeSet::from([node])).await?;
    let lock = "SELECT id FROM names WHERE name = $1 FOR NO KEY UPDATE";
    Ok(work.query_one(lock, &[&node]).await?.get(0))
}
