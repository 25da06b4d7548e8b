//! An endpoint of the API: its route, who may use it, and what its documentation says.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api::Api;
use crate::api::permission::Needs;

/// Makes the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// What a request or an answer has in its body.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    Json(SchemaOf),
    /// Bytes of this content type.
    Bytes(&'static str),
    /// Bytes of the first content type or, if it is asked for, JSON.
    Either(SchemaOf, &'static str),
    Nothing,
}

/// An endpoint. The router, the OpenAPI document and the checks of who may do what are all made from the same list of these.
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    /// Below `/admin/api/v1`.
    pub(crate) path: &'static str,
    pub(crate) needs: Needs,
    /// The name of the operation in the OpenAPI document.
    pub(crate) id: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<SchemaOf>,
    /// A header that it reads, and what that says.
    pub(crate) header: Option<(&'static str, &'static str)>,
    pub(crate) takes: Content,
    /// The HTTP status of success.
    pub(crate) status: u16,
    pub(crate) answers: Content,
    /// Whether it may also answer 202, with a job.
    pub(crate) may_become_job: bool,
    /// Whether calling it counts as using the session. What a page asks for by itself does not.
    pub(crate) is_use: bool,
    pub(crate) route: MethodRouter<Arc<Api>>,
}

impl Endpoint {
    fn new<H, T>(method: Method, path: &'static str, needs: Needs, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        Self {
            method,
            path,
            needs,
            id,
            summary: "",
            query: None,
            header: None,
            takes: Content::Nothing,
            status: 200,
            answers: Content::Nothing,
            may_become_job: false,
            is_use: true,
            route: on(filter, handler),
        }
    }

    pub(crate) fn get<H, T>(path: &'static str, needs: Needs, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        Self::new(Method::GET, path, needs, id, handler)
    }

    pub(crate) fn post<H, T>(path: &'static str, needs: Needs, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        Self::new(Method::POST, path, needs, id, handler)
    }

    pub(crate) fn patch<H, T>(path: &'static str, needs: Needs, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        Self::new(Method::PATCH, path, needs, id, handler)
    }

    pub(crate) fn delete<H, T>(path: &'static str, needs: Needs, id: &'static str, handler: H) -> Self
    where
        H: Handler<T, Arc<Api>>,
        T: 'static,
    {
        Self::new(Method::DELETE, path, needs, id, handler)
    }

    /// One sentence about it.
    pub(crate) fn says(mut self, summary: &'static str) -> Self {
        self.summary = summary;
        self
    }

    /// The parameters of its query.
    pub(crate) fn asks<T: JsonSchema>(mut self) -> Self {
        self.query = Some(inline::<T>);
        self
    }

    /// A header that it reads, and what that says.
    pub(crate) fn with_header(mut self, name: &'static str, says: &'static str) -> Self {
        self.header = Some((name, says));
        self
    }

    /// The JSON that it takes.
    pub(crate) fn takes<T: JsonSchema>(mut self) -> Self {
        self.takes = Content::Json(schema::<T>);
        self
    }

    /// The bytes that it takes.
    pub(crate) fn takes_bytes(mut self, content_type: &'static str) -> Self {
        self.takes = Content::Bytes(content_type);
        self
    }

    /// The JSON that it answers with.
    pub(crate) fn answers<T: JsonSchema>(mut self) -> Self {
        self.answers = Content::Json(schema::<T>);
        self
    }

    /// The JSON that it answers with, or bytes if they are asked for.
    pub(crate) fn answers_or<T: JsonSchema>(mut self, content_type: &'static str) -> Self {
        self.answers = Content::Either(schema::<T>, content_type);
        self
    }

    /// The bytes that it answers with.
    pub(crate) fn answers_bytes(mut self, content_type: &'static str) -> Self {
        self.answers = Content::Bytes(content_type);
        self
    }

    /// The HTTP status of success, if it is not 200.
    pub(crate) fn with_status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// It answers 202 with a job if it takes long.
    pub(crate) fn or_job(mut self) -> Self {
        self.may_become_job = true;
        self
    }

    /// Calling it does not count as using the session.
    pub(crate) fn unused(mut self) -> Self {
        self.is_use = false;
        self
    }
}

fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}

/// A schema that is not a reference, so that its properties can be read.
fn inline<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    T::json_schema(schemas)
}
