//! Serves the OpenAPI document and the documentation page. Everything is embedded in the binary.

use bytes::Bytes;
use contactd_contract::{Error, path};
use contactd_core::store::LocalRead;
use http::StatusCode;

use crate::App;
use crate::answer::{self, Answer};

const PAGE: &str = include_str!("../assets/docs.html");
const STYLE: &str =
    concat!(include_str!("../../../assets/base.css"), "\n", include_str!("../assets/docs.css"));
const SCRIPT: &str = include_str!("../assets/docs.js");

/// The header lines of an asset of this type.
macro_rules! lines {
    ($content_type:literal) => {
        concat!(
            "content-type: ",
            $content_type,
            "\r\ncache-control: no-cache\r\n\
            content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
            img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
            referrer-policy: no-referrer\r\n\
            x-content-type-options: nosniff\r\n"
        )
    };
}

/// Leads a person who opens the address of the service in a browser to the page.
pub(crate) fn redirect<D: LocalRead>(app: &App<D>) -> Answer {
    let page = format!("{}{}", app.now().settings.public_path(), path::DOCS);
    let message = format!("The documentation is at {page}.").into();
    let body = answer::body(&Error { status: "temporary_redirect".into(), message });
    let mut answer = answer::json(StatusCode::TEMPORARY_REDIRECT, body);
    answer.add_header("location", page);
    answer
}

pub(crate) fn page() -> Answer {
    answer::of_type(lines!("text/html; charset=utf-8"), Bytes::from_static(PAGE.as_bytes()))
}

pub(crate) fn style() -> Answer {
    answer::of_type(lines!("text/css; charset=utf-8"), Bytes::from_static(STYLE.as_bytes()))
}

pub(crate) fn script() -> Answer {
    answer::of_type(lines!("text/javascript; charset=utf-8"), Bytes::from_static(SCRIPT.as_bytes()))
}

pub(crate) fn openapi_json<D: LocalRead>(app: &App<D>) -> Answer {
    answer::of_type(lines!("application/json"), app.openapi_json.clone())
}

pub(crate) fn openapi_yaml<D: LocalRead>(app: &App<D>) -> Answer {
    answer::of_type(lines!("application/yaml"), app.openapi_yaml.clone())
}
