//! Receiving a file of any size: in parts, straight to disk.

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, StatusCode, header};
use contactd_core::DiskBudget;
use futures_util::StreamExt;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt;

use crate::api::disk::PORTION;
use crate::api::refusal::Refusal;

/// How long a client may send nothing.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the rest of a refused file is read and thrown away. A client that still sends does not see the answer.
const DRAINED: Duration = Duration::from_secs(5);

/// Writes a body to a new file that only its owner can read. Returns how many bytes it has. The room for a body whose length is
/// announced is promised at once, so that no other file takes it.
pub(super) async fn receive(
    headers: &HeaderMap,
    body: Body,
    path: &Path,
    disk: &DiskBudget,
) -> Result<u64, Refusal> {
    let mut parts = body.into_data_stream();
    let received = write(headers, &mut parts, path, disk).await;
    if received.is_err() {
        drain(&mut parts).await;
    }
    received
}

/// Reads what is still sent, for a moment.
pub(super) async fn drain(parts: &mut BodyDataStream) {
    let _ = tokio::time::timeout(DRAINED, async { while let Some(Ok(_)) = parts.next().await {} }).await;
}

async fn write(
    headers: &HeaderMap,
    parts: &mut BodyDataStream,
    path: &Path,
    disk: &DiskBudget,
) -> Result<u64, Refusal> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let mut room = disk.reserve(announced.unwrap_or(0)).map_err(unwritable)?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).await.map_err(unwritable)?;
    let (mut bytes, mut portion) = (0, 0);
    loop {
        let part = match tokio::time::timeout(SILENCE_TIMEOUT, parts.next()).await {
            Ok(Some(Ok(part))) => part,
            Ok(None) => break,
            Ok(Some(Err(_))) => {
                return Err(Refusal::invalid("The file broke off while it was sent. Send it again."));
            }
            Err(_) => {
                let message =
                    "Nothing of the file arrived for 30 seconds, so it was given up. Send it again.";
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message));
            }
        };
        room.extend_to(part.len() as u64).map_err(unwritable)?;
        file.write_all(&part).await.map_err(unwritable)?;
        // It is in the file now, not in a buffer, so the disk counts it.
        file.flush().await.map_err(unwritable)?;
        room.use_up(part.len() as u64);
        bytes += part.len() as u64;
        portion += part.len() as u64;
        if portion >= PORTION {
            portion = 0;
            written_through(&mut file).await?;
        }
    }
    written_through(&mut file).await?;
    if bytes == 0 {
        return Err(Refusal::invalid("The file is empty. Send it as the body of the request."));
    }
    Ok(bytes)
}

async fn written_through(file: &mut File) -> Result<(), Refusal> {
    file.flush().await.map_err(unwritable)?;
    file.sync_data().await.map_err(unwritable)
}

fn unwritable(error: io::Error) -> Refusal {
    Refusal::unwritable(&error, "this file")
}
