//! The committed OpenAPI document matches the types.

use contactd_contract::{ErrorCode, InvalidReason, Operation, openapi};
use serde_json::Value;

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
fn the_base_path_moves_the_server() {
    let json: Value = serde_json::from_str(&openapi::json_below("/contacts")).expect("JSON");
    assert_eq!(json["servers"][0]["url"], "/contacts");
    assert!(openapi::yaml_below("/contacts").contains("servers:\n- url: /contacts\n"));
}

#[test]
fn reason_codes_are_unique() {
    let mut codes: Vec<_> = InvalidReason::ALL.iter().map(|reason| reason.code).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), InvalidReason::ALL.len());
}
