//! A node of a cluster.
//!
//! PostgreSQL is the source of truth. Every node answers lookups from a copy of it in its own files, which follows the database
//! ([`Node`]). A change is in force when every node has it, or may not answer any more because its lease has ended
//! ([`ClusterInForce`]).
//!
//! A node has a thread for everything that may take long. One follows tokens and suppressions, which is quick, and sends
//! heartbeats (`access.rs`); so a large import never delays an opt-out. Another loads and follows details (`details.rs`). Another
//! wipes what was removed (`wiping.rs`), others lease units of quotas (`quotas.rs`) and ship the journal (`shipping.rs`), and one removes from the database what no
//! node needs any more (`tidying.rs`).

mod access;
mod background;
mod checking;
mod clock;
mod condition;
mod details;
mod in_force;
mod metrics;
mod migrating;
mod node;
mod node_claim;
mod nodes;
mod quota_book;
mod quotas;
mod reconciling;
mod settings;
mod shipping;
mod state;
mod tidying;
mod usage;
mod verify;
mod wiping;

pub use condition::database_findings;
pub use in_force::ClusterInForce;
pub use metrics::NodeMeasures;
pub use migrating::{MigrateError, Migrated, MigratedTable, Migration};
pub use node::{Node, NodeError};
pub use node_claim::data_dir_id;
pub use nodes::{ForgetError, ListedNode, NodeState, Nodes, does_a_node_run};
pub use reconciling::{AccountList, Reconcile, ReconcileError, Reconciled, Reconciling};
pub use settings::{NodeSettings, PutInForce};
pub use shipping::{LastLine, Shipping};
pub use verify::{Verified, verify};
