//! Opting out a whole list.

use std::io::Cursor;

use contactd_core::{SubjectNameError, blocking};
use contactd_services::{Approval, Changed, OptOutOptions, OptOutOutcome, OptedOut, SubjectList};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::auth::Call;
use crate::api::extract::{Asked, Text};
use crate::api::jobs::{Done, Job, Kind, Started};
use crate::api::opt_outs::{holders_unknown, uncertain};
use crate::api::people::Settled;
use crate::api::refusal::{Refusal, sentence};

/// The largest list.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// How many rejected lines, and how many profiles, the result names.
const MOST_NAMED: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListAsked {
    /// Also opt out the people whose profiles hold a number or an address of the list, however many they are.
    #[serde(default)]
    person: bool,
    /// The case it is done for.
    #[serde(default)]
    ticket: Option<String>,
}

/// Starts the job. The list itself is kept only until it is read.
pub(super) async fn opt_out_list(
    call: Call,
    Asked(asked): Asked<ListAsked>,
    Text(text): Text<MOST_BYTES>,
) -> Result<Started, Refusal> {
    let list = blocking(|| call.api.services.opt_outs.read_list(Box::new(Cursor::new(text))));
    let list = list.map_err(|error| Refusal::invalid(sentence(&error.to_string())))?;
    let SubjectList { named, rejected, .. } = list;
    if named.is_empty() && rejected.is_empty() {
        let message = "The list is empty. Send one profile URL, e-mail address or phone number on each line.";
        return Err(Refusal::invalid(message));
    }
    let (actor, input) = (
        call.who.actor_for(asked.ticket.as_deref()),
        json!({ "ticket": asked.ticket, "person": asked.person }),
    );
    call.start(Kind::OptOuts, input, async move |Call { api, .. }: &Call, job: &Job| {
        let phase = |phase: &str, done, unit: &str| {
            job.note(Done { done, total: None, unit: unit.to_owned(), phase: phase.to_owned() });
        };
        let read = (named.len() + rejected.len()) as u64;
        phase("opting out", read, "lines");
        // If nobody is left to be opted out, nothing is changed, and there is nothing to put on record.
        let changed = match named.is_empty() {
            true => None,
            false => {
                let options =
                    OptOutOptions { person: asked.person, must_exist: false, approval: Approval::Given };
                let changed = api.services.opt_outs.suppress(&actor, &named, options);
                let changed = changed.await.map_err(Refusal::from)?;
                done(&changed)?;
                Some(changed)
            }
        };
        Ok(result(read, changed.as_ref(), &rejected))
    })
}

/// Fails if people were to be opted out and are not.
fn done(changed: &Changed<OptedOut>) -> Result<(), Refusal> {
    match changed.outcome() {
        OptOutOutcome::HoldersUnknown(error) => Err(holders_unknown(error)),
        OptOutOutcome::Uncertain => Err(uncertain()),
        OptOutOutcome::Done(_) | OptOutOutcome::NeedsApproval(_) | OptOutOutcome::NeedsApprovalUnseen => {
            Ok(())
        }
    }
}

/// What was done with a list of so many lines that named somebody, or were meant to.
fn result(read: u64, changed: Option<&Changed<OptedOut>>, rejected: &[(u64, SubjectNameError)]) -> Value {
    let Settled { changed: count, in_force, is_on_record } = match changed {
        Some(changed) => Settled::of(changed, changed.done.changed),
        None => Settled { changed: 0, in_force: true, is_on_record: true },
    };
    let shown = changed.and_then(|changed| changed.done.on_file.as_ref().ok().filter(|_| changed.may_show()));
    let not_on_file = shown.map(|found| found.unknown.len() as u64);
    // Those that have other details which are still given out.
    let holders = shown.map_or(&[][..], |found| &found.holders);
    let holders: Vec<_> = holders.iter().filter(|holder| holder.still_disclosed > 0).collect();
    let named = rejected.iter().take(MOST_NAMED);
    json!({
        "changed": count,
        "inForce": in_force,
        "isOnRecord": is_on_record,
        "read": read,
        "already": changed.map_or(0, |changed| changed.done.already),
        // `null` if it is not known, or must not be shown.
        "notOnFile": if changed.is_none() { Some(0) } else { not_on_file },
        "rejected": named
            .map(|(line, error)| json!({ "line": line, "reason": sentence(&error.to_string()) }))
            .collect::<Vec<_>>(),
        "moreRejected": rejected.len().saturating_sub(MOST_NAMED),
        "holders": holders.iter().take(MOST_NAMED).collect::<Vec<_>>(),
        "moreHolders": holders.len().saturating_sub(MOST_NAMED),
    })
}
