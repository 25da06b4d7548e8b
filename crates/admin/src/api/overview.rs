//! How the service does, at a glance. Every page begins with it, so it reads counts and facts only.

use contactd_core::store::{ImportSummary, PastImport, StoreError};
use contactd_core::{Finding, Timestamp, Token};
use contactd_services::views::{DayLookups, NodeView};
use contactd_services::{HealthError, HeldBySource, JournalState, Overview};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::api::server_status::LookupTimes;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Overview);
    vec![
        Endpoint::get("/overview", needs, "showOverview").does(
            "How the service does: lookups, what is held, the journal, and what needs attention.",
            show,
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OverviewShown {
    /// Lookups of the last 30 days. Those of the last seconds may be missing.
    lookups: Vec<DayLookups>,
    /// How long lookups take on this server; `null` if there was none since its start.
    latency: Option<LookupTimes>,
    held: HeldShown,
    /// How many people, numbers and addresses are opted out.
    suppressions: u64,
    /// Tokens that end within 14 days.
    tokens_ending: Vec<EndingShown>,
    journal: JournalShown,
    last_import: Option<ImportShown>,
    last_backup: Option<BackupShown>,
    /// The nodes of the cluster; none without a cluster.
    nodes: Vec<NodeAtAGlance>,
    findings: Vec<Finding>,
}

#[derive(Serialize, JsonSchema)]
struct HeldShown {
    profiles: u64,
    details: Vec<HeldBySource>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EndingShown {
    id: String,
    name: String,
    ends_at: Option<Timestamp>,
}

/// What is known about the journal.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct JournalShown {
    /// `whole` or `broken`, as the last verification found; `unchecked` if there was none; `off` if this server keeps no journal.
    state: &'static str,
    /// When it was last verified.
    compared_at: Option<Timestamp>,
    /// About how many lines it has.
    lines: u64,
    message: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ImportShown {
    id: i64,
    imported_at: Timestamp,
    source: String,
    rows: u64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct BackupShown {
    made_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
struct NodeAtAGlance {
    name: String,
    state: String,
    /// How many changes its copy does not contain.
    behind: u64,
}

async fn show(Call { api, who }: Call) -> Answer<OverviewShown> {
    let Overview { lookups, profiles, held, tokens_ending, journal, last_import, last_backup, findings } =
        api.services.health.overview(&who.actor).await?;
    let nodes = (api.status.nodes)().await?;
    let ending = |token: Token| EndingShown { id: token.id, name: token.name, ends_at: token.expires_at };
    let at_a_glance = |NodeView { name, state, behind, .. }| NodeAtAGlance { name, state, behind };
    let imported = |PastImport { id, at, summary: ImportSummary { source, rows, .. }, .. }| ImportShown {
        id,
        imported_at: at,
        source,
        rows,
    };
    let findings = (api.status.findings)().await.into_iter().chain(findings);
    Ok(Json(OverviewShown {
        lookups,
        latency: (api.status.lookup_times)(),
        held: HeldShown { profiles, details: held },
        suppressions: api.status.suppressions.len() as u64,
        tokens_ending: tokens_ending.into_iter().map(ending).collect(),
        journal: JournalShown::of(journal, api.status.is_journal_on, api.clock.now()),
        last_import: last_import.map(imported),
        last_backup: last_backup.map(|made_at| BackupShown { made_at }),
        nodes: nodes.into_iter().map(at_a_glance).collect(),
        findings: findings.collect(),
    }))
}

impl JournalShown {
    fn of(state: JournalState, is_on: bool, now: Timestamp) -> Self {
        let JournalState { lines, last, is_lost, .. } = state;
        match last {
            Some(last) if !last.is_whole => {
                Self { state: "broken", compared_at: Some(last.at), lines, message: last.what }
            }
            _ if is_lost => {
                let message = "Lines are missing from the journal or were changed. Verify it to see which.";
                Self { state: "broken", compared_at: Some(now), lines, message: Some(message.to_owned()) }
            }
            last if !is_on => {
                Self { state: "off", compared_at: last.map(|last| last.at), lines, message: None }
            }
            Some(last) => Self { state: "whole", compared_at: Some(last.at), lines, message: None },
            None => Self { state: "unchecked", compared_at: None, lines, message: None },
        }
    }
}

impl From<HealthError> for Refusal {
    fn from(error: HealthError) -> Self {
        match error {
            HealthError::Store(error) => error.into(),
            HealthError::Audit(error) => error.into(),
            HealthError::NotRecorded(error) => error.into(),
            HealthError::Backup(error) => StoreError::Engine(error.to_string()).into(),
        }
    }
}
