//! The OpenAPI document matches the types, and its examples match its schemas.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use contactd_contract::{EmailFound, ErrorCode, InvalidReason, Operation, PhoneFound, Submitted, openapi};
use serde_json::{Value, json};

fn parsed(document: &openapi::Document) -> Value {
    serde_json::from_str(document.json).expect("JSON")
}

/// Both versions.
fn documents() -> [Value; 2] {
    [parsed(&openapi::V1_0), parsed(&openapi::V1_1)]
}

#[test]
fn the_yaml_is_the_json() {
    for document in [openapi::V1_0, openapi::V1_1] {
        let made = serde_norway::to_string(&parsed(&document)).expect("serialises");
        assert!(
            made == document.yaml,
            "run: cargo run -q -p contactd-contract --example openapi > crates/contract/openapi-1.1.yaml"
        );
    }
}

#[test]
fn version_1_0_is_frozen() {
    const FROZEN: u64 = 0x001501f1cee88705;
    // SHA-256 would need a dependency. This is FNV-1a.
    let hash = openapi::V1_0.json.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    assert_eq!(hash, FROZEN, "/openapi.json must not change; what is new goes into openapi-1.1.json");
}

#[test]
fn version_1_1_only_adds_to_version_1_0() {
    let [old, new] = documents();
    for place in ["/paths", "/components/schemas", "/components/headers"] {
        for (name, described) in old.pointer(place).and_then(Value::as_object).expect("an object") {
            let mut now = new.pointer(place).expect("an object")[name].clone();
            if name == "Error" {
                let known = described["properties"]["status"]["enum"].clone();
                let codes = now["properties"]["status"]["enum"].as_array().expect("codes");
                assert!(known.as_array().expect("codes").iter().all(|code| codes.contains(code)));
                now["properties"]["status"]["enum"] = known;
            }
            assert_eq!(now, *described, "{name}");
        }
    }
    assert_eq!(old["x-invalid-reasons"], new["x-invalid-reasons"]);
}

#[test]
fn every_error_of_an_operation_is_described_with_its_body() {
    let document = parsed(&openapi::V1_0);
    for operation in Operation::ALL {
        let responses = &document["paths"][operation.path()]["post"]["responses"];
        let found = &responses["200"]["content"]["application/json"]["examples"]["found"]["value"];
        let text = |name: &str| found[name].as_str().expect("a text").into();
        let profile_url = text("profileUrl");
        let body = match operation {
            Operation::FetchPhoneNumber => {
                PhoneFound { phone_number: text("phoneNumber"), profile_url }.to_json()
            }
            Operation::FetchPersonalEmail => EmailFound { email: text("email"), profile_url }.to_json(),
        };
        assert_eq!(serde_json::from_slice::<Value>(&body).expect("JSON"), *found);
        // An unknown path is not part of any operation, and neither is a batch.
        let of_others = [ErrorCode::NotFound, ErrorCode::InvalidBatch];
        for code in ErrorCode::ALL.into_iter().filter(|code| !of_others.contains(code)) {
            let message = match code {
                ErrorCode::InvalidProfileUrl => {
                    Submitted::Text("https://www.linkedin.com/company/quellcorp".into()).refused(operation)
                }
                ErrorCode::ContactNotFound => {
                    ErrorCode::not_on_file(operation, found["profileUrl"].as_str().expect("a URL"))
                }
                code => code.message().to_owned(),
            };
            let body = match code.status() {
                Some(status) => json!({ "status": status, "message": message }),
                None => json!({ "message": message }),
            };
            let content = &responses[code.http_status().to_string()]["content"]["application/json"];
            assert_eq!(content["examples"][code.status().unwrap_or("internal")]["value"], body, "{code:?}");
        }
    }
}

#[test]
fn every_code_and_every_reason_is_listed() {
    for (document, knows_batches) in documents().into_iter().zip([false, true]) {
        let known = ErrorCode::ALL.iter().filter(|code| knows_batches || **code != ErrorCode::InvalidBatch);
        let statuses: Vec<_> = known.filter_map(|code| code.status()).collect();
        let listed = &document["components"]["schemas"]["Error"]["properties"]["status"]["enum"];
        assert_eq!(*listed, json!(statuses));
        let codes: Vec<_> = InvalidReason::ALL.iter().map(|reason| reason.code).collect();
        assert_eq!(document["components"]["headers"]["X-Invalid-Reason"]["schema"]["enum"], json!(codes));
        let reason = |reason: &InvalidReason| json!({ "code": reason.code, "meaning": reason.meaning, "hint": reason.hint });
        let reasons: Vec<_> = InvalidReason::ALL.iter().map(reason).collect();
        assert_eq!(document["x-invalid-reasons"], json!(reasons));
    }
}

