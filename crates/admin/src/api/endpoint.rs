//! An endpoint of the API: its route, who may use it, and what its documentation says.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, on};
use futures_util::future::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::api::Api;
use crate::api::attempts::Origin;
use crate::api::auth::Call;
use crate::api::extract::{Asked, Created, Json, Named, Sent, SentFile};
use crate::api::jobs::{JobShown, Started};
use crate::api::permission::Needs;
use crate::api::refusal::Refusal;

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

/// A handler of any type, so that what axum makes around each type of handler is compiled once.
#[derive(Clone)]
struct AnyHandler(Arc<dyn Fn(Request, Arc<Api>) -> BoxFuture<'static, Response> + Send + Sync>);

impl Handler<(), Arc<Api>> for AnyHandler {
    type Future = BoxFuture<'static, Response>;

    fn call(self, request: Request, api: Arc<Api>) -> Self::Future {
        (self.0)(request, api)
    }
}

impl Endpoint {
    fn new(method: Method, path: &'static str, needs: Needs, id: &'static str) -> Self {
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
            route: MethodRouter::new(),
        }
    }

    pub(crate) fn get(path: &'static str, needs: Needs, id: &'static str) -> Self {
        Self::new(Method::GET, path, needs, id)
    }

    pub(crate) fn post(path: &'static str, needs: Needs, id: &'static str) -> Self {
        Self::new(Method::POST, path, needs, id)
    }

    pub(crate) fn patch(path: &'static str, needs: Needs, id: &'static str) -> Self {
        Self::new(Method::PATCH, path, needs, id)
    }

    pub(crate) fn delete(path: &'static str, needs: Needs, id: &'static str) -> Self {
        Self::new(Method::DELETE, path, needs, id)
    }

    /// One sentence about it, and what handles it. The types of the handler say what it takes and answers with.
    pub(crate) fn does<T: 'static, D>(
        mut self,
        summary: &'static str,
        handler: impl Handler<T, Arc<Api>> + Documented<D>,
    ) -> Self {
        let filter = MethodFilter::try_from(self.method.clone()).unwrap_or(MethodFilter::GET);
        handler.describe(&mut self);
        let handler = AnyHandler(Arc::new(move |request, api| Box::pin(handler.clone().call(request, api))));
        (self.summary, self.route) = (summary, on(filter, handler));
        self
    }

    /// A header that it reads, and what that says.
    pub(crate) fn with_header(mut self, name: &'static str, says: &'static str) -> Self {
        self.header = Some((name, says));
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

/// What a handler takes, or answers with.
pub(crate) trait Described {
    /// Adds it to the documentation of an endpoint.
    fn describe(_: &mut Endpoint) {}
}

impl Described for Call {}
impl Described for State<Arc<Api>> {}
impl Described for Named {}
impl Described for Origin {}
impl Described for HeaderMap {}
impl Described for Request {}
/// Its content is said beside the handler.
impl Described for Response {}

impl<T: JsonSchema> Described for Sent<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.takes = Content::Json(schema::<T>);
    }
}

impl<const MOST: usize> Described for SentFile<MOST> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.takes = Content::Bytes("application/octet-stream");
    }
}

impl<T: JsonSchema> Described for Asked<T> {
    fn describe(endpoint: &mut Endpoint) {
        // Not a reference, so that its properties can be read.
        endpoint.query = Some(T::json_schema);
    }
}

impl<T: JsonSchema> Described for Json<T> {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.answers = Content::Json(schema::<T>);
    }
}

impl<T: JsonSchema> Described for Created<T> {
    fn describe(endpoint: &mut Endpoint) {
        (endpoint.status, endpoint.answers) = (201, Content::Json(schema::<T>));
    }
}

impl Described for Started {
    fn describe(endpoint: &mut Endpoint) {
        (endpoint.status, endpoint.answers) = (202, Content::Json(schema::<JobShown>));
    }
}

impl Described for StatusCode {
    fn describe(endpoint: &mut Endpoint) {
        endpoint.status = 204;
    }
}

impl<T: Described> Described for Result<T, Refusal> {
    fn describe(endpoint: &mut Endpoint) {
        T::describe(endpoint);
    }
}

/// A handler, which is documented by its types.
pub(crate) trait Documented<D> {
    fn describe(&self, endpoint: &mut Endpoint);
}

macro_rules! documented {
    ($($taken:ident),*) => {
        impl<F, A, $($taken),*> Documented<($($taken,)*)> for F
        where
            F: Fn($($taken),*) -> A,
            A: Future<Output: Described>,
            $($taken: Described),*
        {
            fn describe(&self, endpoint: &mut Endpoint) {
                $($taken::describe(endpoint);)*
                A::Output::describe(endpoint);
            }
        }
    };
}

documented!(T1);
documented!(T1, T2);
documented!(T1, T2, T3);

fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Schema {
    schemas.subschema_for::<T>()
}
