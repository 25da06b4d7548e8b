//! All events that match, as a CSV file of any length.
//!
//! It is read in pages and sent as it is read, so it needs little memory, and nobody waits for a client that reads slowly.

use std::future::ready;

use axum::body::Body;
use axum::response::Response;
use contactd_core::csv_row;
use contactd_services::views::EventView;
use contactd_services::{AuditPlace, AuditQuery};
use futures_util::StreamExt;
use futures_util::stream::{once, try_unfold};

use crate::answer;
use crate::api::auth::Call;
use crate::api::refusal::Refusal;

/// How many events are read at once.
const READ: u64 = 2_000;

pub(super) async fn file(call: Call, query: AuditQuery) -> Result<Response, Refusal> {
    // The first page decides whether this can be answered.
    let (rows, next) = read(&call, &query, None).await?;
    let rest = try_unfold((next, call, query), async |(next, call, query)| {
        let Some(place) = next else { return Ok(None) };
        let (rows, next) = read(&call, &query, Some(&place)).await.map_err(|refusal| {
            // The answer breaks off, so that nobody takes it for a whole one.
            let (code, _) = refusal.into_parts();
            tracing::warn!(target: "contactd::admin", code, "a CSV file of the journal broke off");
            std::io::Error::other(code)
        })?;
        Ok(Some((rows, (next, call, query))))
    });
    let first = once(ready(Ok::<_, std::io::Error>(csv_row(EventView::COLUMNS) + &rows)));
    Ok(answer::csv_file("audit.csv", Body::from_stream(first.chain(rest))))
}

/// Reads the page before a place, and says where the next one begins.
async fn read(
    Call { api, who }: &Call,
    query: &AuditQuery,
    before: Option<&AuditPlace>,
) -> Result<(String, Option<AuditPlace>), Refusal> {
    let (events, next) = api.services.audits.page(&who.actor, query, before, READ).await?;
    Ok((events.iter().map(|event| csv_row(event.cells())).collect(), next))
}
