//! The OpenAPI documents, next to `Cargo.toml`. The tests compare them with the types of this crate.

/// One version of the document, for a service at the root of its host.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// As JSON.
    pub json: &'static str,
    /// With the same content, as YAML.
    pub yaml: &'static str,
}

/// The two operations. It does not change.
pub const V1_0: Document =
    Document { json: include_str!("../openapi.json"), yaml: include_str!("../openapi.yaml") };

/// The two operations, and what has been added since.
pub const V1_1: Document =
    Document { json: include_str!("../openapi-1.1.json"), yaml: include_str!("../openapi-1.1.yaml") };

impl Document {
    /// The JSON for a service at this URL: absolute, or a path relative to the document's own address. It must need no escaping.
    pub fn json_at(&self, url: &str) -> String {
        self.json.replacen("\"url\": \"/\"", &format!("\"url\": \"{url}\""), 1)
    }

    /// The YAML for a service at this URL.
    pub fn yaml_at(&self, url: &str) -> String {
        self.yaml.replacen("url: /\n", &format!("url: {url}\n"), 1)
    }
}
