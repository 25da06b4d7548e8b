//! The nodes of a cluster, and what is wrong with this server.

use contactd_core::Finding;
use contactd_services::views::NodeView;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Nodes);
    vec![
        Endpoint::get("/nodes", needs, "listNodes")
            .does("The nodes of the cluster; none without a cluster.", list),
        Endpoint::get("/health", needs, "checkHealth").does(
            "What a check of this server finds, as `contactd doctor` does. It reads the whole store.",
            health,
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
struct NodeList {
    nodes: Vec<NodeView>,
}

#[derive(Serialize, JsonSchema)]
struct HealthShown {
    /// The version of contactd that runs.
    version: &'static str,
    findings: Vec<Finding>,
}

async fn list(Call { api, .. }: Call) -> Answer<NodeList> {
    Ok(Json(NodeList { nodes: (api.status.nodes)().await? }))
}

/// It reads the whole store, so one at a time does.
static LOOKING: Semaphore = Semaphore::const_new(1);

async fn health(Call { api, who }: Call) -> Answer<HealthShown> {
    let _turn = LOOKING.acquire().await.map_err(|_| Refusal::internal())?;
    let mut findings = (api.status.findings)().await;
    findings.extend(api.services.health.findings(&who.actor).await);
    Ok(Json(HealthShown { version: env!("CARGO_PKG_VERSION"), findings }))
}
