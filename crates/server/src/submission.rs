//! Finds `profileUrl` in the body of a lookup.

use std::borrow::Cow;
use std::fmt;

use contactd_contract::{InvalidReason, Submitted};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A body without an acceptable `profileUrl`: what was submitted instead, and the reason for refusing it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BodyFault<'a> {
    pub(crate) submitted: Submitted<'a>,
    pub(crate) reason: InvalidReason,
}

/// Returns the submitted `profileUrl`.
pub(crate) fn profile_url(body: &[u8]) -> Result<Cow<'_, str>, BodyFault<'_>> {
    let nothing = |reason| BodyFault { submitted: Submitted::Nothing, reason };
    let Ok(body) = std::str::from_utf8(body) else {
        return Err(nothing(InvalidReason::NOT_JSON));
    };
    if let Some(url) = only_profile_url(body) {
        return Ok(Cow::Borrowed(url));
    }
    let body = body.strip_prefix('\u{FEFF}').unwrap_or(body).trim_matches([' ', '\t', '\r', '\n']);
    if body.is_empty() {
        return Err(nothing(InvalidReason::NO_BODY));
    }
    if !body.starts_with('{') {
        let is_json = serde_json::from_str::<IgnoredAny>(body).is_ok();
        return Err(nothing(if is_json { InvalidReason::NOT_OBJECT } else { InvalidReason::NOT_JSON }));
    }
    let mut reader = serde_json::Deserializer::from_str(body);
    let found = reader
        .deserialize_map(FindProfileUrl)
        .and_then(|found| reader.end().map(|()| found))
        .map_err(|_| nothing(InvalidReason::NOT_JSON))?;
    found.url()
}

/// The value of `{"profileUrl":"…"}`, written like that and without escapes: nearly every body is, and reading it so takes a fifth of the
/// time. `None` for any other body, which can still be right.
fn only_profile_url(body: &str) -> Option<&str> {
    let value = body.strip_prefix("{\"profileUrl\":")?;
    let url = value.strip_prefix(' ').unwrap_or(value).strip_prefix('"')?.strip_suffix("\"}")?;
    url.bytes().fold(true, |plain, b| plain & (b >= b' ') & (b != b'"') & (b != b'\\')).then_some(url)
}

/// A string as text, any other value as its JSON. Returns `None` for a string with invalid escapes,
/// such as an unpaired surrogate.
fn submitted(value: &RawValue) -> Option<Submitted<'_>> {
    let json = value.get();
    let Some(inner) = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return Some(Submitted::Json(json));
    };
    if !inner.contains('\\') {
        return Some(Submitted::Text(Cow::Borrowed(inner)));
    }
    serde_json::from_str::<String>(json).ok().map(|text| Submitted::Text(Cow::Owned(text)))
}

/// The values of the fields `profileUrl` of an object.
#[derive(Default)]
pub(crate) struct Found<'a> {
    pub(crate) first: Option<&'a RawValue>,
    /// Whether there are more.
    pub(crate) again: bool,
}

impl<'a> Found<'a> {
    /// The submitted `profileUrl`.
    pub(crate) fn url(self) -> Result<Cow<'a, str>, BodyFault<'a>> {
        let nothing = |reason| BodyFault { submitted: Submitted::Nothing, reason };
        let value = self.first.ok_or_else(|| nothing(InvalidReason::MISSING))?;
        let submitted = submitted(value).ok_or_else(|| nothing(InvalidReason::NOT_JSON))?;
        match submitted {
            submitted if self.again => Err(BodyFault { submitted, reason: InvalidReason::DUPLICATE }),
            Submitted::Text(url) => Ok(url),
            submitted => Err(BodyFault { submitted, reason: InvalidReason::NOT_STRING }),
        }
    }
}

struct FindProfileUrl;

impl<'de> Visitor<'de> for FindProfileUrl {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found::default();
        while let Some(Key(is_profile_url)) = map.next_key()? {
            if !is_profile_url {
                map.next_value::<IgnoredAny>()?;
            } else if found.first.is_none() {
                found.first = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
                found.again = true;
            }
        }
        Ok(found)
    }
}

/// Whether a field's name is `profileUrl`, after unescaping.
struct Key(bool);

impl<'de> serde::Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Name;
        impl Visitor<'_> for Name {
            type Value = Key;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Key, E> {
                Ok(Key(name == "profileUrl"))
            }
        }
        deserializer.deserialize_str(Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_escapes_and_what_is_nearly_json_is_not() {
        for body in [
            &br#"{"profileUrl":"https://x"}"#[..],
            br#"{"profileUrl": "https://x"}"#,
            b"\xEF\xBB\xBF\r\n{\t\"profileUrl\" :\"https://x\" }\n",
            br#"{"profile\u0055rl":"https:\/\/x"}"#,
            br#"{"profileUrl":"https://x","a":""}"#,
        ] {
            assert_eq!(profile_url(body).as_deref(), Ok("https://x"));
        }
        for (body, reason) in [
            (&br#"{"profileUrl":"a","profile\u0055rl":"a"}"#[..], "duplicate"),
            (br#"{"profileUrl":"x"} {}"#, "not_json"),
            (br#"{"profileUrl":"x"","a":"}"#, "not_json"),
            (br#"{"profileUrl":"\"}"#, "not_json"),
            (b"{\"profileUrl\":\"x\ny\"}", "not_json"),
            (br#"{"profileUrl":"}"#, "not_json"),
            (br#"{"profileUrl":"\ud800"}"#, "not_json"),
            (b"{'profileUrl':'x'}", "not_json"),
            (b"{\"a\":\"\xFF\",\"profileUrl\":\"x\"}", "not_json"),
            (b"\x0C{}", "not_json"),
        ] {
            assert_eq!(profile_url(body).expect_err(reason).reason.code, reason);
        }
    }
}
