//! Storing what a node has counted in the database.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use contactd_core::store::Stored;
use contactd_core::{Clock, SystemClock, UsageDelta};
use parking_lot::{Mutex, MutexGuard};

use crate::Node;
use crate::state::Shared;

/// The pause between two looks at the counts.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Counts of this many days are stored again when a node starts, and when the database may have been restored.
const DAYS: i64 = 62;
/// Otherwise those of today and yesterday: others do not change any more.
const RECENT: i64 = 1;

/// Stores the usage counts of a node in the database, in its own thread. They are absolute numbers, so that what was stored
/// twice counts once.
pub(crate) struct UsageShipping {
    work: Arc<Work>,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

struct Work {
    shared: Arc<Shared>,
    stored: Mutex<Shipped>,
}

/// What is stored.
#[derive(Default)]
struct Shipped {
    /// Since when the database is the same; `None` if nothing is stored yet.
    epoch: Option<u64>,
    /// By token and day.
    counts: HashMap<(String, i64), UsageDelta>,
}

impl UsageShipping {
    /// Starts it.
    pub(crate) fn start(node: &Node) -> std::io::Result<Self> {
        let work = Arc::new(Work { shared: Arc::clone(&node.shared), stored: Mutex::default() });
        let (stop, stopped) = channel();
        let runtime = node.shared.settings.runtime.clone();
        let working = Arc::clone(&work);
        let thread = std::thread::Builder::new().name("usage".to_owned()).spawn(move || {
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK_PAUSE) {
                if let Err(error) = runtime.block_on(working.ship()) {
                    tracing::debug!(%error, "usage is stored in the database later");
                }
            }
        })?;
        Ok(Self { work, stop, thread })
    }

    /// Stores what is left, and stops.
    pub(crate) async fn ship_last(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
        if let Err(error) = self.work.ship().await {
            tracing::warn!(%error, "the last usage is stored in the database when this node starts again");
        }
    }
}

impl Work {
    async fn ship(&self) -> Stored<()> {
        let (today, epoch) = (SystemClock.now().day(), self.shared.state().epoch);
        let settings = &self.shared.settings;
        let is_first = self.stored().epoch != Some(epoch);
        let counted = settings.local.usage_since(today - if is_first { DAYS } else { RECENT })?;
        let due: Vec<(i64, UsageDelta)> = {
            let mut stored = self.stored();
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
        let mut stored = self.stored();
        stored.epoch = Some(epoch);
        stored.counts.extend(due.into_iter().map(|(day, delta)| ((delta.token.clone(), day), delta)));
        stored.counts.retain(|(_, day), _| *day >= today - RECENT);
        Ok(())
    }

    fn stored(&self) -> MutexGuard<'_, Shipped> {
        self.stored.lock()
    }
}
