//! Serves the OpenAPI document and the documentation page. Everything is embedded in the binary.

use std::io::Write as _;

use bytes::Bytes;
use contactd_contract::{Error, openapi, path};
use contactd_core::store::LocalRead;
use contactd_core::{FileForm, file_tag};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::StatusCode;

use crate::App;
use crate::answer::{self, Answer};
use crate::head::Head;
use crate::route::Version;

/// A file that browsers keep, and get compressed.
#[derive(Debug)]
pub(crate) struct DocsFile {
    lines: &'static str,
    plain: Bytes,
    packed: Bytes,
}

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
            vary: Accept-Encoding\r\n\
            x-content-type-options: nosniff\r\n"
        )
    };
}

/// A file that the build script has compressed.
macro_rules! file {
    ($name:literal, $content_type:literal) => {
        DocsFile {
            lines: lines!($content_type),
            plain: Bytes::from_static(include_bytes!(concat!(env!("OUT_DIR"), "/", $name))),
            packed: Bytes::from_static(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".gz"))),
        }
    };
}

pub(crate) static PAGE: DocsFile = file!("docs.html", "text/html; charset=utf-8");
pub(crate) static STYLE: DocsFile = file!("docs.css", "text/css; charset=utf-8");
pub(crate) static SCRIPT: DocsFile = file!("docs.js", "text/javascript; charset=utf-8");

impl DocsFile {
    /// A file that is only known when the service starts.
    fn compressed(lines: &'static str, content: String) -> Self {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        // Writing to memory cannot fail.
        let _ = packed.write_all(content.as_bytes());
        Self { lines, packed: packed.finish().unwrap_or_default().into(), plain: content.into() }
    }

    pub(crate) fn answer(&self, head: &Head<'_>) -> Answer {
        let tag = file_tag(&self.packed);
        let mut answer = match FileForm::of(head.find("accept-encoding"), head.find("if-none-match"), &tag) {
            FileForm::Unchanged => answer::unchanged(self.lines),
            FileForm::Plain => answer::of_type(self.lines, self.plain.clone()),
            FileForm::Packed => {
                let mut packed = answer::of_type(self.lines, self.packed.clone());
                packed.add_header("content-encoding", "gzip");
                packed
            }
        };
        answer.add_header("etag", tag);
        answer
    }
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

/// Each version of the OpenAPI document, for the address of this service.
pub(crate) struct Descriptions([Description; 2]);

pub(crate) struct Description {
    pub(crate) json: DocsFile,
    pub(crate) yaml: DocsFile,
}

impl Descriptions {
    pub(crate) fn at(url: &str) -> Self {
        let at = |document: &openapi::Document| Description {
            json: DocsFile::compressed(lines!("application/json"), document.json_at(url)),
            yaml: DocsFile::compressed(lines!("application/yaml"), document.yaml_at(url)),
        };
        Self([at(&openapi::V1_0), at(&openapi::V1_1)])
    }

    pub(crate) fn of(&self, version: Version) -> &Description {
        match version {
            Version::V1_0 => &self.0[0],
            Version::V1_1 => &self.0[1],
        }
    }
}
