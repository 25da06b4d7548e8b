//! The OpenAPI document matches the types, and its examples match its schemas.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use contactd_contract::{EmailFound, ErrorCode, InvalidReason, Operation, PhoneFound, Submitted, openapi};
use serde_json::{Value, json};

fn document() -> Value {
    serde_json::from_str(openapi::JSON).expect("JSON")
}

#[test]
fn the_yaml_is_the_json() {
    let made = serde_norway::to_string(&document()).expect("serialises");
    assert!(
        made == openapi::YAML,
        "run: cargo run -q -p contactd-contract --example openapi > crates/contract/openapi.yaml"
    );
}

#[test]
fn every_error_of_an_operation_is_described_with_its_body() {
    let document = document();
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
        // An unknown path is not part of any operation.
        for code in ErrorCode::ALL.into_iter().filter(|&code| code != ErrorCode::NotFound) {
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
    let document = document();
    let statuses: Vec<_> = ErrorCode::ALL.iter().filter_map(|code| code.status()).collect();
    assert_eq!(document["components"]["schemas"]["Error"]["properties"]["status"]["enum"], json!(statuses));
    let codes: Vec<_> = InvalidReason::ALL.iter().map(|reason| reason.code).collect();
    assert_eq!(document["components"]["headers"]["X-Invalid-Reason"]["schema"]["enum"], json!(codes));
    let reason = |reason: &InvalidReason| json!({ "code": reason.code, "meaning": reason.meaning, "hint": reason.hint });
    let reasons: Vec<_> = InvalidReason::ALL.iter().map(reason).collect();
    assert_eq!(document["x-invalid-reasons"], json!(reasons));
}

#[test]
fn the_server_is_where_the_operator_says() {
    for url in ["/contacts", "https://contacts.example.com/base"] {
        let json: Value = serde_json::from_str(&openapi::json_at(url)).expect("JSON");
        assert_eq!(json["servers"], json!([{ "url": url }]));
        assert!(openapi::yaml_at(url).contains(&format!("servers:\n- url: {url}\n")));
    }
    assert_eq!(openapi::json_at("/"), openapi::JSON);
    assert_eq!(openapi::yaml_at("/"), openapi::YAML);
}

#[test]
fn every_schema_has_an_example_and_every_example_is_valid() {
    let document = document();
    let mut checked = 0;
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        for example in schema["examples"].as_array().unwrap_or_else(|| panic!("{name} has no example")) {
            check(&document, schema, example, name);
            checked += 1;
        }
    }
    for (name, header) in document["components"]["headers"].as_object().expect("headers") {
        assert!(header.get("example").is_some(), "{name} has no example");
        check(&document, &header["schema"], &header["example"], name);
        checked += 1;
    }
    for_each_content(&document, &mut |content| {
        let schema = resolve(&document, &content["schema"]);
        assert!(schema["examples"].is_array(), "a schema without an example: {schema}");
        let examples = content["examples"].as_object().expect("examples");
        assert!(!examples.is_empty());
        for (name, example) in examples {
            check(&document, schema, &example["value"], name);
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

/// Fails unless `value` matches `schema`. Knows the keywords that this document uses, and no others.
fn check(document: &Value, schema: &Value, value: &Value, at: &str) {
    for (keyword, wanted) in resolve(document, schema).as_object().expect("a schema") {
        let length = || value.as_str().expect("a string").chars().count() as u64;
        let is_good = match keyword.as_str() {
            "type" => match wanted.as_str() {
                Some("object") => value.is_object(),
                Some("string") => value.is_string(),
                Some("integer") => value.is_i64(),
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
