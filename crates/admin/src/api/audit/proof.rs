//! Proofs of the lines of a period.

use std::io::{self, BufWriter, Write};

use contactd_core::{Cancel, DiskBudget, Moment, Progress};
use contactd_services::AuditError;
use contactd_services::JournalError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::verify::failed;
use crate::api::auth::Call;
use crate::api::disk::RoomyFile;
use crate::api::extract::Sent;
use crate::api::jobs::{FILE, Failed, Job, Kind, Started};
use crate::api::period::period;
use crate::api::refusal::{Refusal, sentence};

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Proof {
    /// At or after this time: a date, an RFC 3339 time, or how long ago, such as `30d`.
    since: String,
    /// Before this time.
    until: String,
    /// The node whose journal it is about, by its id or name. Without it: the journal of the node that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

pub(super) async fn start(call: Call, Sent(asked): Sent<Proof>) -> Result<Started, Refusal> {
    let now = call.api.clock.now();
    let (since, until) = period(Some(&asked.since), Some(&asked.until), now)?;
    let (Some(since), Some(until)) = (since, until) else {
        return Err(Refusal::invalid(
            "`since` and `until` are the first day of the proof and the day after the last.",
        ));
    };
    let [since, until] = [since, until].map(|moment: Moment| moment.when(now));
    call.start(Kind::Proof, json!(asked), async move |Call { api, who }: &Call, job: &Job| {
        let mut file = ProofFile::create(job, &api.disk).map_err(unwritable)?;
        let audits = &api.services.audits;
        let made = audits.prove(&who.actor, asked.node.as_deref(), since, until, &mut file).await;
        let made = made.map_err(|error| match error {
            _ if job.cancel().is_cancelled() => failed(AuditError::Journal(JournalError::Cancelled)),
            AuditError::Journal(JournalError::Key(why)) => Failed::new("nothing_to_prove", sentence(&why)),
            error => failed(error),
        })?;
        let bytes = file.finish().map_err(unwritable)?;
        Ok(json!({ "first": made.first, "last": made.last, "bytes": bytes, "isComplete": made.is_complete }))
    })
}

fn unwritable(error: io::Error) -> Failed {
    Refusal::unwritable(&error, "this proof").into()
}

/// The file of a proof. Shows how much of it is written, and breaks off if the job is to stop.
struct ProofFile<'a> {
    out: BufWriter<RoomyFile>,
    job: &'a Job,
    cancel: Cancel,
    bytes: u64,
}

impl<'a> ProofFile<'a> {
    fn create(job: &'a Job, disk: &DiskBudget) -> io::Result<Self> {
        let file = RoomyFile::create(&job.file(FILE)?, disk)?;
        let file = Self {
            out: BufWriter::with_capacity(1 << 16, file),
            job,
            cancel: job.cancel().clone(),
            bytes: 0,
        };
        file.show("looking for the lines");
        Ok(file)
    }

    fn show(&self, step: &'static str) {
        self.job.observe(Progress::Copying { step, done: self.bytes, all: None });
    }

    fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}

impl Write for ProofFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() {
            return Err(io::Error::other("stopped"));
        }
        let written = self.out.write(bytes)?;
        let before = self.bytes >> 20;
        self.bytes += written as u64;
        if self.bytes >> 20 != before {
            self.show("writing");
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
