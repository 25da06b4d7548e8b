//! The committed OpenAPI document matches the types, and its examples match its schemas.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use contactd_contract::{ErrorCode, InvalidReason, Operation, openapi};
use serde_json::{Value, json};

#[test]
fn the_committed_json_is_what_the_types_make() {
    let made = serde_json::to_string_pretty(&openapi::document()).expect("serialises") + "\n";
    assert!(
        made == openapi::JSON,
        "run: cargo run -p contactd-contract --example openapi -- json > crates/contract/openapi.json"
    );
}

#[test]
fn the_committed_yaml_is_what_the_types_make() {
    let made = serde_norway::to_string(&openapi::document()).expect("serialises");
    assert!(
        made == openapi::YAML,
        "run: cargo run -p contactd-contract --example openapi -- yaml > crates/contract/openapi.yaml"
    );
}

#[test]
fn every_error_of_an_operation_is_described() {
    let document: Value = serde_json::from_str(openapi::JSON).expect("JSON");
    for operation in Operation::ALL {
        for code in ErrorCode::ALL {
            // An unknown path is not part of any operation.
            if code == ErrorCode::NotFound {
                continue;
            }
            let response =
                &document["paths"][operation.path()]["post"]["responses"][code.http_status().to_string()];
            let examples = response["content"]["application/json"]["examples"].as_object().expect("examples");
            assert!(examples.contains_key(code.status().unwrap_or("internal")), "{code:?}");
        }
    }
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
    let document: Value = serde_json::from_str(openapi::JSON).expect("JSON");
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
