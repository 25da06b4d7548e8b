//! The OpenAPI document, generated from the types of this crate.
//!
//! [`document`] generates it. `openapi.json` and `openapi.yaml`, next to `Cargo.toml`, are the
//! committed output. The tests check that they are current, and they are compiled in as [`JSON`]
//! and [`YAML`].

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::{
    EmailFound, Error, ErrorCode, InternalError, InvalidReason, LookupRequest, Operation, PhoneFound,
    Submitted, example, path,
};

/// The document as JSON, for a service at the root of its host.
pub const JSON: &str = include_str!("../openapi.json");
/// The document as YAML, for a service at the root of its host.
pub const YAML: &str = include_str!("../openapi.yaml");

/// Version of the API, which is independent of the program's version.
pub const VERSION: &str = "1.0.0";

/// [`JSON`] for a service at this URL: absolute, or a path relative to the document's own address. It must need no escaping.
pub fn json_at(url: &str) -> String {
    JSON.replacen("\"url\": \"/\"", &format!("\"url\": \"{url}\""), 1)
}

/// [`YAML`] for a service at this URL.
pub fn yaml_at(url: &str) -> String {
    YAML.replacen("url: /\n", &format!("url: {url}\n"), 1)
}

/// Generates the OpenAPI 3.1 document.
pub fn document() -> Value {
    let mut schemas = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let phone = operation(&mut schemas, Operation::FetchPhoneNumber);
    let email = operation(&mut schemas, Operation::FetchPersonalEmail);
    let health = health(&mut schemas);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Contact Lookup Service",
            "version": VERSION,
            "summary": "A profile URL in, one personal contact detail out.",
            "description": "Two operations take the URL of a person's professional-network profile. One returns the \
                personal phone number on file for it, the other the personal e-mail address.\n\nEvery answer carries \
                `X-Request-Id`. Every error has a JSON body with `status` and `message`; a fault of the service has \
                only `message`. A request that is not readable as HTTP gets 400, or 431 if its head is too large, in the same shape.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" }
        },
        "servers": [{ "url": "/" }],
        "security": [{ "bearerAuth": [] }],
        "tags": [
            { "name": "lookup", "description": "The two lookups." },
            { "name": "service", "description": "Whether the service is alive and ready." }
        ],
        "paths": {
            (Operation::FetchPhoneNumber.path()): { "post": phone },
            (Operation::FetchPersonalEmail.path()): { "post": email },
            (path::HEALTHZ): { "get": health.alive },
            (path::READYZ): { "get": health.ready },
        },
        "components": {
            "securitySchemes": {
                "bearerAuth": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token from the operator (`contactd token create`). It begins with `ctd_`."
                }
            },
            "headers": headers(),
            "schemas": schemas.take_definitions(true),
        },
        "x-invalid-reasons": InvalidReason::ALL
            .iter()
            .map(|reason| json!({ "code": reason.code, "meaning": reason.meaning, "hint": reason.hint }))
            .collect::<Vec<_>>(),
    })
}

/// Adds the schema of `T` to the components and returns a reference to it.
fn schema<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().to_value()
}

fn operation(schemas: &mut SchemaGenerator, operation: Operation) -> Value {
    let (id, summary, detail, found, value) = match operation {
        Operation::FetchPhoneNumber => (
            "fetchPhoneNumber",
            "Returns the personal phone number of the profile.",
            "phone number",
            schema::<PhoneFound<'_>>(schemas),
            json!(PhoneFound::example()),
        ),
        Operation::FetchPersonalEmail => (
            "fetchPersonalEmail",
            "Returns the personal e-mail address of the profile.",
            "e-mail address",
            schema::<EmailFound<'_>>(schemas),
            json!(EmailFound::example()),
        ),
    };
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({
            "description": format!("A personal {detail} is on file."),
            "headers": header_refs(&["X-Request-Id", "Cache-Control", "RateLimit", "RateLimit-Policy"]),
            "content": { "application/json": { "schema": found, "examples": { "found": { "summary": "Found", "value": value } } } },
        }),
    );
    for status in [400, 401, 404, 405, 408, 413, 415, 429, 500, 503] {
        responses.insert(status.to_string(), error_response(schemas, operation, status));
    }
    json!({
        "operationId": id,
        "tags": ["lookup"],
        "summary": summary,
        "description": format!("Looks up the best personal {detail} on file. A miss never counts against a quota. \
            Spellings of one profile (`www.`, country sub-domains, tracking parameters, letter case) are the same profile."),
        "requestBody": {
            "required": true,
            "content": {
                "application/json": {
                    "schema": schema::<LookupRequest>(schemas),
                    "examples": { "profile": { "summary": "A public profile", "value": LookupRequest::example() } },
                }
            }
        },
        "responses": responses,
    })
}

