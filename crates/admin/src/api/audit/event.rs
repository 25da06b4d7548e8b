//! One event of the journal, with the fields of `contactd audit show --json`.

use std::collections::BTreeMap;

use contactd_core::{AdminRecord, ShortDigest, Timestamp, hex};
use contactd_services::ShownEvent;
use schemars::JsonSchema;
use serde::Serialize;

/// A request or an action.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum EventShown {
    /// A request with a token.
    Request(RequestShown),
    /// An action of a user, a command or the service itself.
    Admin(ActionShown),
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestShown {
    /// The number of the line.
    seq: u64,
    #[schemars(with = "String")]
    time: Timestamp,
    /// Empty if several requests are recorded together.
    request_id: String,
    /// The digest of the id that the caller sent, if that is not recorded as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    given_id_digest: Option<String>,
    /// The id of the token.
    token: String,
    token_name: Option<String>,
    /// `phone` or `email`.
    operation: &'static str,
    /// `hit`, `miss` or `refused`.
    outcome: String,
    /// The error code, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_digest: Option<String>,
    /// How many requests it is about, if that is not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The node in whose journal it is.
    node: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ActionShown {
    /// The number of the line.
    seq: u64,
    #[schemars(with = "String")]
    time: Timestamp,
    /// Always `null`.
    request_id: Option<String>,
    /// Always `null`.
    token: Option<String>,
    /// Who did it.
    actor: String,
    /// How the request came in.
    via: String,
    operation: String,
    /// `done` or `failed`.
    outcome: &'static str,
    counts: BTreeMap<String, u64>,
    /// Digests of the people, numbers and addresses that it was about.
    subjects: Vec<String>,
    ticket: Option<String>,
    what: Option<String>,
    /// The node in whose journal it is.
    node: String,
}

impl From<&ShownEvent<'_>> for EventShown {
    fn from(event: &ShownEvent<'_>) -> Self {
        let text = |digest: ShortDigest| hex::encode(&digest.0);
        match event {
            ShownEvent::Request { record, token_name } => Self::Request(RequestShown {
                seq: record.seq,
                time: record.at,
                request_id: record.request_id.clone(),
                given_id_digest: record.given_id.map(text),
                token: record.token.clone(),
                token_name: token_name.map(str::to_owned),
                operation: record.operation.name(),
                outcome: record.outcome.clone(),
                reason: record.reason.clone(),
                profile_digest: record.profile.as_ref().map(|(_, digest)| text(*digest)),
                value_digest: record.value.map(text),
                count: (record.count > 1).then_some(record.count),
                node: record.node.clone(),
            }),
            ShownEvent::Admin(AdminRecord { seq, node, entry }) => Self::Admin(ActionShown {
                seq: *seq,
                time: entry.time,
                request_id: None,
                token: None,
                actor: entry.actor.clone(),
                via: entry.via.clone(),
                operation: entry.operation.clone(),
                outcome: entry.outcome.name(),
                counts: entry.counts.clone(),
                subjects: entry.subjects.clone(),
                ticket: entry.ticket.clone(),
                what: entry.what.clone(),
                node: node.clone(),
            }),
        }
    }
}
