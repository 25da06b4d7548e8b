//! Reads the body of a batch, without building a tree of it.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use contactd_contract::Operation;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::submission::{BodyFault, Found};

/// The most characters of a reference.
const MAX_REFERENCE_CHARS: usize = 128;

/// A lookup of a batch, as it was submitted.
#[derive(Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) operation: Operation,
    pub(crate) reference: Option<Cow<'a, str>>,
    pub(crate) url: Result<Cow<'a, str>, BodyFault<'a>>,
}

/// Why a batch is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchFault {
    NoBody,
    NotJson,
    NotObject,
    Missing,
    Twice,
    NotAList,
    Empty,
    /// There are more than this many.
    TooMany(usize),
    /// The lookup with this index.
    Lookup(usize, LookupFault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupFault {
    NotObject,
    Operation,
    Reference,
    /// This field is there twice.
    Twice(&'static str),
}

impl fmt::Display for BatchFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBody => f.write_str("The request has no body; send {\"lookups\": […]}."),
            Self::NotJson => {
                f.write_str("The body cannot be read as JSON; check quoting, escapes and nesting.")
            }
            Self::NotObject => f.write_str("The body is not an object; send {\"lookups\": […]}."),
            Self::Missing => f.write_str("lookups is missing; send {\"lookups\": […]}."),
            Self::Twice => f.write_str("lookups is there twice; send it once."),
            Self::NotAList => f.write_str("lookups is not a list; send {\"lookups\": […]}."),
            Self::Empty => f.write_str("lookups is empty; send at least one."),
            Self::TooMany(most) => {
                write!(f, "lookups has more than {most} lookups; send them in several batches.")
            }
            Self::Lookup(index, fault) => {
                write!(f, "lookups[{index}] ")?;
                match fault {
                    LookupFault::NotObject => f.write_str("is not an object."),
                    LookupFault::Operation => f.write_str(
                        "has no operation that exists; send \"fetchPhoneNumber\" or \"fetchPersonalEmail\".",
                    ),
                    LookupFault::Reference => {
                        write!(
                            f,
                            "has a reference that is not a string of at most {MAX_REFERENCE_CHARS} characters."
                        )
                    }
                    LookupFault::Twice(name) => write!(f, "has {name} twice; send it once."),
                }
            }
        }
    }
}

/// Reads one to `most` lookups.
pub(crate) fn lookups(body: &[u8], most: usize) -> Result<Vec<Submission<'_>>, BatchFault> {
    let body = std::str::from_utf8(body).map_err(|_| BatchFault::NotJson)?;
    let body = body.strip_prefix('\u{FEFF}').unwrap_or(body);
    if body.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
        return Err(BatchFault::NoBody);
    }
    let reader = Reader { most, fault: Cell::new(BatchFault::NotObject) };
    let mut json = serde_json::Deserializer::from_str(body);
    let read = json.deserialize_any(&reader).and_then(|read| json.end().map(|()| read));
    let read =
        read.map_err(|error| if error.is_data() { reader.fault.get() } else { BatchFault::NotJson })?;
    match read {
        None => Err(BatchFault::Missing),
        Some(lookups) if lookups.is_empty() => Err(BatchFault::Empty),
        Some(lookups) => Ok(lookups),
    }
}

struct Reader {
    most: usize,
    /// What it means if what comes next is readable JSON and is not what it has to be.
    fault: Cell<BatchFault>,
}

impl Reader {
    fn fail<E: Error>(&self, fault: BatchFault) -> E {
        self.fault.set(fault);
        // The fault says it all.
        E::custom("")
    }
}

impl<'de> Visitor<'de> for &Reader {
    type Value = Option<Vec<Submission<'de>>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut lookups = None;
        while let Some(Text(name)) = map.next_key()? {
            if name != "lookups" {
                map.next_value::<IgnoredAny>()?;
            } else if lookups.is_some() {
                return Err(self.fail(BatchFault::Twice));
            } else {
                self.fault.set(BatchFault::NotAList);
                lookups = Some(map.next_value_seed(List(self))?);
            }
        }
        Ok(lookups)
    }
}

