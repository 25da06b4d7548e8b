//! The files of the console, which are in the binary. `build.rs` makes them of the scripts and styles in `assets/console`.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use contactd_core::{FileForm, file_tag};

/// What the pages may load: nothing but these files and the API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A file as the build script has written it.
#[derive(Clone, Copy)]
struct File {
    content_type: &'static str,
    plain: &'static str,
    packed: &'static [u8],
}

macro_rules! file {
    ($name:literal, $content_type:literal) => {
        File {
            content_type: $content_type,
            plain: include_str!(concat!(env!("OUT_DIR"), "/", $name)),
            packed: include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz")),
        }
    };
}

const PAGE: File = file!("index.html", "text/html; charset=utf-8");
const STYLE: File = file!("style.css", "text/css; charset=utf-8");
/// What the first page needs.
const SCRIPT: File = file!("app.js", "text/javascript; charset=utf-8");
/// All other pages.
const LATER: File = file!("pages.js", "text/javascript; charset=utf-8");

pub(crate) fn router() -> Router {
    let files = [
        ("/admin/", PAGE),
        ("/admin/enter", PAGE),
        ("/admin/style.css", STYLE),
        ("/admin/app.js", SCRIPT),
        ("/admin/pages.js", LATER),
    ];
    let router = Router::new().route("/admin", get(|| async { moved() }));
    files.into_iter().fold(router, |router, (path, file)| {
        router.route(path, get(async move |headers: HeaderMap| file.answer(&headers)))
    })
}

fn moved() -> Response {
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, "/admin/")]).into_response()
}

impl File {
    fn answer(self, asked: &HeaderMap) -> Response {
        let tag = file_tag(self.packed);
        let find = |name| asked.get(name).map(HeaderValue::as_bytes);
        let headers = [
            (header::CONTENT_TYPE, self.content_type),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::CACHE_CONTROL, "no-cache"),
            (header::VARY, "accept-encoding"),
            (header::ETAG, &tag),
        ];
        match FileForm::of(find(header::ACCEPT_ENCODING), find(header::IF_NONE_MATCH), &tag) {
            FileForm::Unchanged => (StatusCode::NOT_MODIFIED, headers).into_response(),
            FileForm::Plain => (headers, Body::from(self.plain)).into_response(),
            FileForm::Packed => {
                (headers, [(header::CONTENT_ENCODING, "gzip")], Body::from(self.packed)).into_response()
            }
        }
    }
}
