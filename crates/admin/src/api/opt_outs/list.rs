//! Opting out a whole list.

use contactd_core::{SubjectList, subject_lines};
use contactd_services::views::HolderView;
use contactd_services::{Changed, OptOutOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::auth::Call;
use crate::api::extract::{Asked, Text};
use crate::api::jobs::{Done, Failed, Job, Kind, Started};
use crate::api::people::Settled;
use crate::api::refusal::{Refusal, sentence};

/// The largest list.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// How many rejected lines, and how many profiles, the result names.
const MOST_NAMED: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListAsked {
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// What was done with a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListDone {
    #[serde(flatten)]
    settled: Settled,
    /// How many lines named somebody, or were meant to.
    read: u64,
    already: u64,
    /// `null` if it is not known, or must not be shown.
    not_on_file: Option<u64>,
    /// The first lines that could not be read.
    rejected: Vec<RejectedLine>,
    /// How many more there are.
    more_rejected: u64,
    /// The first profiles that hold something of the list and have other details that are still given out.
    holders: Vec<HolderView>,
    /// How many more there are.
    more_holders: u64,
}

#[derive(Serialize)]
struct RejectedLine {
    line: u64,
    reason: String,
}

/// Starts the job. The list itself is kept only until it is read.
pub(super) async fn opt_out_list(
    call: Call,
    Asked(asked): Asked<ListAsked>,
    Text(text): Text<MOST_BYTES>,
) -> Result<Started, Refusal> {
    if !SubjectList::is_text(&text) {
        return Err(Refusal::invalid(
            "The list is compressed or not UTF-8. Unpack it, or save it as UTF-8 text.",
        ));
    }
    if subject_lines(&text).next().is_none() {
        let message = "The list is empty. Send one profile URL, e-mail address or phone number on each line.";
        return Err(Refusal::invalid(message));
    }
    let (actor, input) = (call.who.actor_for(asked.ticket.as_deref()), json!({ "ticket": asked.ticket }));
    call.start(Kind::OptOuts, input, async move |Call { api, .. }: &Call, job: &Job| {
        let phase = |phase: &str, done, unit: &str| {
            job.note(Done { done, total: None, unit: unit.to_owned(), phase: phase.to_owned() });
        };
        phase("reading", 0, "");
        let SubjectList { named, rejected } = SubjectList::read(&text, &api.networks);
        drop(text);
        let read = (named.len() + rejected.len()) as u64;
        phase("opting out", read, "lines");
        let done = match named.is_empty() {
            // Nobody is left to be opted out: nothing is changed, and there is nothing to put on record.
            true => ListDone::nothing(read),
            false => {
                let opting_out = api.services.opt_outs.suppress(&actor, &named, OptOutOptions::default());
                ListDone::of(read, &opting_out.await.map_err(Refusal::from)?)
            }
        };
        let done = done.with_rejected(&rejected);
        serde_json::to_value(done).map_err(|_| Failed::from(Refusal::internal()))
    })
}

impl ListDone {
    fn nothing(read: u64) -> Self {
        Self {
            settled: Settled { changed: 0, in_force: true, is_on_record: true },
            read,
            already: 0,
            not_on_file: Some(0),
            rejected: Vec::new(),
            more_rejected: 0,
            holders: Vec::new(),
            more_holders: 0,
        }
    }

    fn of(read: u64, changed: &Changed<contactd_services::OptedOut>) -> Self {
        let shown = changed.done.on_file.as_ref().ok().filter(|_| changed.may_show());
        let disclosing =
            || shown.iter().flat_map(|found| &found.holders).filter(|holder| holder.disclosed > 0);
        Self {
            settled: Settled::of(changed, changed.done.changed),
            already: changed.done.already,
            not_on_file: shown.map(|found| found.unknown.len() as u64),
            holders: disclosing().take(MOST_NAMED).map(HolderView::from).collect(),
            more_holders: disclosing().skip(MOST_NAMED).count() as u64,
            ..Self::nothing(read)
        }
    }

    fn with_rejected(self, rejected: &[(u64, contactd_core::SubjectNameError)]) -> Self {
        let named = rejected.iter().take(MOST_NAMED);
        Self {
            rejected: named
                .map(|(line, error)| RejectedLine { line: *line, reason: sentence(&error.to_string()) })
                .collect(),
            more_rejected: rejected.len().saturating_sub(MOST_NAMED) as u64,
            ..self
        }
    }
}
