//! Storing what a node has counted in the database.

use std::collections::HashMap;
use std::sync::Arc;

use contactd_core::store::Stored;
use contactd_core::{Clock, SystemClock, UsageDelta};
use parking_lot::Mutex;

use crate::Node;
use crate::state::Shared;

/// Counts of this many days are stored again when a node starts, and when the database may have been restored.
const DAYS: i64 = 62;
/// Otherwise those of today and yesterday: others do not change any more.
const RECENT: i64 = 1;

/// The usage counts of a node, which are stored in the database. They are absolute numbers, so that what was stored twice counts
/// once.
pub(crate) struct CountedUsage {
    shared: Arc<Shared>,
    shipped: Mutex<Shipped>,
}

/// What is stored.
#[derive(Default)]
struct Shipped {
    /// Since when the database is the same; `None` if nothing is stored yet.
    epoch: Option<u64>,
    /// By token and day.
    counts: HashMap<(String, i64), UsageDelta>,
}

impl CountedUsage {
    pub(crate) fn of(node: &Node) -> Self {
        Self { shared: Arc::clone(&node.shared), shipped: Mutex::default() }
    }

    /// Stores what was counted since the last time.
    pub(crate) async fn ship(&self) -> Stored<()> {
        let (today, epoch) = (SystemClock.now().day(), self.shared.state().epoch);
        let settings = &self.shared.settings;
        let is_first = self.shipped.lock().epoch != Some(epoch);
        let counted = settings.local.usage_since(today - if is_first { DAYS } else { RECENT })?;
        let due: Vec<(i64, UsageDelta)> = {
            let mut stored = self.shipped.lock();
            if is_first {
                stored.counts.clear();
            }
            let is_due = |(day, delta): &(i64, UsageDelta)| {
                stored.counts.get(&(delta.token.clone(), *day)).is_none_or(|stored| stored != delta)
            };
            counted.into_iter().filter(is_due).collect()
        };
        if !due.is_empty() {
            settings.database.store_usage(&settings.node, &due).await?;
        }
        let mut stored = self.shipped.lock();
        stored.epoch = Some(epoch);
        stored.counts.extend(due.into_iter().map(|(day, delta)| ((delta.token.clone(), day), delta)));
        stored.counts.retain(|(_, day), _| *day >= today - RECENT);
        Ok(())
    }
}
