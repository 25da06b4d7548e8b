//! All events that match, as a CSV file of any length.
//!
//! It is read in pages and sent as it is read, so it needs little memory, and nobody waits for a client that reads slowly.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use contactd_core::{Actor, csv_row};
use contactd_services::views::EventView;
use contactd_services::{AuditPlace, AuditQuery};

use crate::api::Api;
use crate::api::period::csv_file;
use crate::api::refusal::Refusal;

/// How many events are read at once.
const READ: u64 = 2_000;

/// What is left to be sent.
struct Rest {
    api: Arc<Api>,
    actor: Actor,
    query: AuditQuery,
    /// Rows that are read and not sent.
    rows: Option<String>,
    /// Where reading goes on.
    next: Option<AuditPlace>,
}

pub(super) async fn file(api: Arc<Api>, actor: Actor, query: AuditQuery) -> Result<Response<Body>, Refusal> {
    let rest = Rest { api, actor, query, rows: None, next: None };
    // The first page decides whether this can be answered.
    let mut rest = read(rest).await?;
    let rows = rest.rows.take().unwrap_or_default();
    rest.rows = Some(csv_row(EventView::COLUMNS) + &rows);
    let parts = futures_util::stream::try_unfold(rest, async |mut rest: Rest| {
        if rest.rows.is_none() && rest.next.is_some() {
            rest = read(rest).await.map_err(|refusal| {
                // The answer breaks off, so that nobody takes it for a whole one.
                let (code, _) = refusal.into_parts();
                tracing::warn!(target: "contactd::admin", code, "a CSV file of the journal broke off");
                std::io::Error::other(code)
            })?;
        }
        Ok::<_, std::io::Error>(rest.rows.take().map(|rows| (rows, rest)))
    });
    Ok(csv_file("audit.csv", Body::from_stream(parts)))
}

/// Reads the next page.
async fn read(mut rest: Rest) -> Result<Rest, Refusal> {
    let (audits, before) = (&rest.api.services.audits, rest.next.take());
    let page = audits.page(&rest.actor, &rest.query, before.as_ref(), READ).await?;
    rest.rows = Some(page.events.iter().map(|event| csv_row(event.cells())).collect());
    rest.next = page.next;
    Ok(rest)
}
