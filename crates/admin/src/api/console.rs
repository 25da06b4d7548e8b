//! The files of the console, which are in the binary.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What the pages may load: nothing but these files and the API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The style that the console shares with the documentation page and the access report.
const BASE_STYLE: (&str, &str) = ("base.css", include_str!("../../../../assets/base.css"));

/// The page itself.
const PAGE: &str = include_str!("../../assets/console/index.html");

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        /// Every other file: its path below `/admin/`, and its content.
        const FILES: &[(&str, &str)] = &[$(($path, include_str!(concat!("../../assets/console/", $path)))),*];
    };
}

files![
    "api.js",
    "app.js",
    "charts.js",
    "copy-button.js",
    "dialog.js",
    "dom.js",
    "drop-zone.js",
    "fields.js",
    "format.js",
    "jobs.js",
    "notices.js",
    "pages/account.js",
    "pages/audit.js",
    "pages/dialog-parts.js",
    "pages/export.js",
    "pages/import-file.js",
    "pages/import-report.js",
    "pages/imports.js",
    "pages/job-results.js",
    "pages/jobs.js",
    "pages/opt-out-dialogs.js",
    "pages/opt-outs.js",
    "pages/overview.js",
    "pages/people-search.js",
    "pages/people.js",
    "pages/period.js",
    "pages/person-dialogs.js",
    "pages/proof.js",
    "pages/report.js",
    "pages/retention.js",
    "pages/system.js",
    "pages/tokens.js",
    "pages/usage.js",
    "pages/users.js",
    "pages/verify-result.js",
    "qr.js",
    "reasons.js",
    "router.js",
    "session.js",
    "style.css",
    "table.js",
];

pub(crate) fn router() -> Router {
    let mut router = Router::new()
        .route("/admin", get(|| async { moved() }))
        .route("/admin/", get(|headers: HeaderMap| async move { file(&headers, "index.html", PAGE) }))
        .route("/admin/enter", get(|headers: HeaderMap| async move { file(&headers, "index.html", PAGE) }));
    for &(path, content) in FILES.iter().chain([&BASE_STYLE]) {
        let serve = move |headers: HeaderMap| async move { file(&headers, path, content) };
        router = router.route(&format!("/admin/{path}"), get(serve));
    }
    router
}

fn moved() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/admin/")]).into_response()
}

fn file(asked: &HeaderMap, path: &str, content: &'static str) -> Response {
    let tag = format!("\"{:08x}\"", crc32fast::hash(content.as_bytes()));
    let is_known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let kind = match path.rsplit_once('.') {
        Some((_, "css")) => "text/css; charset=utf-8",
        Some((_, "js")) => "text/javascript; charset=utf-8",
        _ => "text/html; charset=utf-8",
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::ETAG, &tag),
    ];
    match is_known {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, Body::from(content)).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_console_is_served() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/console");
        let mut found = Vec::new();
        for at in [dir.clone(), dir.join("pages")] {
            for entry in std::fs::read_dir(at).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_file() {
                    let name = path.strip_prefix(&dir).expect("below it").to_string_lossy().into_owned();
                    found.push(name);
                }
            }
        }
        found.retain(|name| name != "index.html");
        found.sort();
        let mut served: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        served.sort_unstable();
        assert_eq!(found, served);
    }
}
