//! The OpenAPI document of the admin API, made from the list of endpoints.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::api::BASE;
use crate::api::auth::cookie_name;
use crate::api::endpoint::{Content, Endpoint};
use crate::api::jobs::JobShown;
use crate::api::permission::Needs;

/// The statuses of errors, and what each means.
const ERRORS: [(u16, &str); 14] = [
    (400, "The request cannot be understood, or asks for something that cannot be done."),
    (401, "Nobody is logged in, or the admin token is not accepted."),
    (403, "The role may not do this, or the request does not come from the console's own page."),
    (404, "There is no such thing."),
    (405, "The path does not allow this method."),
    (408, "The body did not arrive in time."),
    (409, "Something has changed meanwhile, is in the way, or has to be confirmed."),
    (413, "The body is too large."),
    (415, "The body is not of the expected type."),
    (421, "The host name is not served here."),
    (429, "There were too many attempts."),
    (500, "A fault of the service."),
    (503, "The store or the journal cannot be used now."),
    (507, "The disk of the server has no room."),
];

/// Generates the document.
pub(crate) fn document(endpoints: &[Endpoint], is_tls: bool) -> Value {
    let mut schemas = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    for endpoint in endpoints {
        let operation = operation(endpoint, &mut schemas);
        let path = paths.entry(endpoint.path.to_owned()).or_insert_with(|| json!({}));
        path[endpoint.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut components = schemas.take_definitions(true);
    components.insert("Error".to_owned(), error());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "contactd admin API",
            "version": "1.0.0",
            "summary": "What operators, privacy officers and auditors do with a contact lookup service.",
            "description": "Served on the admin listener. Authorised by an admin token (`contactd admin-token create`), or by a \
                session of the console. Everything that is changed, and every view of personal data, is on record in the journal with \
                the name of the user, or the name and id of the admin token.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": BASE }],
        "security": [{ "adminToken": [] }, { "session": [], "csrf": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "adminToken": { "type": "http", "scheme": "bearer", "description": "An admin token. It begins with `cta_`." },
                "session": { "type": "apiKey", "in": "cookie", "name": cookie_name(is_tls) },
                "csrf": { "type": "apiKey", "in": "header", "name": "X-Contactd-Csrf",
                    "description": "The `csrfToken` of the session; not needed to read." },
            },
            "parameters": {
                "X-Request-Id": {
                    "name": "X-Request-Id",
                    "in": "header",
                    "required": false,
                    "description": "An id to find the request by. Every answer has it or, if it is not 1 to 128 visible ASCII characters, a new one.",
                    "schema": { "type": "string" },
                },
            },
            "schemas": components,
        },
    })
}

fn operation(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = Map::new();
    responses.insert(endpoint.status.to_string(), answer("Done.", endpoint.answers, schemas));
    if endpoint.may_become_job {
        let job = Content::Json(|schemas| schemas.subschema_for::<JobShown>());
        responses.insert("202".to_owned(), answer("It takes longer: a job does it.", job, schemas));
    }
    for (status, meaning) in ERRORS {
        let content = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
        responses.insert(status.to_string(), json!({ "description": meaning, "content": content }));
    }
    let mut operation = json!({
        "operationId": endpoint.id,
        "summary": endpoint.summary,
        "tags": [endpoint.path.split('/').nth(1).unwrap_or_default()],
        "parameters": parameters(endpoint, schemas),
        "responses": responses,
        "x-roles": endpoint.needs.roles().iter().map(|role| role.name()).collect::<Vec<_>>(),
    });
    match endpoint.needs {
        Needs::Nothing => operation["security"] = json!([]),
        Needs::Session => operation["security"] = json!([{ "session": [], "csrf": [] }]),
        Needs::Anyone | Needs::May(_) => {}
    }
    if let Some(content) = content(endpoint.takes, schemas) {
        // An empty body counts as an empty object.
        let is_required = !content["application/json"].is_object() || has_required(&content, schemas);
        operation["requestBody"] = json!({ "required": is_required, "content": content });
    }
    operation
}

/// Whether the schema of a JSON body has properties that must be there.
fn has_required(content: &Value, schemas: &SchemaGenerator) -> bool {
    let reference = content["application/json"]["schema"]["$ref"].as_str().unwrap_or_default();
    let name = reference.rsplit('/').next().unwrap_or_default();
    let required = schemas.definitions().get(name).map(|schema| &schema["required"]);
    required.and_then(Value::as_array).is_some_and(|required| !required.is_empty())
}

fn answer(meaning: &str, content_of: Content, schemas: &mut SchemaGenerator) -> Value {
    match content(content_of, schemas) {
        Some(content) => json!({ "description": meaning, "content": content }),
        None => json!({ "description": meaning }),
    }
}

fn content(content: Content, schemas: &mut SchemaGenerator) -> Option<Value> {
    match content {
        Content::Json(schema) => Some(json!({ "application/json": { "schema": schema(schemas) } })),
        Content::Bytes(kind) => Some(json!({ (kind): {} })),
        Content::Either(schema, kind) => {
            Some(json!({ "application/json": { "schema": schema(schemas) }, (kind): {} }))
        }
        Content::Nothing => None,
    }
}

fn parameters(endpoint: &Endpoint, schemas: &mut SchemaGenerator) -> Vec<Value> {
    let in_path = endpoint.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = in_path
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    if let Some((name, says)) = endpoint.header {
        let schema = json!({ "type": "string" });
        parameters.push(
            json!({ "name": name, "in": "header", "required": false, "description": says, "schema": schema }),
        );
    }
    parameters.push(json!({ "$ref": "#/components/parameters/X-Request-Id" }));
    let Some(query) = endpoint.query else { return parameters };
    let query = query(schemas).to_value();
    let required = |name: &str| {
        let required = query["required"].as_array();
        required.is_some_and(|required| required.iter().any(|other| other == name))
    };
    for (name, schema) in query["properties"].as_object().into_iter().flatten() {
        parameters.push(json!({
            "name": name,
            "in": "query",
            "required": required(name),
            "description": schema["description"],
            "schema": schema,
        }));
    }
    parameters
}

fn error() -> Value {
    json!({
        "type": "object",
        "required": ["status", "message"],
        "properties": {
            "status": { "type": "string", "description": "What kind of error it is, for programs." },
            "message": { "type": "string", "description": "What happened and what to do, for people." },
            "count": { "type": "integer", "description": "How many profiles it is about, if that has to be confirmed." },
        },
    })
}
