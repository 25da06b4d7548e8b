//! Reads a message: a JSON-RPC request or notification.

use serde::de::{Deserialize, Deserializer, IgnoredAny};
use serde_json::value::RawValue;

use super::fault::Fault;

/// A request or a notification.
pub(super) struct Message<'a> {
    /// As JSON. A notification has none.
    pub(super) id: Option<&'a str>,
    pub(super) method: String,
    pub(super) params: Params<'a>,
}

/// The parameters that some method has. Others are ignored.
#[derive(Default, serde::Deserialize)]
pub(super) struct Params<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    pub(super) cursor: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "protocolVersion", deserialize_with = "there")]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta", deserialize_with = "there")]
    meta: Option<&'a RawValue>,
}

/// What a client says of itself with every request.
#[derive(Default, serde::Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion", deserialize_with = "there")]
    pub(super) protocol_version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/clientCapabilities",
        deserialize_with = "there"
    )]
    pub(super) client_capabilities: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(borrow, default, deserialize_with = "there")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "there")]
    params: Option<&'a RawValue>,
}

/// A field that is there, also if it is `null`.
fn there<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

pub(super) fn read(body: &[u8]) -> Result<Message<'_>, Fault> {
    let body = std::str::from_utf8(body).map_err(|_| Fault::unreadable("The message is not UTF-8."))?;
    let body = body.strip_prefix('\u{FEFF}').unwrap_or(body).trim_matches([' ', '\t', '\r', '\n']);
    if !body.starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(body) {
            Ok(_) => Fault::invalid_request("A message is one JSON object; batches are not supported."),
            Err(_) => Fault::unreadable("The message is not JSON."),
        });
    }
    let fields: Fields<'_> = serde_json::from_str(body).map_err(|error| match error.is_data() {
        true => Fault::invalid_request("The message has a field twice."),
        false => Fault::unreadable("The message is not JSON."),
    })?;
    let id = fields.id.map(RawValue::get);
    if !id.is_none_or(is_id) {
        return Err(Fault::invalid_request("The id is a string or a whole number."));
    }
    if fields.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(Fault::invalid_request("The message has no \"jsonrpc\": \"2.0\".").of(id));
    }
    let method = fields.method.and_then(text);
    let method = method.ok_or_else(|| Fault::invalid_request("The message has no method.").of(id))?;
    let params = fields.params.map_or(Some(Params::default()), object);
    let params = params.ok_or_else(|| Fault::invalid_params("params cannot be read as an object.").of(id))?;
    Ok(Message { id, method, params })
}

/// The id of a request, as JSON.
pub(super) fn id(body: &[u8]) -> Option<String> {
    read(body).ok()?.id.map(str::to_owned)
}

impl<'a> Params<'a> {
    /// None if it is not an object.
    pub(super) fn meta(&self) -> Option<Meta<'a>> {
        self.meta.map_or(Some(Meta::default()), object)
    }
}

/// The text of a string; none of any other value.
pub(super) fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

pub(super) fn is_object(value: &RawValue) -> bool {
    value.get().starts_with('{')
}

fn object<'a, T: Deserialize<'a>>(value: &'a RawValue) -> Option<T> {
    serde_json::from_str(value.get()).ok().filter(|_| is_object(value))
}

fn is_id(json: &str) -> bool {
    let digits = json.strip_prefix('-').unwrap_or(json);
    json.starts_with('"') || digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(body: &str) -> String {
        let Err(fault) = read(body.as_bytes()) else { return "none".to_owned() };
        format!("{fault:?}").chars().skip_while(|c| *c != '-').take_while(|c| *c != ',').collect()
    }

    #[test]
    fn what_is_no_message_is_told_from_what_is_not_json() {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        let with = |field: &str| format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",{field}}}");
        for (body, expected) in [
            (String::new(), "-32700"),
            ("{".to_owned(), "-32700"),
            (with("\"id\":1}"), "-32700"),
            (deep("{\"a\":", ""), "-32700"),
            (deep("[", "]"), "-32600"),
            ("[\"2.0\",1,\"ping\",{}]".to_owned(), "-32600"),
            ("7".to_owned(), "-32600"),
            ("{\"method\":\"ping\",\"id\":1}".to_owned(), "-32600"),
            ("{\"jsonrpc\":\"1.0\",\"method\":\"ping\",\"id\":1}".to_owned(), "-32600"),
            ("{\"jsonrpc\":\"2.0\",\"method\":7,\"id\":1}".to_owned(), "-32600"),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}".to_owned(), "-32600"),
            (with("\"method\":\"x\""), "-32600"),
            (with("\"id\":null"), "-32600"),
            (with("\"id\":1.5"), "-32600"),
            (with("\"id\":1e3"), "-32600"),
            (with("\"id\":{}"), "-32600"),
            (with("\"params\":[]"), "-32602"),
            (with("\"params\":null"), "-32602"),
            (with("\"params\":{\"name\":\"a\",\"name\":\"a\"}"), "-32602"),
            (with("\"params\":{}"), "none"),
            (with("\"id\":-1"), "none"),
            (with("\"id\":\"\""), "none"),
            (with(&format!("\"params\":{{\"x\":{}}}", deep("[", "]"))), "none"),
        ] {
            assert_eq!(code(&body), expected, "{}", &body[..body.len().min(99)]);
        }
    }
}
