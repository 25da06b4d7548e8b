//! Starting and stopping a node.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use contactd_core::blocking;
use contactd_core::store::StoreError;
use contactd_store_postgres::new_process_id;

use crate::metrics::NodeMeasures;
use crate::settings::NodeSettings;
use crate::state::{Shared, State};
use crate::{access, checking, details, quotas, tidying, wiping};

/// Why a node could not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The files could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no thread for it.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A node that follows the database. Dropping it stops it without giving its lease back, as a crash does.
pub struct Node {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    /// Starts a node. This returns at once; lookups may be answered as soon as its lease holds, which needs a complete copy. What the
    /// local files hold is overwritten: whoever opens them makes sure that they are a copy.
    pub fn start(settings: NodeSettings) -> Result<Self, NodeError> {
        let mut state = State::default();
        if let Some(copied) = settings.local.copy_state()? {
            state.access = copied.access;
            state.held = settings.local.count_held()?;
            // Until changes since loading began are applied, the details are of different moments.
            state.is_loaded =
                copied.details.is_some() && copied.loaded_through.is_none() && copied.seen.is_none();
            state.details = copied.details;
            state.loaded_through = copied.loaded_through;
            state.seen = copied.seen;
            state.wiped = copied.wiped_number;
        }
        let shared = Arc::new(Shared::new(settings, new_process_id()?, state));
        let mut threads = Vec::new();
        for (name, run) in [
            ("node-access", access::run as fn(&Shared)),
            ("node-details", details::run),
            ("node-wiping", wiping::run),
            ("node-quotas", quotas::run),
            ("node-tidying", tidying::run),
            ("node-checking", checking::run),
        ] {
            let shared = Arc::clone(&shared);
            threads.push(thread::Builder::new().name(name.to_owned()).spawn(move || run(&shared))?);
        }
        Ok(Self { shared, threads })
    }

    /// Its metrics.
    pub fn measures(&self) -> NodeMeasures {
        NodeMeasures(Arc::clone(&self.shared))
    }

    /// Stops it and gives back its lease, so that no command waits for it, and unused units of quotas. Lookups must have ended.
    pub async fn finish(mut self) {
        blocking(|| self.stop());
        self.shared.settings.lease.end();
        if let Err(error) = self.shared.quotas.give_back_all(&self.shared).await {
            tracing::warn!(
                %error,
                "units of quotas could not be given back: they count as used until this node starts again"
            );
        }
        if let Err(error) = self.shared.leave().await {
            tracing::warn!(%error, "the lease could not be given back: commands wait until it ends");
        }
    }

    fn stop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
        self.shared.settings.lease.end();
    }
}
