//! Calls that answer at once if they can, and with a job if they have to wait for another writer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse;
use serde::Serialize;
use serde_json::Value;

use crate::api::auth::Who;
use crate::api::extract::Json;
use crate::api::jobs::{Done, Failed, Job, Jobs, Kind, State, lock, started};
use crate::api::refusal::Refusal;

/// How long a call waits before it answers with a job.
const PATIENCE: Duration = Duration::from_secs(3);

/// Does some work as a job. If it is done soon, this answers with its result or its refusal, and the job is not listed. Else it
/// answers with the job, which goes on. `input` is shown with the job, so it must not name the person.
pub(crate) async fn answer_or_job<T, F>(
    jobs: &Arc<Jobs>,
    kind: Kind,
    who: &Who,
    input: Value,
    work: F,
) -> Result<Response<Body>, Refusal>
where
    T: Serialize,
    F: AsyncFnOnce(&Job) -> Result<T, Refusal> + Send + 'static,
{
    let refused: Arc<Mutex<Option<Refusal>>> = Arc::default();
    let kept = Arc::clone(&refused);
    let job = jobs.start(kind, who, input, async move |job: &Job| {
        job.note(Done { phase: "working".to_owned(), ..Done::default() });
        let done = work(job).await.inspect_err(|refusal| *lock(&kept) = Some(refusal.clone()));
        serde_json::to_value(done?).map_err(|_| Failed::from(Refusal::internal()))
    })?;
    if !job.wait(PATIENCE).await {
        return Ok(started(&job));
    }
    let ended = jobs.forget(&job);
    match (ended.state, lock(&refused).take()) {
        (State::Done, _) => Ok(Json(ended.result).into_response()),
        (_, Some(refusal)) => Err(refusal),
        (_, None) => Err(Refusal::internal()),
    }
}
