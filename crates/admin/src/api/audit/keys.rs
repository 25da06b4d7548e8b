//! What is to be noted down elsewhere: the roots and the heads of the journals.

use contactd_core::Timestamp;
use contactd_services::NodeName;
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::auth::Call;
use crate::api::extract::{Answer, Json};

#[derive(Serialize, JsonSchema)]
pub(super) struct RootsShown {
    roots: Vec<RootShown>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RootShown {
    /// The node whose journal it is.
    node: String,
    /// 64 hexadecimal digits.
    key: String,
    /// Whether the journal goes on with it; otherwise it had it before a restore.
    is_current: bool,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct HeadsShown {
    heads: Vec<HeadShown>,
}

#[derive(Serialize, JsonSchema)]
struct HeadShown {
    /// The node whose journal it is.
    node: String,
    /// What to note down.
    head: String,
    /// The number of the line.
    line: u64,
    time: Timestamp,
}

/// The name of a node. Without a cluster there is only one, which has none.
fn shown(NodeName { node, name }: NodeName, is_here: bool) -> String {
    match (name.is_empty(), is_here) {
        (false, _) => name,
        (true, true) => "this service".to_owned(),
        (true, false) => node,
    }
}

pub(super) async fn roots(Call { api, who }: Call) -> Answer<RootsShown> {
    let mut roots = Vec::new();
    for of in api.services.audits.all_roots(&who.actor).await? {
        let (current, node) = (of.of.roots.last().copied(), shown(of.node, of.is_here));
        roots.extend(of.of.roots.iter().map(|root| RootShown {
            node: node.clone(),
            key: root.to_string(),
            is_current: Some(*root) == current,
        }));
    }
    Ok(Json(RootsShown { roots }))
}

pub(super) async fn heads(Call { api, who }: Call) -> Answer<HeadsShown> {
    let heads = api.services.audits.all_heads(&who.actor).await?;
    let heads = heads.into_iter().map(|of| {
        let head = match of.is_here {
            true => format!("{}:{}", of.of.seq, of.of.chain),
            false => format!("{}:{}:{}", of.of.seq, of.of.chain, of.node.node),
        };
        HeadShown { node: shown(of.node, of.is_here), head, line: of.of.seq, time: of.of.at }
    });
    Ok(Json(HeadsShown { heads: heads.collect() }))
}
