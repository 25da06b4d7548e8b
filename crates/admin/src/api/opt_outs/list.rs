//! Opting out a whole list, and what a list names.

use std::io::Cursor;

use contactd_core::{SubjectNameError, blocking};
use contactd_services::{
    Approval, Changed, OptOutOptions, OptOutOutcome, OptedOut, ReadOptions, SubjectList,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::auth::Call;
use crate::api::extract::{Answer, Asked, Json, SentFile};
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
    SentFile(file): SentFile<MOST_BYTES>,
) -> Result<Started, Refusal> {
    let SubjectList { named, rejected, .. } = read(&call, file)?;
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

/// What a list names.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListShown {
    /// How many people, numbers and addresses, each as often as the list names it.
    named: usize,
    /// The columns that were read, if the list has a header.
    columns: Vec<String>,
    /// The sheets of a workbook that are not read.
    other_sheets: Vec<String>,
    /// The first lines that cannot be read.
    rejected: Vec<RejectedLine>,
    /// How many more there are.
    more_rejected: usize,
}

/// A line of a list that cannot be read.
#[derive(Serialize, JsonSchema)]
pub(super) struct RejectedLine {
    line: u64,
    /// Why, in a sentence.
    reason: String,
}

pub(super) async fn check_list(call: Call, SentFile(file): SentFile<MOST_BYTES>) -> Answer<ListShown> {
    let SubjectList { named, rejected, columns, other_sheets } = read(&call, file)?;
    let (rejected, more_rejected) = shown(&rejected);
    Ok(Json(ListShown { named: named.len(), columns, other_sheets, rejected, more_rejected }))
}

/// Reads a list that is not empty.
fn read(call: &Call, file: Vec<u8>) -> Result<SubjectList, Refusal> {
    let list = blocking(|| {
        call.api.services.opt_outs.read_list(Box::new(Cursor::new(file)), &ReadOptions::default())
    });
    let list = list.map_err(|error| Refusal::invalid(sentence(&error.to_string())))?;
    if list.named.is_empty() && list.rejected.is_empty() {
        let message = "The list is empty. Send one profile URL, e-mail address or phone number on each line.";
        return Err(Refusal::invalid(message));
    }
    Ok(list)
}

/// The first lines that cannot be read, and how many more there are.
fn shown(rejected: &[(u64, SubjectNameError)]) -> (Vec<RejectedLine>, usize) {
    let first = rejected.iter().take(MOST_NAMED);
    let lines = first.map(|(line, error)| RejectedLine { line: *line, reason: sentence(&error.to_string()) });
    (lines.collect(), rejected.len().saturating_sub(MOST_NAMED))
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
    let on_file =
        changed.and_then(|changed| changed.done.on_file.as_ref().ok().filter(|_| changed.may_show()));
    let not_on_file = on_file.map(|found| found.unknown.len() as u64);
    // Those that have other details which are still given out.
    let holders = on_file.map_or(&[][..], |found| &found.holders);
    let holders: Vec<_> = holders.iter().filter(|holder| holder.still_disclosed > 0).collect();
    let (rejected, more_rejected) = shown(rejected);
    json!({
        "changed": count,
        "inForce": in_force,
        "isOnRecord": is_on_record,
        "read": read,
        "already": changed.map_or(0, |changed| changed.done.already),
        // `null` if it is not known, or must not be shown.
        "notOnFile": if changed.is_none() { Some(0) } else { not_on_file },
        "rejected": rejected,
        "moreRejected": more_rejected,
        "holders": holders.iter().take(MOST_NAMED).collect::<Vec<_>>(),
        "moreHolders": holders.len().saturating_sub(MOST_NAMED),
    })
}
