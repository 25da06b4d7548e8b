//! Exporting everything that is held, as a file to download.

use std::io::{self, BufWriter};
use std::time::{Duration, Instant};

use contactd_core::{Actor, Detail, Profile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::auth::Call;
use crate::api::disk::RoomyFile;
use crate::api::endpoint::Endpoint;
use crate::api::extract::Sent;
use crate::api::jobs::{Done, FILE, Failed, Job, Kind, Started};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;
use crate::export::{ExportFormat, ExportWriter};

/// How often an export says how far it is.
const SAID_EVERY: Duration = Duration::from_millis(100);

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![Endpoint::post("/exports", Needs::May(Permission::Export), "export").does(
        "Write everything that is held, or one source, to a file to download. It is kept for a day.",
        export,
    )]
}

/// What to export.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ToExport {
    format: ExportFormat,
    /// Only details of this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The case that this is done for. It is put on record, so it must not be a name, a number or an address.
    #[schemars(length(min = 1), extend("pattern" = "\\S"))]
    ticket: String,
}

async fn export(call: Call, Sent(sent): Sent<ToExport>) -> Result<Started, Refusal> {
    if sent.ticket.trim().is_empty() {
        return Err(Refusal::invalid("Name the ticket that this export is for. It is put on record."));
    }
    let input = serde_json::to_value(&sent).map_err(|_| Refusal::internal())?;
    let actor = call.who.actor_for(Some(&sent.ticket));
    call.start(Kind::Export, input, async move |call: &Call, job: &Job| {
        write(&call.api, &actor, &sent, job).await
    })
}

async fn write(api: &Api, actor: &Actor, sent: &ToExport, job: &Job) -> Result<Value, Failed> {
    let path = job.file(FILE).map_err(unwritable)?;
    let file = RoomyFile::create(&path, &api.disk).map_err(unwritable)?;
    let mut writer =
        ExportWriter::new(sent.format, BufWriter::with_capacity(1 << 16, file)).map_err(unwritable)?;
    let (mut failed, mut is_gone, mut said) = (None, false, None::<Instant>);
    let visit = |profile: &Profile, details: &[Detail]| {
        failed = writer.write(profile, details).err();
        if said.is_none_or(|said| said.elapsed() >= SAID_EVERY) {
            said = Some(Instant::now());
            let (done, unit, phase) = (writer.written().0, "profiles".to_owned(), "writing".to_owned());
            job.note(Done { done, total: None, unit, phase });
            is_gone = !path.is_file();
        }
        failed.is_none() && !is_gone && !job.cancel().is_cancelled()
    };
    let source = sent.source.as_deref().map(str::trim).filter(|source| !source.is_empty());
    api.services.subjects.export(actor, source, visit).await.map_err(Refusal::from)?;
    if let Some(error) = failed {
        return Err(unwritable(error).into());
    }
    if job.cancel().is_cancelled() {
        return Err(Failed::new("cancelled", "It was stopped. There is no file."));
    }
    let (profiles, details) = writer.written();
    if !is_gone {
        writer.finish().map_err(unwritable)?;
    }
    let bytes = match path.metadata() {
        Ok(file) => file.len(),
        // It was begun before somebody was erased, and may contain them. The erasure has deleted it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let message =
                "Somebody was erased while this file was being written. There is no file. Export again.";
            return Err(Failed::new("erased_meanwhile", message));
        }
        Err(error) => return Err(unwritable(error).into()),
    };
    Ok(json!({ "profiles": profiles, "details": details, "bytes": bytes }))
}

fn unwritable(error: io::Error) -> Refusal {
    Refusal::unwritable(&error, "this export")
}
