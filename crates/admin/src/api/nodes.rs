//! The nodes of a cluster, and what is wrong with this server.

use std::sync::Arc;

use axum::extract::State;
use contactd_services::views::{FindingView, NodeView};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Semaphore;

use crate::api::Api;
use crate::api::auth::Who;
use crate::api::endpoint::Endpoint;
use crate::api::extract::Json;
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Nodes);
    vec![
        Endpoint::get("/nodes", needs, "listNodes", list)
            .says("The nodes of the cluster; none without a cluster.")
            .answers::<NodeList>(),
        Endpoint::get("/health", needs, "checkHealth", health)
            .says("What a check of this server finds, as `contactd doctor` does. It reads the whole store.")
            .answers::<HealthShown>(),
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
    findings: Vec<FindingView>,
}

async fn list(State(api): State<Arc<Api>>, _: Who) -> Result<Json<impl Serialize>, Refusal> {
    Ok(Json(NodeList { nodes: (api.status.nodes)().await? }))
}

/// It reads the whole store, so one at a time does.
static LOOKING: Semaphore = Semaphore::const_new(1);

async fn health(State(api): State<Arc<Api>>, who: Who) -> Result<Json<impl Serialize>, Refusal> {
    let turn = LOOKING.acquire().await.map_err(|_| Refusal::internal())?;
    let _turn = turn;
    let mut findings = (api.status.findings)().await;
    findings.extend(api.services.health.findings(&who.actor).await);
    let findings = findings.into_iter().map(FindingView::from).collect();
    Ok(Json(HealthShown { version: env!("CARGO_PKG_VERSION"), findings }))
}
