//! One row of an import file as text, and the profile and details parsed from it.

use crate::{
    ContactValue, Detail, EmailError, Kind, Label, Networks, PhoneError, Profile, Reason, Timestamp,
};

/// A row as text. Empty text counts as absent.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "the fields are the columns of the import format, name for name")]
pub struct RawRecord<'a> {
    pub profile_url: &'a str,
    pub phone: &'a str,
    pub email: &'a str,
    pub phone_label: &'a str,
    pub email_label: &'a str,
    pub confidence: &'a str,
    pub observed_at: &'a str,
    pub basis: &'a str,
    pub expires_at: &'a str,
    pub region: &'a str,
    pub source: &'a str,
}

/// A profile and the details that were given for it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The canonical profile.
    pub profile: Profile,
    /// At least one detail.
    pub details: Vec<Detail>,
}

/// Why a row cannot be imported: the faulty column, and a reason.
///
/// Neither contains any text of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{column}: {reason}")]
pub struct RecordError {
    /// The name of the column in the import format.
    pub column: &'static str,
    /// The reason, as a code.
    pub reason: &'static str,
}

const MAX_BASIS: usize = 64;
const MAX_SOURCE: usize = 100;

impl RawRecord<'_> {
    /// Checks and normalises the row. `region` applies to a number without `+` if the row has no region.
    pub fn read(&self, networks: &Networks, region: Option<&str>) -> Result<Record, RecordError> {
        let profile = networks.canonicalize(self.profile_url).map_err(|reason| match reason {
            Reason::Empty => RecordError { column: "profileUrl", reason: "missing" },
            reason => RecordError { column: "profileUrl", reason: reason.code() },
        })?;
        if self.phone.trim().is_empty() && self.email.trim().is_empty() {
            return Err(RecordError { column: "phone", reason: "no_detail" });
        }
        let mut details = Vec::with_capacity(2);
        if let Some(phone) = present(self.phone) {
            let region = present(self.region).or(region);
            let value = ContactValue::phone(phone, region).map_err(phone_error)?;
            details.push(self.detail(Kind::Phone, "phoneLabel", self.phone_label, value)?);
        }
        if let Some(email) = present(self.email) {
            let value = ContactValue::email(email).map_err(email_error)?;
            details.push(self.detail(Kind::Email, "emailLabel", self.email_label, value)?);
        }
        Ok(Record { profile, details })
    }

    fn detail(
        &self,
        kind: Kind,
        label_column: &'static str,
        label: &str,
        value: ContactValue,
    ) -> Result<Detail, RecordError> {
        let source = source(self.source)?;
        Ok(Detail {
            kind,
            label: match present(label) {
                None => Label::Personal,
                Some(label) => Label::parse(label)
                    .ok_or(RecordError { column: label_column, reason: "unknown_label" })?,
            },
            value,
            source: source.to_owned(),
            confidence: confidence(self.confidence)?,
            observed_at: time("observedAt", self.observed_at)?,
            basis: basis(self.basis)?,
            expires_at: time("expiresAt", self.expires_at)?,
        })
    }
}

fn present(text: &str) -> Option<&str> {
    Some(text.trim()).filter(|text| !text.is_empty())
}

fn phone_error(error: PhoneError) -> RecordError {
    let column = if error == PhoneError::UnknownRegion { "region" } else { "phone" };
    RecordError { column, reason: error.code() }
}

fn email_error(error: EmailError) -> RecordError {
    RecordError { column: "email", reason: error.code() }
}

fn source(text: &str) -> Result<&str, RecordError> {
    let source = present(text).ok_or(RecordError { column: "source", reason: "missing" })?;
    if source.chars().count() > MAX_SOURCE || source.chars().any(char::is_control) {
        return Err(RecordError { column: "source", reason: "invalid_source" });
    }
    Ok(source)
}

fn confidence(text: &str) -> Result<u8, RecordError> {
    let Some(text) = present(text) else {
        return Ok(Detail::DEFAULT_CONFIDENCE);
    };
    match text.parse::<u8>() {
        Ok(confidence @ 0..=100) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(confidence),
        _ => Err(RecordError { column: "confidence", reason: "invalid_confidence" }),
    }
}

fn time(column: &'static str, text: &str) -> Result<Option<Timestamp>, RecordError> {
    let Some(text) = present(text) else {
        return Ok(None);
    };
    let time = Timestamp::parse(text).ok_or(RecordError { column, reason: "invalid_date" })?;
    Ok(Some(Timestamp::from_seconds(time.seconds())))
}

fn basis(text: &str) -> Result<Option<String>, RecordError> {
    let Some(text) = present(text) else {
        return Ok(None);
    };
    if text.chars().count() > MAX_BASIS || text.chars().any(char::is_control) {
        return Err(RecordError { column: "basis", reason: "invalid_basis" });
    }
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADA: RawRecord<'static> = RawRecord {
        profile_url: "https://www.linkedin.com/in/Ada-Quell-1a2b3c",
        phone: "+1 415 555 0123",
        email: "",
        phone_label: "",
        email_label: "",
        confidence: "",
        observed_at: "",
        basis: "",
        expires_at: "",
        region: "",
        source: "crm",
    };

    #[test]
    fn a_row_with_only_a_phone_gets_the_defaults() {
        let record = ADA.read(&Networks::built_in(), None).expect("a good row");
        assert_eq!(record.profile.as_str(), "https://linkedin.com/in/ada-quell-1a2b3c");
        let phone = ContactValue::phone("+14155550123", None).expect("a number");
        assert_eq!(record.details, [Detail::new(Kind::Phone, phone, "crm")]);
    }

    #[test]
    fn a_bad_row_names_its_column_and_reason() {
        let cases: [(RawRecord<'_>, &str, &str); 10] = [
            (RawRecord { profile_url: "", ..ADA }, "profileUrl", "missing"),
            (RawRecord { profile_url: "https://linkedin.com/company/x", ..ADA }, "profileUrl", "not_person"),
            (RawRecord { phone: " ", ..ADA }, "phone", "no_detail"),
            (RawRecord { phone: "5550123", ..ADA }, "phone", "phone_region_needed"),
            (RawRecord { email: "ada", ..ADA }, "email", "invalid_email"),
            (RawRecord { phone_label: "home", ..ADA }, "phoneLabel", "unknown_label"),
            (RawRecord { confidence: "101", ..ADA }, "confidence", "invalid_confidence"),
            (RawRecord { confidence: "+5", ..ADA }, "confidence", "invalid_confidence"),
            (RawRecord { observed_at: "01.05.2026", ..ADA }, "observedAt", "invalid_date"),
            (RawRecord { source: "", ..ADA }, "source", "missing"),
        ];
        for (row, column, reason) in cases {
            let error = row.read(&Networks::built_in(), None).expect_err(reason);
            assert_eq!(error, RecordError { column, reason });
        }
    }
}
