//! The bodies of answers.

use std::borrow::Cow;

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
        two_fields("{\"phoneNumber\":", &self.phone_number, ",\"profileUrl\":", &self.profile_url)
    }
}

impl EmailFound<'_> {
    /// The body of the answer.
    pub fn to_json(&self) -> Vec<u8> {
        two_fields("{\"email\":", &self.email, ",\"profileUrl\":", &self.profile_url)
    }
}

/// An object with two string fields, as serde would write it, in one allocation. Most answers are of this form.
fn two_fields(first_name: &str, first: &str, second_name: &str, second: &str) -> Vec<u8> {
    let quotes_and_brace = 5;
    let len = first_name.len() + first.len() + second_name.len() + second.len() + quotes_and_brace;
    let mut json = Vec::with_capacity(len);
    for (name, value) in [(first_name, first), (second_name, second)] {
        json.extend_from_slice(name.as_bytes());
        push_string(&mut json, value);
    }
    json.push(b'}');
    json
}

fn push_string(json: &mut Vec<u8>, text: &str) {
    // No early exit, so that the compiler can vectorise the loop.
    if text.bytes().fold(true, |plain, b| plain & (b >= b' ') & (b != b'"') & (b != b'\\')) {
        json.push(b'"');
        json.extend_from_slice(text.as_bytes());
        json.push(b'"');
    } else {
        // Writing a string to memory cannot fail.
        let _ = serde_json::to_writer(json, text);
    }
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
        }
    }

    #[test]
    fn it_takes_one_allocation_of_the_right_size() {
        let phone = PhoneFound { phone_number: "+14155550123".into(), profile_url: "https://x".into() };
        let json = phone.to_json();
        assert_eq!(json.len(), json.capacity());
    }
}
