//! People: what is held about somebody and who received it, correcting, removing and erasing it.
//!
//! Whom a call is about is in its body, so that it is in no log and in no history.

mod changes;
mod erase;
mod found;
mod search;

use contactd_core::SubjectName;
use contactd_services::{Approval, Changed, SubjectError};
use erase::ErasureShown;
use found::ReportShown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::api::Api;
use crate::api::endpoint::Endpoint;
use crate::api::permission::{Needs, Permission};
use crate::api::refusal::Refusal;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::People);
    vec![
        Endpoint::post("/people/search", needs, "searchPeople").does("What is held about a person, or under a number or an address, and who received it. It is on record first.", search::search),
        Endpoint::post("/people/find", needs, "findPeople").does("The profiles whose slug has parts of a name, such as `ada quell`. Who was found is on record first.", search::find),
        Endpoint::post("/people/report", needs, "reportPerson").does("The access report, for the person who asks. With `Accept: text/html`, as a page to send. It is on record first.", search::report)
            .answers_or::<ReportShown>("text/html"),
        Endpoint::post("/people/correct", needs, "correctDetail").does("Store a right number or address of a person, so that it is the one that is given out.", changes::correct)
            .answers::<Settled>()
            .or_job(),
        Endpoint::post("/people/remove", needs, "removeDetail").does("Remove one number or address of a person from every file of the service.", changes::remove)
            .answers::<Settled>()
            .or_job(),
        Endpoint::post("/people/erase", needs, "erasePeople").does("Opt a person out and remove everything about them from every file of the service.", erase::erase)
            .answers::<ErasureShown>()
            .or_job(),
    ]
}

/// Whom a call is about: a profile URL, an e-mail address or a phone number with `+` and country code.
#[derive(Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Whom(#[schemars(length(min = 1))] String);

impl Whom {
    pub(crate) fn read(&self, api: &Api) -> Result<SubjectName, Refusal> {
        let named = SubjectName::recognize(self.0.trim(), &api.networks);
        named.map_err(|error| Refusal::invalid(error.advice()))
    }
}

/// The number of profiles that a caller has seen and confirmed.
pub(crate) fn seen(confirmed: Option<u32>) -> Approval {
    confirmed.map_or(Approval::NotGiven, |count| Approval::Seen(usize::try_from(count).unwrap_or(usize::MAX)))
}

/// Searches may read all details. Only a few do so at once, so that threads are left for opt-outs and for everybody else.
static SEARCHES: Semaphore = Semaphore::const_new(4);

/// Waits for the turn to read all details, which is over when this is dropped.
async fn search_turn() -> Result<SemaphorePermit<'static>, Refusal> {
    SEARCHES.acquire().await.map_err(|_| Refusal::internal())
}

/// What was done.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Settled {
    /// How much was changed; 0 if it was so already, or there was nothing to change.
    pub(crate) changed: u64,
    /// Whether it is certain that every lookup from now on sees the change.
    pub(crate) in_force: bool,
    /// Whether the journal says so already. If not, the line follows by itself.
    pub(crate) is_on_record: bool,
}

impl Settled {
    pub(crate) fn of<T>(changed: &Changed<T>, count: u64) -> Self {
        Self { changed: count, in_force: changed.confirmed.is_ok(), is_on_record: changed.recorded.is_ok() }
    }
}

impl From<SubjectError> for Refusal {
    fn from(error: SubjectError) -> Self {
        match error {
            SubjectError::Store(error) => error.into(),
            SubjectError::Suppressions(error) => error.into(),
            SubjectError::NotRecorded(error) => error.into(),
            SubjectError::Audit(error) => {
                tracing::error!(target: "contactd::admin", %error, "the records of recipients could not be read");
                Self::internal()
            }
        }
    }
}
