//! When the index of each journal was last compared with it.
//!
//! A machine with a journal notes that in its own files, where nobody can change it who can only write to the database of a
//! cluster.

use contactd_core::Timestamp;
use contactd_core::store::{Machine, Store};

use super::copies::of_others;
use crate::{AuditError, Parts};

fn facts(parts: &Parts) -> &dyn Store {
    parts.machine.as_ref().map_or(&*parts.store, Machine::files)
}

fn name(node: &str) -> String {
    format!("audit_index_compared {node}")
}

/// Notes that the index of a node's journal was compared with it now.
pub(super) async fn note(parts: &Parts, node: &str) -> Result<(), AuditError> {
    let now = Timestamp::from_seconds(parts.clock.now().seconds());
    Ok(facts(parts).replace_fact(&name(node), &now.to_string(), None).await?)
}

/// Since when everything that is indexed was compared: the oldest time of all journals. `None` if one of them never was.
pub(crate) async fn compared_at(parts: &Parts) -> Result<Option<Timestamp>, AuditError> {
    let mut nodes: Vec<String> = parts.machine.iter().map(|machine| machine.node().to_owned()).collect();
    let others = of_others(parts).await?;
    nodes.extend(others.into_iter().filter(|copy| copy.position.seq > 0).map(|copy| copy.node));
    let mut oldest = None;
    for node in nodes {
        let noted = facts(parts).fact(&name(&node)).await?;
        let Some(at) = noted.as_deref().and_then(Timestamp::parse) else { return Ok(None) };
        oldest = Some(oldest.map_or(at, |oldest: Timestamp| oldest.min(at)));
    }
    Ok(oldest)
}
