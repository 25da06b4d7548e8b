//! The endpoints of jobs.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::AsyncReadExt;

use crate::answer;
use crate::api::Api;
use crate::api::auth::{Call, Who};
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json, Named};
use crate::api::jobs::stopping::Stopped;
use crate::api::jobs::{FILE, Job, JobShown, Kind, REJECTS};
use crate::api::permission::Needs;
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/jobs", Needs::Anyone, "listJobs")
            .does("Your own jobs of the last seven days, newest first.", list),
        Endpoint::get("/jobs/{id}", Needs::Anyone, "showJob").does("One of your own jobs.", show).unused(),
        Endpoint::delete("/jobs/{id}", Needs::Anyone, "deleteJob")
            .does("Throw away one of your own jobs that has ended, and its files.", delete),
        Endpoint::post("/jobs/{id}/cancel", Needs::Anyone, "cancelJob").does(
            "Ask one of your own jobs to stop. Erasures, corrections and removals are completed (409).",
            cancel,
        ),
        Endpoint::get("/jobs/{id}/file", Needs::Anyone, "downloadFile")
            .does("Download what one of your own jobs made.", file)
            .answers_bytes("application/octet-stream"),
        Endpoint::get("/jobs/{id}/rejects", Needs::Anyone, "downloadRejects")
            .does("Download the rows that one of your own imports rejected.", rejects)
            .answers_bytes("application/octet-stream"),
    ]
}

#[derive(Serialize, JsonSchema)]
struct JobList {
    jobs: Vec<JobShown>,
}

/// The answer that a job was started.
pub(crate) struct Started(pub(crate) Arc<Job>);

impl IntoResponse for Started {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, Json(self.0.shown())).into_response()
    }
}

async fn list(Call { api, who }: Call) -> Json<JobList> {
    Json(JobList { jobs: api.jobs.of(&who).iter().map(|job| job.shown()).collect() })
}

async fn show(Call { api, who }: Call, Named(id): Named) -> Answer<JobShown> {
    Ok(Json(find(&api, &id, &who)?.shown()))
}

async fn cancel(Call { api, who }: Call, Named(id): Named) -> Answer<JobShown> {
    let job = find(&api, &id, &who)?;
    if job.is_running() && job.kind().rules().is_completed {
        return Err(Refusal::conflict("This cannot be stopped: once it has begun, it is completed."));
    }
    job.stop(Stopped::ByOwner);
    Ok(Json(job.shown()))
}

async fn delete(Call { api, who }: Call, Named(id): Named) -> Result<StatusCode, Refusal> {
    let job = find(&api, &id, &who)?;
    if job.is_running() {
        return Err(Refusal::conflict("This is still running. Stop it first, or wait until it has ended."));
    }
    // Large files take a while.
    api.jobs.forget(&job);
    Ok(StatusCode::NO_CONTENT)
}

async fn file(Call { api, who }: Call, Named(id): Named) -> Result<Response, Refusal> {
    let job = find(&api, &id, &who)?;
    let shown = job.shown();
    let ticket = shown.input["ticket"].as_str();
    let name = match (shown.kind, shown.input["format"].as_str()) {
        (Kind::Proof, _) => answer::file_name("proof-of-the-journal", None, "jsonl"),
        (_, Some("jsonl")) => answer::file_name("contacts", ticket, "jsonl"),
        _ => answer::file_name("contacts", ticket, "csv"),
    };
    let response = download(&job, shown.has_file, FILE, &name).await?;
    if shown.kind == Kind::Export {
        let actor = who.actor_for(shown.input["ticket"].as_str());
        api.services.subjects.record_export_fetched(&actor).await?;
    }
    Ok(response)
}

async fn rejects(Call { api, who }: Call, Named(id): Named) -> Result<Response, Refusal> {
    let job = find(&api, &id, &who)?;
    let shown = job.shown();
    let input = shown.result.as_ref().map(|report| &report["inputs"][0]);
    let text = |name: &str| input.and_then(|input| input[name].as_str());
    let ending = if text("format") == Some("jsonl") { "jsonl" } else { "csv" };
    let file = text("file").map(|file| file.rsplit_once('.').map_or(file, |(stem, _)| stem));
    let name = answer::file_name("rejected-rows", file, ending);
    let response = download(&job, shown.has_rejects, REJECTS, &name).await?;
    api.services.imports.record_rejects_read(&who.actor).await?;
    Ok(response)
}

fn find(api: &Api, id: &str, who: &Who) -> Result<Arc<Job>, Refusal> {
    let job = api.jobs.find(id, who);
    job.ok_or_else(|| Refusal::not_found("There is no such job of yours. Jobs are listed for seven days."))
}

/// Sends a file of a job, in parts.
async fn download(job: &Job, is_there: bool, file: &str, name: &str) -> Result<Response, Refusal> {
    let gone = || {
        Refusal::not_found(
            "There is no such file. Files are deleted after a day, or when somebody is erased.",
        )
    };
    if !is_there {
        return Err(gone());
    }
    let file = tokio::fs::File::open(job.dir.join(file)).await.map_err(|_| gone())?;
    let parts = futures_util::stream::try_unfold(file, async |mut file| {
        let mut part = vec![0; 64 * 1024];
        let read = file.read(&mut part).await?;
        part.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((part, file)))
    });
    Ok(answer::attachment("application/octet-stream", name, Body::from_stream(parts)))
}
