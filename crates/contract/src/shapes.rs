//! The bodies of answers.

use std::borrow::Cow;
use std::ops::Range;

use serde::Serialize;

/// A phone number was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PhoneFound<'a> {
    /// Phone number of the requested profile in international form: "+" and digits only.
    pub phone_number: Cow<'a, str>,
    /// The requested profile URL in its canonical form.
    pub profile_url: Cow<'a, str>,
}

/// A personal e-mail address was found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EmailFound<'a> {
    /// Personal e-mail address of the requested profile.
    pub email: Cow<'a, str>,
    /// The requested profile URL in its canonical form.
    pub profile_url: Cow<'a, str>,
}

impl PhoneFound<'_> {
    /// The body of the answer.
    pub fn to_json(&self) -> Vec<u8> {
        joined(self.parts(), self)
    }

    /// Appends it.
    pub fn push(&self, json: &mut Vec<u8>) {
        append(json, self.parts(), self);
    }

    fn parts(&self) -> [&str; 5] {
        let Self { phone_number, profile_url } = self;
        ["{\"phoneNumber\":\"", phone_number, "\",\"profileUrl\":\"", profile_url, "\"}"]
    }
}

impl EmailFound<'_> {
    /// The body of the answer.
    pub fn to_json(&self) -> Vec<u8> {
        joined(self.parts(), self)
    }

    /// Appends it.
    pub fn push(&self, json: &mut Vec<u8>) {
        append(json, self.parts(), self);
    }

    fn parts(&self) -> [&str; 5] {
        let Self { email, profile_url } = self;
        ["{\"email\":\"", email, "\",\"profileUrl\":\"", profile_url, "\"}"]
    }
}

/// An object with two string fields as serde would write it, whose parts are given: the values are the second and the fourth. Most
/// answers are of this form, and hardly any value has to be escaped. So they are joined, in one allocation.
fn joined(parts: [&str; 5], object: &impl Serialize) -> Vec<u8> {
    let [_, first, _, second, _] = parts;
    if is_plain(first) && is_plain(second) {
        return parts.concat().into_bytes();
    }
    // Writing strings to memory cannot fail.
    serde_json::to_vec(object).unwrap_or_default()
}

/// Like [`joined`], at the end of other JSON.
fn append(json: &mut Vec<u8>, parts: [&str; 5], object: &impl Serialize) {
    let [_, first, _, second, _] = parts;
    if is_plain(first) && is_plain(second) {
        parts.iter().for_each(|part| json.extend_from_slice(part.as_bytes()));
    } else {
        // Writing strings to memory cannot fail.
        let _ = serde_json::to_writer(json, object);
    }
}

/// The answer to a batch: one result for each lookup, in order.
#[derive(Debug)]
pub struct BatchAnswer {
    json: Vec<u8>,
}

/// A result of a batch, without its body.
#[derive(Clone, Copy, Debug)]
pub struct BatchResult<'a> {
    /// The HTTP status that the operation would have answered: three digits.
    pub status: &'a str,
    /// What the caller gave to recognise it.
    pub reference: Option<&'a str>,
    /// The operation's `X-Invalid-Reason`.
    pub reason: Option<&'a str>,
    /// The operation's `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
}

impl<'a> BatchResult<'a> {
    /// That of a lookup that found something.
    pub const fn found(reference: Option<&'a str>) -> Self {
        Self { status: "200", reference, reason: None, retry_after: None }
    }
}

impl BatchAnswer {
    /// An answer without a result, with room for this many bytes.
    pub fn with_capacity(len: usize) -> Self {
        let mut json = Vec::with_capacity(len);
        json.extend_from_slice(b"{\"results\":[");
        Self { json }
    }