/// One response object with all errors of one HTTP status.
fn error_response(schemas: &mut SchemaGenerator, operation: Operation, status: u16) -> Value {
    let mut headers = vec!["X-Request-Id"];
    headers.extend(match status {
        400 => &["X-Invalid-Reason", "RateLimit", "RateLimit-Policy"][..],
        401 => &["WWW-Authenticate", "RateLimit", "RateLimit-Policy"],
        405 => &["Allow"],
        415 => &["Accept-Encoding", "RateLimit", "RateLimit-Policy"],
        429 => &["Retry-After", "RateLimit", "RateLimit-Policy"],
        503 => &["Retry-After"],
        _ => &["RateLimit", "RateLimit-Policy"],
    });
    let of_operation = |code: &&ErrorCode| code.http_status() == status && **code != ErrorCode::NotFound;
    let codes: Vec<ErrorCode> = ErrorCode::ALL.iter().filter(of_operation).copied().collect();
    let mut examples: Map<String, Value> = codes
        .iter()
        .map(|&code| (code.status().unwrap_or("internal").to_owned(), example(code, operation)))
        .collect();
    if status == 415 {
        let body =
            json!({ "status": ErrorCode::UnsupportedMediaType.status(), "message": ErrorCode::ENCODED_BODY });
        examples.insert("encoded".to_owned(), json!({ "summary": "An encoded body", "value": body }));
    }
    let body = match status {
        500 => schema::<InternalError<'_>>(schemas),
        _ => schema::<Error<'_>>(schemas),
    };
    json!({
        "description": describe(status),
        "headers": header_refs(&headers),
        "content": { "application/json": { "schema": body, "examples": examples } },
    })
}

fn example(code: ErrorCode, operation: Operation) -> Value {
    let message = match code {
        ErrorCode::InvalidProfileUrl => Submitted::Text(example::REFUSED.into()).refused(operation),
        ErrorCode::ContactNotFound => ErrorCode::not_on_file(operation, example::CANONICAL),
        _ => code.message().to_owned(),
    };
    let body = match code.status() {
        Some(status) => json!({ "status": status, "message": message }),
        None => json!({ "message": message }),
    };
    json!({ "summary": code.status().unwrap_or("No status field"), "value": body })
}

fn describe(status: u16) -> &'static str {
    match status {
        400 => {
            "`invalid_profile_url`: the body is absent, is not a JSON object, or its `profileUrl` is missing, not a string, \
             or not acceptable; `X-Invalid-Reason` says which. `bad_request`: HTTP that must not be served, such as a request \
             without Host; the connection is closed."
        }
        401 => {
            "The token is missing, malformed, unknown, expired, revoked, or lacks the scope for this operation."
        }
        404 => "No personal detail of that kind is on file for the profile.",
        405 => "Only POST is allowed.",
        408 => "The body did not arrive in time; the connection is closed.",
        413 => {
            "The body is larger than 16 KiB (the operator may set another limit); the connection is closed."
        }
        415 => {
            "The `Content-Type` is not JSON, or there is a `Content-Encoding` other than `identity`. Send the body as it is."
        }
        429 => {
            "The token's rate or a rate of the client's address (`rate_limited`), or the token's quota (`quota_exceeded`) is used up."
        }
        500 => "A fault of the service. The body has no `status`.",
        _ => "Overloaded or stopping: the request was not worked on.",
    }
}

