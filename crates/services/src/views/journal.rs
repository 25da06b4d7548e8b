//! Lines of the journal.

use std::collections::{BTreeMap, HashMap};

use contactd_core::store::IndexedLine;
use contactd_core::{AdminRecord, AuditRecord, RequestVia, ShortDigest, Timestamp, hex};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A request or an action.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schemars(rename = "EventShown")]
pub enum EventView {
    /// A request with a token.
    Request(RequestView),
    /// An action of a user, a command or the service itself.
    Admin(ActionView),
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RequestShown")]
pub struct RequestView {
    /// The number of the line.
    pub seq: u64,
    pub time: Timestamp,
    /// Empty if several requests are recorded together.
    pub request_id: String,
    /// The digest of the id that the caller sent, if that is not recorded as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_id_digest: Option<String>,
    /// The id of the token.
    pub token: String,
    pub token_name: Option<String>,
    /// `phone`, `email`, or `batch` if a batch was refused as a whole.
    pub operation: &'static str,
    /// `sandbox` if a token of the sandbox was used: nothing about anybody was disclosed, and it is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<&'static str>,
    /// `hit`, `miss` or `refused`.
    pub outcome: String,
    /// The error code, if it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_digest: Option<String>,
    /// Its place in a batch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place_in_batch: Option<u32>,
    /// The same batch asked for the same before: it does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<bool>,
    /// How many requests it is about, if that is not one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// The node in whose journal it is.
    pub node: String,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ActionShown")]
pub struct ActionView {
    /// The number of the line.
    pub seq: u64,
    pub time: Timestamp,
    /// Always `null`.
    pub request_id: Option<String>,
    /// Always `null`.
    pub token: Option<String>,
    /// Who did it.
    pub actor: String,
    /// How the request came in.
    pub via: String,
    pub operation: String,
    /// `done` or `failed`.
    pub outcome: &'static str,
    pub counts: BTreeMap<String, u64>,
    /// Digests of the people, numbers and addresses that it was about.
    pub subjects: Vec<String>,
    pub ticket: Option<String>,
    pub what: Option<String>,
    /// The node in whose journal it is.
    pub node: String,
}

impl EventView {
    /// The columns of a CSV file of events: the fields of their JSON form.
    pub const COLUMNS: [&'static str; 21] = [
        "time",
        "operation",
        "outcome",
        "reason",
        "token",
        "tokenName",
        "actor",
        "via",
        "requestId",
        "placeInBatch",
        "repeat",
        "count",
        "counts",
        "what",
        "ticket",
        "profileDigest",
        "valueDigest",
        "givenIdDigest",
        "subjects",
        "node",
        "seq",
    ];

    /// A line, with the names of tokens by their ids.
    pub(crate) fn of(line: IndexedLine, names: &HashMap<String, String>) -> Self {
        match line {
            IndexedLine::Request(record) => {
                let token_name = names.get(&record.token).cloned();
                Self::Request(RequestView::of(record, token_name))
            }
            IndexedLine::Admin(record) => Self::Admin(record.into()),
        }
    }

    /// The cells of its row, in the order of [`COLUMNS`](Self::COLUMNS); empty if it has no such field.
    pub fn cells(&self) -> [String; 21] {
        let fields = serde_json::to_value(self).unwrap_or_default();
        Self::COLUMNS.map(|column| match &fields[column] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(texts) => Vec::from_iter(texts.iter().filter_map(Value::as_str)).join(" "),
            Value::Object(counts) => {
                let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
                counts.collect::<Vec<_>>().join(", ")
            }
            number => number.to_string(),
        })
    }
}

impl RequestView {
    fn of(record: AuditRecord, token_name: Option<String>) -> Self {
        let text = |digest: ShortDigest| hex::encode(&digest.0);
        Self {
            repeat: record.is_repeat().then_some(true),
            seq: record.seq,
            time: record.at,
            request_id: record.request_id,
            given_id_digest: record.given_id.map(text),
            token: record.token,
            token_name,
            operation: record.operation.name(),
            via: record.via.map(RequestVia::name),
            outcome: record.outcome,
            reason: record.reason,
            profile_digest: record.profile.map(|(_, digest)| text(digest)),
            value_digest: record.value.map(text),
            place_in_batch: record.place,
            count: (record.count > 1).then_some(record.count),
            node: record.node,
        }
    }
}

impl From<AdminRecord> for ActionView {
    fn from(AdminRecord { seq, node, entry }: AdminRecord) -> Self {
        Self {
            seq,
            time: entry.time,
            request_id: None,
            token: None,
            actor: entry.actor,
            via: entry.via,
            operation: entry.operation,
            outcome: entry.outcome.name(),
            counts: entry.counts,
            subjects: entry.subjects,
            ticket: entry.ticket,
            what: entry.what,
            node,
        }
    }
}
