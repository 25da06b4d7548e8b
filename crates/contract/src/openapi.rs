//! The OpenAPI document: `openapi.json` and, with the same content, `openapi.yaml`, next to `Cargo.toml`. The tests compare it
//! with the types of this crate.

/// The document as JSON, for a service at the root of its host.
pub const JSON: &str = include_str!("../openapi.json");
/// The document as YAML, for a service at the root of its host.
pub const YAML: &str = include_str!("../openapi.yaml");

/// [`JSON`] for a service at this URL: absolute, or a path relative to the document's own address. It must need no escaping.
pub fn json_at(url: &str) -> String {
    JSON.replacen("\"url\": \"/\"", &format!("\"url\": \"{url}\""), 1)
}

/// [`YAML`] for a service at this URL.
pub fn yaml_at(url: &str) -> String {
    YAML.replacen("url: /\n", &format!("url: {url}\n"), 1)
}