fn header_refs(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") })))
        .collect::<Map<_, _>>()
        .into()
}

fn headers() -> Value {
    let text = |description: &str, example: &str| json!({ "description": description, "schema": { "type": "string" }, "example": example });
    let codes: Vec<&str> = InvalidReason::ALL.iter().map(|reason| reason.code).collect();
    json!({
        "X-Request-Id": {
            "description": "The request's own `X-Request-Id` where it was 1 to 128 visible ASCII characters, else a new UUIDv7.",
            "required": true,
            "schema": { "type": "string", "minLength": 1, "maxLength": 128 },
            "example": "01a1dd23-63f3-7ac3-9432-756729e8be9a"
        },
        "X-Invalid-Reason": {
            "description": "Why the request was refused with `invalid_profile_url`; the codes are in `x-invalid-reasons`.",
            "schema": { "type": "string", "enum": codes },
            "example": InvalidReason::NOT_PERSON.code
        },
        "Cache-Control": { "description": "Contact details are not to be stored by caches.", "schema": { "type": "string", "const": "no-store" }, "example": "no-store" },
        "WWW-Authenticate": {
            "description": "`Bearer`. When a token was sent, with `error` and `error_description`: `invalid_token` with `unknown`, \
                `expired` or `revoked`, or `insufficient_scope` with `not for this operation`.",
            "required": true,
            "schema": { "type": "string" },
            "example": "Bearer error=\"invalid_token\", error_description=\"expired\""
        },
        "Accept-Encoding": { "description": "`identity`, if the body was refused because it is encoded.", "schema": { "type": "string", "const": "identity" }, "example": "identity" },
        "Allow": { "description": "The methods of this path.", "required": true, "schema": { "type": "string" }, "example": "POST" },
        "Retry-After": { "description": "Seconds to wait before the next try.", "required": true, "schema": { "type": "integer", "minimum": 1 }, "example": 1 },
        "RateLimit": text("What is left of each allowance (`r`) and for how many seconds (`t`). Only for limited tokens.", "\"rate\";r=99;t=1"),
        "RateLimit-Policy": text("Each allowance (`q`) and its window in seconds (`w`). Only for limited tokens.", "\"rate\";q=100;w=2"),
    })
}

struct Health {
    alive: Value,
    ready: Value,
}

fn health(schemas: &mut SchemaGenerator) -> Health {
    let status = |word: &str| {
        json!({
            "type": "object",
            "required": ["status"],
            "properties": { "status": { "type": "string", "const": word } },
            "examples": [{ "status": word }]
        })
    };
    let ok = |word: &str, description: &str| {
        json!({
            "description": description,
            "headers": header_refs(&["X-Request-Id"]),
            "content": { "application/json": { "schema": status(word), "examples": { word: { "value": { "status": word } } } } }
        })
    };
    let refused = |schemas: &mut SchemaGenerator, status: u16, code: ErrorCode, description: &str| {
        let headers: &[&str] =
            if status == 405 { &["X-Request-Id", "Allow"] } else { &["X-Request-Id", "Retry-After"] };
        json!({
            "description": description,
            "headers": header_refs(headers),
            "content": { "application/json": {
                "schema": schema::<Error<'_>>(schemas),
                "examples": { (code.status().unwrap_or_default()): { "value": { "status": code.status(), "message": code.message() } } }
            } }
        })
    };
    let not_allowed = refused(schemas, 405, ErrorCode::MethodNotAllowed, "Only GET and HEAD are allowed.");
    let stopping = refused(
        schemas,
        503,
        ErrorCode::ServiceUnavailable,
        "Overloaded or stopping: send requests elsewhere.",
    );
    Health {
        alive: json!({
            "operationId": "healthz", "tags": ["service"], "security": [],
            "summary": "Whether the process is alive.",
            "responses": { "200": ok("ok", "It is."), "405": not_allowed, "503": stopping }
        }),
        ready: json!({
            "operationId": "readyz", "tags": ["service"], "security": [],
            "summary": "Whether the service should be sent requests.",
            "responses": { "200": ok("ready", "It should."), "405": not_allowed, "503": stopping }
        }),
    }
}
