//! What handlers take: bodies and queries, refused in our own words.

use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer;
use crate::api::misfit;
use crate::api::refusal::Refusal;

/// The largest JSON body.
const JSON_BYTES: usize = 256 * 1024;

/// How long a whole small body may take, or the next part of a file.
const BODY_TIME: Duration = Duration::from_secs(10);

/// How long a whole file may take.
const FILE_TIME: Duration = Duration::from_secs(15 * 60);

/// A JSON body. An empty body counts as `{}`.
pub(crate) struct Sent<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Sent<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let is_json = content_type(request.headers()).is_none_or(|name| name == "application/json");
        let reading = axum::body::to_bytes(request.into_body(), JSON_BYTES);
        let body = tokio::time::timeout(BODY_TIME, reading).await.map_err(|_| late())?;
        let body = body.map_err(|_| too_large(JSON_BYTES))?;
        if body.is_empty() {
            return read(b"{}").map(Self);
        }
        if !is_json {
            let message = "The body must be JSON, with Content-Type: application/json.";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
        }
        // serde would also take the fields of an object from a list.
        if body.trim_ascii_start().first().is_some_and(|&first| first == b'[') {
            return Err(Refusal::invalid("The body must be a JSON object."));
        }
        read(&body).map(Self)
    }
}

/// A file of this many bytes at most: text, or anything else. It may take longer than JSON, as long as parts of it keep coming.
pub(crate) struct SentFile<const MOST: usize>(pub(crate) Vec<u8>);

impl<S: Send + Sync, const MOST: usize> FromRequest<S> for SentFile<MOST> {
    type Rejection = Refusal;

    async fn from_request(request: Request, _: &S) -> Result<Self, Refusal> {
        let is_file = |name: &String| name.starts_with("text/") || name == "application/octet-stream";
        if content_type(request.headers()).is_some_and(|name| !is_file(&name)) {
            let message =
                "The body must be a file, with Content-Type: application/octet-stream or text/plain.";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
        }
        let mut parts = request.into_body().into_data_stream();
        let mut file = Vec::new();
        let reading = async {
            while let Some(part) = tokio::time::timeout(BODY_TIME, parts.next()).await.map_err(|_| late())? {
                let part = part.map_err(|_| too_large(MOST))?;
                if file.len() + part.len() > MOST {
                    return Err(too_large(MOST));
                }
                file.extend_from_slice(&part);
            }
            Ok(())
        };
        tokio::time::timeout(FILE_TIME, reading).await.map_err(|_| late())??;
        Ok(Self(file))
    }
}

/// The content type without its parameters, in lower case.
fn content_type(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().unwrap_or("?");
    Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

fn too_large(most: usize) -> Refusal {
    let message = format!("The body is larger than {most} bytes, or it broke off.");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message)
}

fn late() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "The body did not arrive in time.")
}

/// Reads JSON. The message names fields or the place, and nothing of what was sent.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    let not_json = |error: &serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        Refusal::invalid(format!("The body is not JSON, at line {line}, column {column}."))
    };
    let mut json = serde_json::Deserializer::from_slice(body);
    let read =
        serde_path_to_error::deserialize(&mut json).map_err(|error| match error.inner().classify() {
            serde_json::error::Category::Data => Refusal::invalid(misfit::of_body(body, &error)),
            _ => not_json(error.inner()),
        })?;
    json.end().map_err(|error| not_json(&error))?;
    Ok(read)
}

/// The query of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(error) => {
                let text = error.body_text();
                let said = text.split_once(": ").map_or("", |(_, said)| said);
                Err(Refusal::invalid(misfit::of_query(said)))
            }
        }
    }
}

/// The variable part of a path.
pub(crate) struct Named(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(name)) => Ok(Self(name)),
            Err(_) => Err(Refusal::not_found("There is nothing at this path.")),
        }
    }
}

/// What most handlers answer with.
pub(crate) type Answer<T> = Result<Json<T>, Refusal>;

/// What those answer with that create something.
pub(crate) type NewAnswer<T> = Result<Created<T>, Refusal>;

/// A JSON answer.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_string(&self.0) {
            Ok(body) => answer::of_type(StatusCode::OK, "application/json", body),
            Err(error) => {
                tracing::error!(target: "contactd::admin", %error, "an answer could not be written");
                Refusal::internal().into_response()
            }
        }
    }
}

/// A JSON answer about something that was created.
pub(crate) struct Created<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, Json(self.0)).into_response()
    }
}
