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
    let Some(value) = found.first else {
        return Err(nothing(InvalidReason::MISSING));
    };
    let submitted = submitted(value).ok_or_else(|| nothing(InvalidReason::NOT_JSON))?;
    match submitted {
        submitted if found.again => Err(BodyFault { submitted, reason: InvalidReason::DUPLICATE }),
        Submitted::Text(url) => Ok(url),
        submitted => Err(BodyFault { submitted, reason: InvalidReason::NOT_STRING }),
    }
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

struct Found<'a> {
    first: Option<&'a RawValue>,
    again: bool,
}

struct FindProfileUrl;

impl<'de> Visitor<'de> for FindProfileUrl {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = Found { first: None, again: false };
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
    fn the_url_is_found_among_other_fields_and_behind_a_bom() {
        for body in [
            r#"{"profileUrl":"https://x"}"#,
            "\u{FEFF}{\"profileUrl\":\"https://x\"}",
            " \r\n{ \"a\" : [1,{\"profileUrl\":2}], \"profileUrl\" : \"https://x\" , \"b\":null}\n",
            r#"{"profile\u0055rl":"https:\/\/x"}"#,
        ] {
            assert_eq!(profile_url(body.as_bytes()).as_deref(), Ok("https://x"), "{body}");
        }
    }

    #[test]
    fn a_fault_has_its_reason_and_what_was_submitted() {
        let nothing = || Submitted::Nothing;
        for (body, submitted, reason) in [
            ("", nothing(), "no_body"),
            (" \n", nothing(), "no_body"),
            ("\u{FEFF}", nothing(), "no_body"),
            ("{", nothing(), "not_json"),
            ("nope", nothing(), "not_json"),
            ("{\"profileUrl\":\"x\"} {}", nothing(), "not_json"),
            ("{\"profileUrl\":\"\\ud800\"}", nothing(), "not_json"),
            ("{'profileUrl':'x'}", nothing(), "not_json"),
            ("[]", nothing(), "not_object"),
            ("\"https://x\"", nothing(), "not_object"),
            ("null", nothing(), "not_object"),
            ("{}", nothing(), "missing"),
            ("{\"profileurl\":\"x\"}", nothing(), "missing"),
            ("{\"profileUrl\":null}", Submitted::Json("null"), "not_string"),
            ("{\"profileUrl\":[1, 2]}", Submitted::Json("[1, 2]"), "not_string"),
            ("{\"profileUrl\":\"a\",\"profileUrl\":\"b\"}", Submitted::Text("a".into()), "duplicate"),
            ("{\"profileUrl\":\"a\",\"profile\\u0055rl\":\"a\"}", Submitted::Text("a".into()), "duplicate"),
        ] {
            let fault = profile_url(body.as_bytes()).expect_err(reason);
            assert_eq!((&fault.submitted, fault.reason.code), (&submitted, reason), "{body}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_not_json() {
        for body in
            [&b"{\"profileUrl\":\"\xFF\"}"[..], b"{\"a\":\"\xFF\",\"profileUrl\":\"x\"}", b"[\"\xFF\"]"]
        {
            assert_eq!(profile_url(body).expect_err("not UTF-8").reason, InvalidReason::NOT_JSON);
        }
        assert_eq!(profile_url(b"\x0C{}").expect_err("no white space").reason, InvalidReason::NOT_JSON);
    }

    #[test]
    fn deep_nesting_is_refused_and_not_a_crash() {
        let body = format!("{{\"profileUrl\":{}", "[".repeat(100_000));
        assert_eq!(profile_url(body.as_bytes()).expect_err("deep").reason, InvalidReason::NOT_JSON);
    }
}