    /// Appends a result with the body that `body` appends. Returns where that is.
    pub fn push(&mut self, result: &BatchResult<'_>, body: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
        let BatchResult { status, reference, reason, retry_after } = result;
        let json = &mut self.json;
        if json.last() == Some(&b'}') {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"status\":");
        json.extend_from_slice(status.as_bytes());
        for (name, text) in [(&b",\"reference\":"[..], reference), (b",\"reason\":", reason)] {
            if let Some(text) = text {
                json.extend_from_slice(name);
                push_string(json, text);
            }
        }
        if let Some(seconds) = retry_after {
            json.extend_from_slice(format!(",\"retryAfter\":{seconds}").as_bytes());
        }
        json.extend_from_slice(b",\"body\":");
        let start = json.len();
        body(json);
        let range = start..json.len();
        json.push(b'}');
        range
    }

    /// Appends a result with the body of an earlier one.
    pub fn push_again(&mut self, result: &BatchResult<'_>, body: Range<usize>) -> Range<usize> {
        self.push(result, |json| json.extend_from_within(body))
    }

    /// The body of the answer.
    pub fn into_json(mut self) -> Vec<u8> {
        self.json.extend_from_slice(b"]}");
        self.json
    }
}

fn push_string(json: &mut Vec<u8>, text: &str) {
    if is_plain(text) {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    } else {
        // Writing a string to memory cannot fail.
        let _ = serde_json::to_writer(json, text);
    }
}

/// Whether nothing in this text has to be escaped in a JSON string.
fn is_plain(text: &str) -> bool {
    // In chunks, and without an early exit from one, so that the compiler can vectorise all of it.
    let (chunks, rest) = text.as_bytes().as_chunks::<16>();
    let mut last = [b' '; 16];
    last[..rest.len()].copy_from_slice(rest);
    let is_plain = |chunk: &[u8; 16]| {
        chunk.iter().fold(true, |plain, &b| plain & (b >= b' ') & (b != b'"') & (b != b'\\'))
    };
    chunks.iter().all(is_plain) && is_plain(&last)
}

/// Every answer that is not a success, but for a fault of the service.
#[derive(Debug, Serialize)]
pub struct Error<'a> {
    /// Machine-readable error code.
    pub status: Cow<'a, str>,
    /// Human-readable text.
    pub message: Cow<'a, str>,
}

/// A fault of the service. It has no `status`, and says nothing about the cause.
#[derive(Debug, Serialize)]
pub struct InternalError<'a> {
    /// Human-readable text.
    pub message: Cow<'a, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_is_written_as_serde_would() {
        for (value, url) in [
            ("+14155550123", "https://linkedin.com/in/ada-quell"),
            ("\"a\\b\"@example.com", "https://linkedin.com/in/%C3%A9"),
            ("é\u{7}\n@example.com", ""),
        ] {
            let phone = PhoneFound { phone_number: value.into(), profile_url: url.into() };
            assert_eq!(phone.to_json(), serde_json::to_vec(&phone).expect("JSON"));
            let email = EmailFound { email: value.into(), profile_url: url.into() };
            assert_eq!(email.to_json(), serde_json::to_vec(&email).expect("JSON"));
            let mut appended = b"[".to_vec();
            email.push(&mut appended);
            assert_eq!(appended[1..], email.to_json());
        }
    }

    #[test]
    fn a_character_is_escaped_wherever_it_is() {
        for (length, at) in (1..40).flat_map(|length| (0..length).map(move |at| (length, at))) {
            for escaped in ['"', '\\', '\u{1F}'] {
                let mut value = "é".repeat(at) + &"~".repeat(length - at - 1);
                value.insert('é'.len_utf8() * at, escaped);
                let phone = PhoneFound { phone_number: value.as_str().into(), profile_url: "".into() };
                assert_eq!(phone.to_json(), serde_json::to_vec(&phone).expect("JSON"));
            }
        }
    }

    #[test]
    fn it_takes_one_allocation_of_the_right_size() {
        let phone = PhoneFound { phone_number: "+14155550123".into(), profile_url: "https://x".into() };
        let json = phone.to_json();
        assert_eq!(json.len(), json.capacity());
    }
}