#[test]
fn the_server_is_where_the_operator_says() {
    for document in [openapi::V1_0, openapi::V1_1] {
        for url in ["/contacts", "https://contacts.example.com/base"] {
            let json: Value = serde_json::from_str(&document.json_at(url)).expect("JSON");
            assert_eq!(json["servers"], json!([{ "url": url }]));
            assert!(document.yaml_at(url).contains(&format!("servers:\n- url: {url}\n")));
        }
        assert_eq!(document.json_at("/"), document.json);
        assert_eq!(document.yaml_at("/"), document.yaml);
    }
}

#[test]
fn every_schema_has_an_example_and_every_example_is_valid() {
    for document in documents() {
        check_examples(&document);
    }
}

fn check_examples(document: &Value) {
    let mut checked = 0;
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        for example in schema["examples"].as_array().unwrap_or_else(|| panic!("{name} has no example")) {
            check(document, schema, example, name);
            checked += 1;
        }
    }
    for (name, header) in document["components"]["headers"].as_object().expect("headers") {
        assert!(header.get("example").is_some(), "{name} has no example");
        check(document, &header["schema"], &header["example"], name);
        checked += 1;
    }
    for_each_content(document, &mut |content| {
        let schema = resolve(document, &content["schema"]);
        assert!(schema["examples"].is_array(), "a schema without an example: {schema}");
        let examples = content["examples"].as_object().expect("examples");
        assert!(!examples.is_empty());
        for (name, example) in examples {
            check(document, schema, &example["value"], name);
            checked += 1;
        }
    });
    assert!(checked > 40, "only {checked} examples were checked");
}

/// Calls `take` with every media type object.
fn for_each_content(value: &Value, take: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match name.as_str() {
                    "content" => field.as_object().expect("media types").values().for_each(&mut *take),
                    _ => for_each_content(field, take),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| for_each_content(item, take)),
        _ => {}
    }
}

fn resolve<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap_or_else(|| panic!("no {reference}")),
        None => schema,
    }
}

fn items(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

/// Fails unless `value` matches `schema`. Knows the keywords that this document uses, and no others.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    for (keyword, wanted) in resolve(document, schema).as_object().expect("a schema") {
        let length = || value.as_str().expect("a string").chars().count() as u64;
        let is_good = match keyword.as_str() {
            "type" => match wanted.as_str() {
                Some("object") => value.is_object(),
                Some("string") => value.is_string(),
                Some("integer") => value.is_i64(),
                Some("array") => value.is_array(),
                other => panic!("{at}: type {other:?}"),
            },
            "required" => wanted
                .as_array()
                .expect("names")
                .iter()
                .all(|name| value.get(name.as_str().expect("a name")).is_some()),
            "properties" => {
                let properties = wanted.as_object().expect("properties");
                for (name, field) in value.as_object().expect("an object") {
                    let schema =
                        properties.get(name).unwrap_or_else(|| panic!("{at}: {name} is not described"));
                    check(document, schema, field, &format!("{at}.{name}"));
                }
                true
            }
            "items" => {
                let items = value.as_array().expect("a list");
                items.iter().for_each(|item| check(document, wanted, item, at));
                true
            }
            "minItems" => items(value) >= wanted.as_u64(),
            "maxItems" => items(value) <= wanted.as_u64(),
            // The one with all the fields that are there.
            "anyOf" => {
                let fits = |schema: &&Value| {
                    let properties = &resolve(document, schema)["properties"];
                    value
                        .as_object()
                        .expect("an object")
                        .keys()
                        .eq(properties.as_object().expect("fields").keys())
                };
                let schema = wanted.as_array().expect("schemas").iter().find(fits);
                check(document, schema.unwrap_or_else(|| panic!("{at}: {value} is none of them")), value, at);
                true
            }
            "enum" => wanted.as_array().expect("values").contains(value),
            "const" => wanted == value,
            "minimum" => value.as_i64() >= wanted.as_i64(),
            "minLength" => length() >= wanted.as_u64().expect("a number"),
            "maxLength" => length() <= wanted.as_u64().expect("a number"),
            "pattern" => {
                assert_eq!(wanted, r"^\+[1-9][0-9]{6,14}$", "{at}");
                let digits = value.as_str().and_then(|text| text.strip_prefix('+')).unwrap_or_default();
                (7..=15).contains(&digits.len())
                    && digits.bytes().all(|b| b.is_ascii_digit())
                    && !digits.starts_with('0')
            }
            "title" | "description" | "examples" => true,
            other => panic!("{at}: this test does not know the keyword {other}"),
        };
        assert!(is_good, "{at}: {value} does not match {keyword} {wanted}");
    }
}

#[test]
fn reason_codes_are_unique() {
    let mut codes: Vec<_> = InvalidReason::ALL.iter().map(|reason| reason.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), InvalidReason::ALL.len());
}
