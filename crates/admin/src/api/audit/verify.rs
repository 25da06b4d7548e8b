//! Verifying the journals of all nodes.

use contactd_core::RootKey;
use contactd_services::{AuditError, VerifiedJournals, VerifyQuery, unknown_node};
use contactd_services::{JournalError, JournalFault, NotedHead, RootSource, Verification};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::auth::Call;
use crate::api::extract::Sent;
use crate::api::jobs::{Failed, Job, Kind, Started};
use crate::api::refusal::Refusal;

/// How many faults and how many notes a result lists.
const LISTED: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Verify {
    /// Roots that were noted down. Without any, those are trusted that the store remembers.
    #[serde(default)]
    roots: Vec<String>,
    /// A head that was noted down. The journal must still have its line.
    #[serde(default)]
    head: Option<String>,
}

/// What a verification found.
#[derive(Debug, Serialize)]
struct Verified {
    /// `whole`; `broken`; or `unverified`, if nothing wrong was found and a journal was not checked.
    state: &'static str,
    lines: u64,
    nodes: Vec<Value>,
    faults: Vec<Value>,
    notes: Vec<String>,
}

pub(super) async fn start(call: Call, Sent(asked): Sent<Verify>) -> Result<Started, Refusal> {
    let roots: Vec<RootKey> = asked
        .roots
        .iter()
        .map(|root| root.parse())
        .collect::<Result<_, _>>()
        .map_err(|_| Refusal::invalid("A root is 64 hexadecimal digits, as it was noted down."))?;
    let head = asked.head.as_deref().map(str::trim).filter(|head| !head.is_empty());
    let noted: Option<NotedHead> = head.map(str::parse).transpose().map_err(|_| {
        Refusal::invalid("The head is not as it was noted down: a number, a colon and 32 hexadecimal digits, such as 41:9f86d081….")
    })?;
    let input = json!({ "roots": asked.roots, "head": head });
    call.start(Kind::Verify, input, async move |Call { api, who }: &Call, job: &Job| {
        let query = VerifyQuery { node: None, roots, noted };
        let observe = |progress| job.observe(progress);
        let found = api.services.audits.verify_all(&who.actor, &query, &observe, job.cancel()).await;
        let found = Verified::of(found.map_err(failed)?);
        serde_json::to_value(found).map_err(|_| Refusal::internal().into())
    })
}

/// Why a job about the journal failed.
pub(super) fn failed(error: AuditError) -> Failed {
    match error {
        AuditError::Journal(JournalError::Cancelled) => {
            Failed::new("cancelled", "It was stopped before it was done.")
        }
        // What keeps it from being read; the text names files, and nothing of what is in them.
        AuditError::Journal(
            error @ (JournalError::File { .. } | JournalError::Key(_) | JournalError::Changed { .. }),
        ) => Failed::new("journal", format!("The journal cannot be read: {error}.")),
        error => Refusal::from(error).into(),
    }
}

impl Verified {
    fn of(found: VerifiedJournals) -> Self {
        let lines = found.lines();
        let has_copies = !found.copies.is_empty();
        let mut all = Self {
            state: if found.is_whole { "whole" } else { "broken" },
            lines,
            nodes: Vec::new(),
            faults: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(files) = found.files {
            let name = if has_copies { "this node" } else { "this service" };
            all.add(name.to_owned(), None, &files);
        }
        for copy in found.copies {
            let name = format!("{}, as shipped", copy.node.name);
            match &copy.verification {
                Some(verification) => all.add(name, Some(&copy.node.name), verification),
                None => {
                    all.notes.push(format!(
                        "node {} was not verified: none of its roots was given; `GET /audit/root` lists the roots of all nodes",
                        copy.node.name
                    ));
                    let root = copy.named_roots.last().map(ToString::to_string).unwrap_or_default();
                    all.nodes.push(json!({
                        "name": name,
                        "state": "unverified",
                        "lines": copy.through,
                        "signedTo": null,
                        "root": root,
                        "isRootGiven": false,
                    }));
                }
            }
        }
        all.faults.extend(
            found
                .unknown_roots
                .iter()
                .map(|root| fault("the given roots", None, &format!("no journal has the root {root}"))),
        );
        all.faults
            .extend(found.unknown_nodes.iter().map(|node| fault("the index", None, &unknown_node(node))));
        let is_wrong = !all.faults.is_empty() || all.nodes.iter().any(|node| node["state"] == "broken");
        if !found.is_whole && !is_wrong {
            all.state = "unverified";
        }
        all.shortened()
    }

    fn add(&mut self, name: String, node: Option<&str>, of: &Verification) {
        self.nodes.push(json!({
            "name": name,
            "state": if of.is_whole() { "whole" } else { "broken" },
            "lines": of.lines,
            "signedTo": of.signed.map(|head| json!({ "line": head.seq, "time": head.at })),
            "root": of.roots.last().map(ToString::to_string).unwrap_or_default(),
            "isRootGiven": of.root_source == RootSource::Given,
        }));
        let place = |text: String| node.map_or(text.clone(), |node| format!("node {node}: {text}"));
        self.faults.extend(of.faults.iter().map(|JournalFault { file, line, what, .. }| {
            fault(&place(file.clone()), (*line > 0).then_some(*line), what)
        }));
        self.notes.extend(of.remarks().into_iter().map(place));
        let waits = of.unsigned - of.confirmed.min(of.unsigned);
        if waits > 0 {
            let lines = if waits == 1 { "1 line".to_owned() } else { format!("{waits} lines") };
            self.notes.push(place(format!(
                "{lines} at the end are not signed yet, and nothing here confirms them"
            )));
        }
    }

    /// Without what nobody reads.
    fn shortened(mut self) -> Self {
        let left_out = |count: usize| count.saturating_sub(LISTED);
        let (faults, notes) = (left_out(self.faults.len()), left_out(self.notes.len()));
        self.faults.truncate(LISTED);
        self.notes.truncate(LISTED);
        if faults + notes > 0 {
            self.notes.push(format!(
                "{faults} more faults and {notes} more notes are not listed here; `contactd audit verify --json` lists all of them"
            ));
        }
        self
    }
}

fn fault(file: &str, line: Option<u64>, what: &str) -> Value {
    json!({ "file": file, "line": line, "what": what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_of_faults_are_shortened_and_counted() {
        let fault = |line| JournalFault { file: "a".to_owned(), line, seq: None, what: "changed".to_owned() };
        let faults: Vec<JournalFault> = (0..1_500).map(fault).collect();
        let found =
            Verified::of(VerifiedJournals::of_files(Verification { faults, ..Verification::default() }));
        assert_eq!((found.state, found.faults.len()), ("broken", 1_000));
        assert_eq!(found.faults[0], super::fault("a", None, "changed"));
        assert_eq!(
            found.notes,
            [
                "500 more faults and 0 more notes are not listed here; `contactd audit verify --json` lists all of them"
            ]
        );
    }
}
