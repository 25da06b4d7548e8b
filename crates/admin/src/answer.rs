//! Answers that are no JSON of the API.

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// An answer with this content type, which caches must not store.
pub(crate) fn of_type(code: StatusCode, content_type: &'static str, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

/// A file to be saved under this name.
pub(crate) fn attachment(content_type: &'static str, name: &str, body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    let disposition = [(header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\""))];
    (headers, disposition, body).into_response()
}

/// The name of a file: what it is, and the case or the file that it was made for. Characters that a file name may not have become `-`.
pub(crate) fn file_name(what: &str, of: Option<&str>, ending: &str) -> String {
    let clean = |of: &str| -> String {
        let is_kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        of.chars().map(|c| if is_kept(c) { c } else { '-' }).collect()
    };
    match of.map(str::trim).filter(|of| !of.is_empty()) {
        Some(of) => format!("{what}-{}.{ending}", clean(of)),
        None => format!("{what}.{ending}"),
    }
}

/// A CSV file to be saved under this name.
pub(crate) fn csv_file(name: &str, body: Body) -> Response {
    attachment("text/csv; charset=utf-8", name, body)
}
