//! Details: ways to contact the person of a profile.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::people::suppression::comparable_email;
use crate::people::{email, phone};
use crate::{EmailError, PhoneError, Timestamp};

/// The kind of a detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "KindName")]
#[expect(missing_docs, reason = "the names say it, and doc comments would be descriptions on the wire")]
pub enum Kind {
    Phone,
    Email,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Phone, Self::Email];

    /// The name used in files, flags and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Email => "email",
        }
    }
}

/// Whose detail it is. Lookups give out only personal ones.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LabelName")]
#[expect(missing_docs, reason = "the names say it, and doc comments would be descriptions on the wire")]
pub enum Label {
    #[default]
    Personal,
    Work,
}

impl Label {
    /// Both labels.
    pub const ALL: [Self; 2] = [Self::Personal, Self::Work];

    /// The name used in files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Personal => "personal",
            Self::Work => "work",
        }
    }

    /// The label with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|label| label.name().eq_ignore_ascii_case(name))
    }
}

/// A phone number in E.164 form or an e-mail address: personal data.
///
/// It does not implement `Display`, and prints as `<redacted>` in `Debug`.
/// Only [`expose`](Self::expose) returns its text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContactValue(String);

impl ContactValue {
    /// Parses a phone number into E.164 form. A number without `+` needs a region.
    pub fn phone(text: &str, region: Option<&str>) -> Result<Self, PhoneError> {
        phone::normalize(text, region).map(Self)
    }

    /// Parses a phone number, and says whether it has no `+` and begins with the country code of its region: it may be meant
    /// as an international number.
    pub fn phone_and_doubt(text: &str, region: Option<&str>) -> Result<(Self, bool), PhoneError> {
        phone::read(text, region).map(|(e164, is_doubtful)| (Self(e164), is_doubtful))
    }

    /// Parses a phone number with `+` that may be in the store. Also accepts one that is no longer valid according
    /// to the current metadata.
    pub fn known_phone(text: &str) -> Result<Self, PhoneError> {
        match phone::normalize(text, None) {
            Err(PhoneError::Invalid) if phone::is_e164(text.trim()) => Ok(Self(text.trim().to_owned())),
            read => read.map(Self),
        }
    }

    /// Whether a stored value means the same. E-mail addresses are compared as a whole, ignoring case.
    pub fn compares_to(&self, kind: Kind, held: &str) -> bool {
        match kind {
            Kind::Phone => self.0 == held,
            Kind::Email => email::is_same(&self.0, held),
        }
    }

    /// The text under which values of this kind are compared: e-mail addresses as a whole, ignoring case.
    pub fn comparable(kind: Kind, text: &str) -> Cow<'_, str> {
        match kind {
            Kind::Phone => Cow::Borrowed(text),
            Kind::Email if text.bytes().all(|b| b.is_ascii() && !b.is_ascii_uppercase()) => {
                Cow::Borrowed(text)
            }
            Kind::Email => Cow::Owned(comparable_email(text)),
        }
    }

    /// Parses an e-mail address. Its domain is lower-cased; its local part is kept.
    pub fn email(text: &str) -> Result<Self, EmailError> {
        email::normalize(text).map(Self)
    }

    /// Wraps a value from an engine. It was validated when it was imported.
    pub fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ContactValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<redacted>")
    }
}

/// One way to contact a person. It is identified by profile, kind, value and source; importing it again updates
/// the other fields. E-mail addresses that differ only in case are the same value; the last spelling is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Phone or email.
    pub kind: Kind,
    /// Personal or work.
    pub label: Label,
    /// The number or address.
    pub value: ContactValue,
    /// Where it came from.
    pub source: String,
    /// How sure the source is, 0 to 100.
    pub confidence: u8,
    /// When it was last observed to be true, to the second. `None` counts as oldest.
    pub observed_at: Option<Timestamp>,
    /// The lawful basis for holding it.
    pub basis: Option<String>,
    /// From this second on, lookups do not return it.
    pub expires_at: Option<Timestamp>,
}

impl Detail {
    /// Creates a detail with the default for every other field.
    pub fn new(kind: Kind, value: ContactValue, source: &str) -> Self {
        Self {
            kind,
            label: Label::Personal,
            value,
            source: source.to_owned(),
            confidence: Self::DEFAULT_CONFIDENCE,
            observed_at: None,
            basis: None,
            expires_at: None,
        }
    }

    /// The confidence if the source does not give one.
    pub const DEFAULT_CONFIDENCE: u8 = 50;

    /// Whether `other`, of the same profile, is this detail. Its other fields may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.value.compares_to(self.kind, other.value.expose())
            && self.source == other.source
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_differ_only_in_case_are_one_detail() {
        let email = |text: &str| Detail::new(Kind::Email, ContactValue::from_store(text.to_owned()), "crm");
        for (one, other) in
            [("Ada@example.com", "ada@example.com"), ("ÄDA@example.com", "a\u{308}da@example.com")]
        {
            assert!(email(one).is_same(&email(other)), "{one} {other}");
        }
        assert!(!email("ada@example.com").is_same(&email("ada@example.org")));
        assert!(
            !email("ada@example.com")
                .is_same(&Detail { source: "hr".to_owned(), ..email("ada@example.com") })
        );
    }
}
