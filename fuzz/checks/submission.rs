//! The body of a lookup has the `profileUrl` that serde_json finds in it, and no other.

use serde_json::Value;

/// Reading never panics, and what it finds is what serde_json's own values have.
pub(crate) fn check(body: &[u8]) {
    let found = contactd_server::fuzzing::profile_url(body);
    let text = body.strip_prefix("\u{FEFF}".as_bytes()).unwrap_or(body);
    // Values refuse what is skipped without reading it: numbers out of range and half surrogates in other fields.
    let Ok(value) = serde_json::from_slice::<Value>(text) else { return };
    let url = value.get("profileUrl");
    match found {
        Ok(found) => assert_eq!(url, Some(&Value::String(found))),
        Err("not_object") => assert!(!value.is_object()),
        Err("missing") => assert!(value.is_object() && url.is_none()),
        Err("not_string") => assert!(url.is_some_and(|url| !url.is_string())),
        Err("duplicate") => assert!(url.is_some()),
        Err(reason) => panic!("it is JSON, and was refused as {reason}"),
    }
}
