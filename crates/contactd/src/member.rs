//! The part of a server that makes it a node of a cluster: its copy follows the database, and its usage is stored there.

use std::sync::Arc;

use contactd_cluster::{Node, NodeSettings, UsageShipping, home_of};
use contactd_core::{Lease, Live};

use crate::context::Opened;
use crate::engine::Files;

/// A server as a node of a cluster.
pub(crate) struct Member {
    pub(crate) node: Node,
    /// Whether it may answer lookups.
    pub(crate) lease: Lease,
    usage: UsageShipping,
}

impl Member {
    /// Begins to follow the database, if there is one.
    pub(crate) fn join(
        opened: &Opened,
        files: &Arc<Files>,
        live: &Arc<Live<Files>>,
    ) -> anyhow::Result<Option<Self>> {
        let Some(database) = &opened.database else { return Ok(None) };
        let lease = Lease::of_node(Arc::clone(&opened.clock));
        let node = Node::start(NodeSettings {
            database: Arc::clone(database),
            local: Arc::clone(files),
            node: opened.node.clone(),
            name: opened.cluster.name.clone(),
            home: home_of(opened.dir.path()),
            lease_length: opened.cluster.lease,
            clock: Arc::clone(&opened.clock),
            applied: Arc::<Live<_>>::clone(live),
            lease: lease.clone(),
        })?;
        let usage = UsageShipping::start(&node)?;
        Ok(Some(Self { node, lease, usage }))
    }

    /// Gives the lease back: no command waits for this node any more.
    pub(crate) async fn leave(self) -> UsageShipping {
        // Apart, because it waits for its threads.
        let _ = tokio::task::spawn_blocking(move || self.node.finish()).await;
        self.usage
    }
}
