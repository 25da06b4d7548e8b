//! The part of a server that makes it a node of a cluster: its copy follows the database, and its usage and its
//! journal are shipped there.

use std::sync::Arc;

use contactd_cluster::{Node, NodeSettings, PutInForce, Shipping, data_dir_id};
use contactd_core::{AccessTables, Callers, Lease};
use contactd_services::Services;
use tokio::runtime::Handle;

use crate::engine::Files;
use crate::opening::Opened;
use crate::recording::Recording;

/// A server as a node of a cluster.
pub(crate) struct NodeRuntime {
    pub(crate) node: Node,
    /// Whether it may answer lookups.
    pub(crate) lease: Lease,
    pub(crate) shipping: Shipping,
}

impl NodeRuntime {
    /// Begins to follow the database, if there is one.
    pub(crate) fn join(
        opened: &Opened,
        files: &Arc<Files>,
        access_tables: &Arc<AccessTables<Files>>,
        callers: &Arc<Callers>,
        services: &Arc<Services>,
        recording: &Recording,
    ) -> anyhow::Result<Option<Self>> {
        let Some(database) = &opened.database else { return Ok(None) };
        let lease = Lease::of_node(Arc::clone(&opened.clock));
        let node = Node::start(NodeSettings {
            database: Arc::clone(database),
            local: Arc::clone(files),
            node: opened.node().to_owned(),
            name: opened.config.cluster.name.clone(),
            data_dir: data_dir_id(opened.dir.path()),
            lease_length: opened.config.cluster.lease,
            clock: Arc::clone(&opened.clock),
            put_in_force: put_in_force(access_tables),
            lease: lease.clone(),
            callers: Arc::clone(callers),
            usage_is_counted: recording.end().is_some(),
            runtime: Handle::current(),
            can_record: recording.can_record(),
        })?;
        let shipping = Shipping::start(&node, Arc::clone(services), recording.last_line())?;
        Ok(Some(Self { node, lease, shipping }))
    }

    /// Gives the lease back: no command waits for this node any more.
    pub(crate) async fn leave(self) -> Shipping {
        self.node.finish().await;
        self.shipping
    }
}

/// Puts what the node has copied in force in this process.
fn put_in_force(access_tables: &Arc<AccessTables<Files>>) -> PutInForce {
    let access_tables = Arc::clone(access_tables);
    Box::new(move || {
        let access_tables = Arc::clone(&access_tables);
        Box::pin(async move { access_tables.refresh().await })
    })
}