/// Reads the list.
struct List<'r>(&'r Reader);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<Submission<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<Submission<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Self(reader) = self;
        let mut lookups = Vec::new();
        loop {
            let index = lookups.len();
            reader.fault.set(match index < reader.most {
                true => BatchFault::Lookup(index, LookupFault::NotObject),
                false => BatchFault::TooMany(reader.most),
            });
            match list.next_element_seed(One { reader, index })? {
                Some(lookup) => lookups.push(lookup),
                None => return Ok(lookups),
            }
        }
    }
}

/// Reads the lookup with this index.
#[derive(Clone, Copy)]
struct One<'r> {
    reader: &'r Reader,
    index: usize,
}

impl One<'_> {
    /// What comes next has to be right, or this is what is wrong.
    fn expect(&self, fault: LookupFault) {
        self.reader.fault.set(BatchFault::Lookup(self.index, fault));
    }
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = Submission<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = Submission<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        if self.index >= self.reader.most {
            return Err(A::Error::custom(""));
        }
        let fail = |fault| self.reader.fail(BatchFault::Lookup(self.index, fault));
        let (mut operation, mut reference, mut found) = (None, None, Found::default());
        while let Some(Text(name)) = map.next_key()? {
            match &*name {
                "operation" if operation.is_some() => return Err(fail(LookupFault::Twice("operation"))),
                "operation" => {
                    self.expect(LookupFault::Operation);
                    let Text(name) = map.next_value()?;
                    let known = Operation::ALL.into_iter().find(|known| known.name() == name);
                    operation = Some(known.ok_or_else(|| fail(LookupFault::Operation))?);
                }
                "reference" if reference.is_some() => return Err(fail(LookupFault::Twice("reference"))),
                "reference" => {
                    self.expect(LookupFault::Reference);
                    let Text(text) = map.next_value()?;
                    if text.chars().count() > MAX_REFERENCE_CHARS {
                        return Err(fail(LookupFault::Reference));
                    }
                    reference = Some(text);
                }
                "profileUrl" if found.first.is_none() => found.first = Some(map.next_value()?),
                name => {
                    found.again |= name == "profileUrl";
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let operation = operation.ok_or_else(|| fail(LookupFault::Operation))?;
        Ok(Submission { operation, reference, url: found.url() })
    }
}

/// A text, not copied if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(body: &str) -> String {
        lookups(body.as_bytes(), 2).expect_err(body).to_string()
    }

    const PHONE: &str = r#"{"operation":"fetchPhoneNumber","profileUrl":"https://x"}"#;

    #[test]
    fn lookups_are_read_in_order_with_their_references_and_unknown_fields_are_ignored() {
        let body = r#"{"x":[{"lookups":1}],"lookups":[
            {"reference":"r\u00f6w","profile\u0055rl":"https:\/\/x","operation":"fetchPersonalEmail","y":{"operation":1}},
            {"operation":"fetch\u0050honeNumber","profileUrl":7,"profileUrl":8}],"z":null}"#;
        let body = format!("\u{FEFF}{body}\n");
        let read = lookups(body.as_bytes(), 2).expect("reads");
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].operation, Operation::FetchPersonalEmail);
        assert_eq!(read[0].reference.as_deref(), Some("r\u{f6}w"));
        assert_eq!(read[0].url.as_deref(), Ok("https://x"));
        assert_eq!((read[1].operation, &read[1].reference), (Operation::FetchPhoneNumber, &None));
        assert_eq!(read[1].url.as_ref().map_err(|fault| fault.reason.code), Err("duplicate"));
    }

    #[test]
    fn a_fault_says_where_it_is() {
        let list = |second: &str| format!("{{\"lookups\":[{PHONE},{second}]}}");
        let at = |what: &str| format!("lookups[1] {what}");
        for (body, message) in [
            (" \n".to_owned(), "The request has no body; send {\"lookups\": […]}.".to_owned()),
            ("[]".to_owned(), "The body is not an object; send {\"lookups\": […]}.".to_owned()),
            ("1e5".to_owned(), "The body is not an object; send {\"lookups\": […]}.".to_owned()),
            ("{}".to_owned(), "lookups is missing; send {\"lookups\": […]}.".to_owned()),
            ("{\"lookups\":{}}".to_owned(), "lookups is not a list; send {\"lookups\": […]}.".to_owned()),
            ("{\"lookups\":[]}".to_owned(), "lookups is empty; send at least one.".to_owned()),
            (
                "{\"lookups\":[],\"lookup\\u0073\":[]}".to_owned(),
                "lookups is there twice; send it once.".to_owned(),
            ),
            (
                list(&format!("{PHONE},{PHONE}")),
                "lookups has more than 2 lookups; send them in several batches.".to_owned(),
            ),
            (
                list(&format!("{PHONE},7")),
                "lookups has more than 2 lookups; send them in several batches.".to_owned(),
            ),
            (list("[]"), at("is not an object.")),
            (list("null"), at("is not an object.")),
            (
                list("{}"),
                at("has no operation that exists; send \"fetchPhoneNumber\" or \"fetchPersonalEmail\"."),
            ),
            (
                list("{\"operation\":[[[[]]]]}"),
                at("has no operation that exists; send \"fetchPhoneNumber\" or \"fetchPersonalEmail\"."),
            ),
            (
                list("{\"operation\":\"fetchphonenumber\"}"),
                at("has no operation that exists; send \"fetchPhoneNumber\" or \"fetchPersonalEmail\"."),
            ),
            (
                list("{\"operation\":\"fetchPhoneNumber\",\"operation\":\"fetchPhoneNumber\"}"),
                at("has operation twice; send it once."),
            ),
            (
                list(&PHONE.replace('}', ",\"reference\":null}")),
                at("has a reference that is not a string of at most 128 characters."),
            ),
            (
                list(&PHONE.replace('}', &format!(",\"reference\":\"{}\"}}", "é".repeat(129)))),
                at("has a reference that is not a string of at most 128 characters."),
            ),
        ] {
            assert_eq!(fault(&body), message, "{body}");
        }
        let longest = PHONE.replace('}', &format!(",\"reference\":\"{}\"}}", "é".repeat(128)));
        assert!(lookups(list(&longest).as_bytes(), 2).is_ok());
    }

    #[test]
    fn what_is_not_json_is_refused_whatever_it_is_nested_in() {
        let deep = |open: &str, close: &str| format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        let not_json = BatchFault::NotJson.to_string();
        for body in [
            "{\"lookups\":[}".to_owned(),
            format!("{{\"lookups\":[{PHONE},]}}"),
            format!("{{\"lookups\":[{PHONE}]}} {{}}"),
            "{\"lookups\":[{\"operation\":\"\\ud800\"}]}".to_owned(),
            deep("{\"a\":", ""),
        ] {
            assert_eq!(fault(&body), not_json, "{}", &body[..body.len().min(99)]);
        }
        assert_eq!(lookups(b"{\"lookups\":\xFF}", 2).expect_err("UTF-8"), BatchFault::NotJson);
        assert_eq!(fault(&deep("[", "]")), BatchFault::NotObject.to_string());
        let ignored = format!("{{\"a\":{},\"lookups\":[{PHONE}]}}", deep("[", "]"));
        assert_eq!(lookups(ignored.as_bytes(), 2).expect("what is ignored may be deep").len(), 1);
        let url = PHONE.replace("\"https://x\"", &deep("[", "]"));
        let body = format!("{{\"lookups\":[{url}]}}");
        let read = lookups(body.as_bytes(), 2).expect("reads");
        assert_eq!(read[0].url.as_ref().map_err(|fault| fault.reason.code), Err("not_string"));
    }
}
