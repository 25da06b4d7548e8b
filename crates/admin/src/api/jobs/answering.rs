//! Calls that answer at once if they can, and with a job if they have to wait for another writer.

use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use crate::api::auth::Call;
use crate::api::extract::Json;
use crate::api::jobs::{Done, Failed, Job, Kind, Started, State};
use crate::api::refusal::Refusal;

/// How long a call waits before it answers with a job.
const TIME_TO_ANSWER: Duration = Duration::from_secs(3);

impl Call {
    /// Does some work as a job. If it is done soon, this answers with its result or its refusal, and the job is not listed. Else
    /// it answers with the job, which goes on. `input` is shown with the job, so it must not name the person.
    pub(crate) async fn answer_or_job<T, F>(
        self,
        kind: Kind,
        input: Value,
        work: F,
    ) -> Result<Response, Refusal>
    where
        T: Serialize,
        F: AsyncFnOnce(&Self, &Job) -> Result<T, Refusal> + Send + 'static,
    {
        let (jobs, refused) = (Arc::clone(&self.api.jobs), Arc::<Mutex<Option<Refusal>>>::default());
        let kept = Arc::clone(&refused);
        let Started(job) = self.start(kind, input, async move |call: &Self, job: &Job| {
            job.note(Done { phase: "working".to_owned(), ..Done::default() });
            let done = work(call, job).await.inspect_err(|refusal| *kept.lock() = Some(refusal.clone()));
            serde_json::to_value(done?).map_err(|_| Failed::from(Refusal::internal()))
        })?;
        if !job.wait(TIME_TO_ANSWER).await {
            return Ok(Started(job).into_response());
        }
        let ended = jobs.forget(&job);
        match (ended.state, refused.lock().take()) {
            (State::Done, _) => Ok(Json(ended.result).into_response()),
            (_, Some(refusal)) => Err(refusal),
            (_, None) => Err(Refusal::internal()),
        }
    }
}
