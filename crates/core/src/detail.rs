//! Details: the ways to reach the person of a profile.

use std::fmt;

use crate::suppression::comparable_email;
use crate::{EmailError, PhoneError, Timestamp, email, phone};

/// What sort of contact a detail is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A telephone number.
    Phone,
    /// An e-mail address.
    Email,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Phone, Self::Email];

    /// The word for it in files, flags and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Email => "email",
        }
    }
}

/// Whose detail it is. Only personal ones are ever returned by a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Label {
    /// The person's own.
    Personal,
    /// Their employer's.
    Work,
}

impl Label {
    /// Both labels.
    pub const ALL: [Self; 2] = [Self::Personal, Self::Work];

    /// The word for it in files.
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
/// [`expose`](Self::expose) is where it comes out.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContactValue(String);

impl ContactValue {
    /// Reads a phone number, to be kept as E.164. Without `+` it needs a region.
    pub fn phone(text: &str, region: Option<&str>) -> Result<Self, PhoneError> {
        phone::normalize(text, region).map(Self)
    }

    /// Reads a phone number with `+` that may have been kept once, also one that today's
    /// metadata does not know any more.
    pub fn known_phone(text: &str) -> Result<Self, PhoneError> {
        match phone::normalize(text, None) {
            Err(PhoneError::Invalid) if phone::is_e164(text.trim()) => Ok(Self(text.trim().to_owned())),
            read => read.map(Self),
        }
    }

    /// Whether a value that is held means the same: e-mail addresses compare as a whole, whatever their case.
    pub fn compares_to(&self, kind: Kind, held: &str) -> bool {
        match kind {
            Kind::Phone => self.0 == held,
            Kind::Email => self.0 == held || comparable_email(&self.0) == comparable_email(held),
        }
    }

    /// Reads an e-mail address; its domain is lower-cased, its local part is kept.
    pub fn email(text: &str) -> Result<Self, EmailError> {
        email::normalize(text).map(Self)
    }

    /// A value that an engine kept, which was checked when it came in.
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

/// One way to reach a person. Its identity is profile, kind, value and source: the same
/// again is an update of the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// Phone or e-mail.
    pub kind: Kind,
    /// Personal or work.
    pub label: Label,
    /// The number or address.
    pub value: ContactValue,
    /// Who it came from.
    pub source: String,
    /// How sure the source is, 0 to 100.
    pub confidence: u8,
    /// When it was last seen to be true, to the second; absent counts as oldest.
    pub observed_at: Option<Timestamp>,
    /// The lawful basis for holding it.
    pub basis: Option<String>,
    /// From this second on it is not served.
    pub expires_at: Option<Timestamp>,
}

impl Detail {
    /// What a detail is when the source says nothing more about it.
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

    /// How sure a source is that does not say.
    pub const DEFAULT_CONFIDENCE: u8 = 50;

    /// Whether `other` is this detail, perhaps with another date or confidence.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.value == other.value && self.source == other.source
    }
}
