//! How long details are held, and removing what has ended.

use std::time::Duration;

use contactd_core::Span;
use contactd_core::store::{Aged, Swept};
use contactd_services::views::SourceView;
use contactd_services::{Clearing, ImportError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json, Sent};
use crate::api::imports::refused;
use crate::api::jobs::{Failed, Job, Kind, Started};
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/retention", Needs::May(Permission::Retention), "showRetention")
            .does("How long the details of each source are held, and which end next.", show),
        Endpoint::post("/retention/sweep", Needs::May(Permission::Sweep), "sweep").does(
            "Remove details that have expired or are too old, as a job. Its result is `{expired, tooOld}`.",
            sweep,
        ),
    ]
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RetentionShown {
    sources: Vec<SourceView>,
    /// How long imports can be undone, such as `7d`; `null` if they cannot.
    undo: Option<String>,
    /// How long lines of the journal are kept, such as `1095d`; `null` if for ever.
    audit_keep: Option<String>,
    /// How often a running service removes what has expired, such as `1m`.
    sweep_every: String,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sweep {
    /// Count only, and remove nothing.
    #[serde(default)]
    dry_run: bool,
}

async fn show(Call { api, who }: Call) -> Answer<RetentionShown> {
    let imports = &api.services.imports;
    let text = |length: Duration| Span(length).to_string();
    Ok(Json(RetentionShown {
        sources: imports.retention(&who.actor).await.map_err(refused)?,
        undo: Some(imports.undo_for()).filter(|undo| !undo.is_zero()).map(text),
        audit_keep: (api.status.audit_keep)().map(text),
        sweep_every: text((api.status.sweep_every)()),
    }))
}

async fn sweep(call: Call, Sent(asked): Sent<Sweep>) -> Result<Started, Refusal> {
    let input = json!({ "dryRun": asked.dry_run });
    call.start(Kind::Sweep, input, async move |Call { api, who }: &Call, job: &Job| {
        let (imports, actor) = (&api.services.imports, &who.actor);
        if asked.dry_run {
            return Ok(result(imports.due(actor).await.map_err(refused)?));
        }
        let observe = |progress| job.observe(progress);
        let swept = imports.sweep(actor, Aged::Policies, Clearing::Always, &observe, job.cancel()).await;
        let swept = swept.map_err(failed)?;
        if !swept.done.logs_are_clear {
            let message = "The details are removed, but a reader still uses the log that has them. Sweep again in a moment.";
            let result = Some(result(swept.done.swept));
            return Err(Failed { result, ..Failed::new("not_cleared", message) });
        }
        if let Err(error) = &swept.recorded {
            tracing::warn!(target: "contactd::admin", %error, "a sweep is not yet on record");
        }
        if let Err(error) = &swept.confirmed {
            let message = format!("The details are removed, but lookups may not see that yet: {error}.");
            let result = Some(result(swept.done.swept));
            return Err(Failed { result, ..Failed::new("not_confirmed", message) });
        }
        Ok(result(swept.done.swept))
    })
}

fn result(Swept { expired, aged, .. }: Swept) -> Value {
    json!({ "expired": expired, "tooOld": aged })
}

fn failed(error: ImportError) -> Failed {
    match error {
        ImportError::Cancelled => Failed::new("cancelled", "It was stopped before anything was removed."),
        error => refused(error).into(),
    }
}
