//! Nodes of a cluster.

use contactd_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

/// A node of a cluster.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NodeShown")]
pub struct NodeView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The version of contactd that it runs.
    pub version: String,
    /// `serving`, `loading`, `journal down`, `wrong clock`, `stopped` or `silent`.
    pub state: String,
    /// For how long it may still answer lookups without another heartbeat, such as `4.2 s`.
    pub lease: String,
    /// How many changes its copy does not contain.
    pub behind: u64,
    /// When its last heartbeat was committed.
    pub seen_at: Timestamp,
    /// When it joined.
    pub joined_at: Timestamp,
}
