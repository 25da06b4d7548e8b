//! What an answer means for a run.

use std::time::Duration;

use anyhow::anyhow;
use contactd_core::Kind;

use super::in_words;
use crate::client::LookupAnswer;
use crate::commands::enrich::LookedUp;

/// A quota that is free again within this time is waited for: its last units are only reserved, or the day ends.
const WAIT_FOR_QUOTA: Duration = Duration::from_secs(60);

pub(super) enum Meaning {
    Answer(LookedUp),
    /// Busy, or over a limit: it can be asked again after this time.
    Wait(Duration),
    /// An error that may pass.
    Failure,
    /// Nothing that this run asks will be answered.
    Stop(anyhow::Error),
}

pub(super) fn meaning(answer: &LookupAnswer, kind: Kind) -> Meaning {
    if let Some(looked_up) = looked_up(answer) {
        return Meaning::Answer(looked_up);
    }
    let stop = match answer.code {
        401 => anyhow!(
            "the service refuses the token for {} lookups{}: {} If the token is for the other kind only, use --only",
            kind.name(),
            answer.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default(),
            answer.message.as_deref().unwrap_or("it does not say why.")
        ),
        200 => anyhow!("the service at this URL is not contactd: its answer has no {}", kind.name()),
        429 | 503 => {
            let wait = answer.retry_after.unwrap_or(Duration::from_secs(1));
            if answer.status != "quota_exceeded" || wait <= WAIT_FOR_QUOTA {
                return Meaning::Wait(wait);
            }
            anyhow!("the token's quota is used up; it is renewed in {}", in_words(wait))
        }
        _ => return Meaning::Failure,
    };
    Meaning::Stop(stop)
}

/// What an answer means for a row; `None` if it must be asked again.
fn looked_up(answer: &LookupAnswer) -> Option<LookedUp> {
    let status = match (answer.code, &answer.reason) {
        (200, _) => {
            answer.value()?;
            "ok".into()
        }
        // The URL was so long that the service did not read it.
        (413, _) => "invalid: too_long".into(),
        (404, _) if answer.status == "contact_not_found" => "not_found".into(),
        (400, Some(reason)) => format!("invalid: {reason}").into(),
        _ => return None,
    };
    Some(LookedUp { status, value: answer.value().cloned(), canonical: answer.profile_url.clone() })
}
