//! How an operator names a subject: a person by profile URL, a number or an address.

use crate::{ContactValue, EmailError, Kind, Networks, PhoneError, Profile, Reason, Subject};

/// A person, a number or an address, as an operator named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubjectName {
    /// A person, by profile.
    Person(Profile),
    /// A number or an address.
    Value(Kind, ContactValue),
}

/// Why a text does not name a subject. It contains nothing from the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectNameError {
    /// The profile URL is refused for this reason.
    #[error("this profile URL cannot be used ({})", .0.code())]
    Profile(Reason),
    /// A row with nothing in the columns that name somebody.
    #[error("this row names nobody")]
    Nobody,
    /// Not a phone number with its country code.
    #[error("this phone number cannot be read ({0}); write it with + and its country code")]
    Phone(PhoneError),
    /// Not an e-mail address.
    #[error("this e-mail address cannot be read ({0}); write it like ada@example.com")]
    Email(EmailError),
}

impl SubjectNameError {
    /// What to type instead, in whole sentences. It contains nothing from the text.
    pub fn advice(&self) -> String {
        const FORMS: &str = "Type the URL of a profile, such as https://www.linkedin.com/in/ada-quell; an e-mail address, such as \
                             ada@example.com; or a phone number with + and its country code, such as +14155550123.";
        match self {
            Self::Nobody | Self::Profile(Reason::Empty) => FORMS.to_owned(),
            Self::Profile(reason) => format!(
                "This is neither an e-mail address nor a phone number, and as a profile URL it cannot be used ({}). {FORMS}",
                reason.code()
            ),
            Self::Phone(error) => format!(
                "This phone number cannot be read ({error}). Type it with + and its country code, such as +14155550123."
            ),
            Self::Email(error) => {
                format!("This e-mail address cannot be read ({error}). Type it like ada@example.com.")
            }
        }
    }
}

impl SubjectName {
    /// The profile URL, number or address in its canonical form. It is recognised as the same subject.
    pub fn text(&self) -> &str {
        match self {
            Self::Person(profile) => profile.as_str(),
            Self::Value(_, value) => value.expose(),
        }
    }

    /// Parses a profile URL.
    pub fn person(url: &str, networks: &Networks) -> Result<Self, SubjectNameError> {
        networks.canonicalize(url).map(Self::Person).map_err(SubjectNameError::Profile)
    }

    /// Parses a phone number with its `+`.
    pub fn phone(text: &str) -> Result<Self, SubjectNameError> {
        let value = ContactValue::known_phone(text).map_err(SubjectNameError::Phone)?;
        Ok(Self::Value(Kind::Phone, value))
    }

    /// Parses an e-mail address.
    pub fn email(text: &str) -> Result<Self, SubjectNameError> {
        let value = ContactValue::email(text).map_err(SubjectNameError::Email)?;
        Ok(Self::Value(Kind::Email, value))
    }

    /// Parses a line of a list. A line with digits and without letters or `@` is a number. A line with `@` is an
    /// address, unless it is not a valid one and contains `/`. Everything else is a profile URL.
    pub fn recognize(line: &str, networks: &Networks) -> Result<Self, SubjectNameError> {
        let has_digits = line.chars().any(|c| c.is_ascii_digit());
        if has_digits && !line.contains('@') && !line.chars().any(char::is_alphabetic) {
            return Self::phone(line);
        }
        if line.contains('@') {
            let address = Self::email(line);
            if address.is_ok() || !line.contains('/') {
                return address;
            }
        }
        Self::person(line, networks)
    }

    /// The subject to digest.
    pub fn subject(&self) -> Subject<'_> {
        match self {
            Self::Person(profile) => Subject::Profile(profile),
            Self::Value(kind, value) => Subject::Value(*kind, value),
        }
    }
}

/// The lines of a list that name a subject, with their numbers. Blank lines and comments are left out. A comment
/// begins with `#` and is not a valid address, which may also begin with `#`.
pub fn subject_lines(text: &[u8]) -> impl Iterator<Item = (u64, String)> {
    (1..).zip(text.split(|&b| b == b'\n')).filter_map(|(number, line)| {
        let line = String::from_utf8_lossy(line).trim_matches(['\u{FEFF}', '\r', ' ', '\t']).to_owned();
        let is_comment = line.starts_with('#') && SubjectName::email(&line).is_err();
        (!line.is_empty() && !is_comment).then_some((number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_text_is_recognised_as_the_same_subject() {
        let networks = Networks::built_in();
        for text in ["https://www.linkedin.com/in/Ada-Quell/?trk=x", "Ada+x@EXAMPLE.com", "+1 (415) 555-0123"]
        {
            let named = SubjectName::recognize(text, &networks).expect("a subject");
            assert_eq!(SubjectName::recognize(named.text(), &networks), Ok(named), "{text}");
        }
    }

    #[test]
    fn advice_says_what_to_type_and_repeats_nothing() {
        let networks = Networks::built_in();
        for text in ["", "Eve Nuvel", "eve-nuvel", "555-0199", "eve@", "https://example.com/eve"] {
            let advice = SubjectName::recognize(text, &networks).expect_err("no subject").advice();
            assert!(advice.contains(" such as ") || advice.contains(" like "), "{advice}");
            assert!(text.is_empty() || !advice.contains(text), "{advice}");
        }
    }

    #[test]
    fn blank_lines_and_comments_are_skipped() {
        let text = b"\xEF\xBB\xBF# a list\r\n\r\n ada@example.com \n#tag@example.com\n";
        let lines: Vec<_> = subject_lines(text).collect();
        assert_eq!(lines, [(3, "ada@example.com".to_owned()), (4, "#tag@example.com".to_owned())]);
    }
}
