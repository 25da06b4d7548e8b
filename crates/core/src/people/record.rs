//! One row of an import file as text, and the profile and details parsed from it.

use crate::people::date_format::is_ambiguous_date;
use crate::people::spreadsheet::{is_day_number, is_error_value, is_notation};
use crate::{
    ContactValue, DateFormat, Detail, EmailError, Kind, Label, Networks, PhoneError, Profile, Reason,
    Timestamp, is_printable,
};

/// The names of the columns of a file of records, in the order of an export.
pub const COLUMNS: [&str; 11] = [
    "profileUrl",
    "phone",
    "email",
    "phoneLabel",
    "emailLabel",
    "confidence",
    "observedAt",
    "basis",
    "expiresAt",
    "region",
    "source",
];

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

/// How rows are read.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowRules<'a> {
    /// The country of phone numbers without `+` in rows that name no region.
    pub region: Option<&'a str>,
    /// The format of dates that are not RFC 3339.
    pub dates: Option<&'a DateFormat>,
    /// Reject details without a basis.
    pub needs_basis: bool,
}

/// The details of a row, and what was rejected of it.
#[derive(Debug, Default)]
pub struct ReadDetails {
    /// The valid details.
    pub details: Vec<Detail>,
    /// The values that were rejected, each with what it qualifies.
    pub rejected: Vec<RecordError>,
    /// Whether a valid phone number has no `+` and begins with the country code of its region.
    pub has_doubtful_phone: bool,
}

/// Why a row or one of its values cannot be imported: the faulty column, and a reason.
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

const SPREADSHEET: &str = "spreadsheet_notation";

impl RecordError {
    /// What to do about a value that was refused.
    pub fn advice(&self) -> &'static str {
        match self.reason {
            "phone_region_needed" => "write it with + and its country code",
            "spreadsheet_notation" => "this is what a spreadsheet shows instead of the value",
            "phone_letters" => "write it in digits",
            "phone_extension" => "leave the extension out",
            "phone_several" => "give one number at a time",
            "invalid_phone" => "this number is not possible in that country; check its digits",
            "email_not_bare" => "write only the address, without a name or mailto:",
            "invalid_email" | "invalid_email_domain" | "email_too_long" => "write it like ada@example.com",
            _ => "check how it is written",
        }
    }
}

impl RawRecord<'_> {
    /// Checks and normalises the row; every value has to be valid. `region` applies to a number without `+` if the row has no
    /// region.
    pub fn read(&self, networks: &Networks, region: Option<&str>) -> Result<Record, RecordError> {
        let profile = self.profile(networks)?;
        if !self.has_detail() {
            return Err(RecordError::NO_DETAIL);
        }
        let read = self.details(&RowRules { region, ..RowRules::default() });
        match read.rejected.first() {
            Some(error) => Err(*error),
            None => Ok(Record { profile, details: read.details }),
        }
    }

    /// The canonical profile.
    pub fn profile(&self, networks: &Networks) -> Result<Profile, RecordError> {
        networks.canonicalize(self.profile_url).map_err(|reason| {
            let reason = match reason {
                Reason::Empty => "missing",
                _ if is_notation(self.profile_url.trim()) => SPREADSHEET,
                reason => reason.code(),
            };
            RecordError { column: "profileUrl", reason }
        })
    }

    /// Whether there is a phone number or an e-mail address.
    pub fn has_detail(&self) -> bool {
        present(self.phone).is_some() || present(self.email).is_some()
    }

    /// The valid details of the row. A bad number or address is rejected alone; a bad label, date, confidence, basis, expiry or
    /// source rejects the details that it qualifies. Every fault is reported, so that one correction is enough.
    pub fn details(&self, rules: &RowRules<'_>) -> ReadDetails {
        let mut read = ReadDetails { details: Vec::with_capacity(2), ..ReadDetails::default() };
        let rejected = &mut read.rejected;
        let phone = present(self.phone).and_then(|phone| {
            let value = ContactValue::phone_and_doubt(phone, present(self.region).or(rules.region));
            let value = noted(value.map_err(phone_error), rejected);
            let label = noted(label("phoneLabel", self.phone_label), rejected);
            Some((value?, label?))
        });
        let email = present(self.email).and_then(|email| {
            let value = noted(ContactValue::email(email).map_err(email_error), rejected);
            let label = noted(label("emailLabel", self.email_label), rejected);
            Some((value?, label?))
        });
        let confidence = noted(confidence(self.confidence), rejected);
        let observed_at = noted(time("observedAt", self.observed_at, rules), rejected);
        let basis = noted(basis(self.basis, rules), rejected);
        let expires_at = noted(time("expiresAt", self.expires_at, rules), rejected);
        let source = noted(source(self.source), rejected);
        let (Some(confidence), Some(observed_at), Some(basis), Some(expires_at), Some(source)) =
            (confidence, observed_at, basis, expires_at, source)
        else {
            return read;
        };
        let detail = |kind, value, label| Detail {
            kind,
            label,
            value,
            source: source.to_owned(),
            confidence,
            observed_at,
            basis: basis.map(str::to_owned),
            expires_at,
        };
        if let Some(((value, is_doubtful), label)) = phone {
            read.has_doubtful_phone = is_doubtful;
            read.details.push(detail(Kind::Phone, value, label));
        }
        if let Some((value, label)) = email {
            read.details.push(detail(Kind::Email, value, label));
        }
        read
    }
}

impl RecordError {
    /// The row has neither a phone number nor an e-mail address.
    pub const NO_DETAIL: Self = Self { column: "phone", reason: "no_detail" };
}

/// The value; or none, and its error is noted.
fn noted<T>(read: Result<T, RecordError>, rejected: &mut Vec<RecordError>) -> Option<T> {
    read.map_err(|error| rejected.push(error)).ok()
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

fn label(column: &'static str, text: &str) -> Result<Label, RecordError> {
    let Some(text) = present(text) else { return Ok(Label::Personal) };
    Label::parse(text).ok_or_else(|| RecordError { column, reason: named("unknown_label", text) })
}

fn source(text: &str) -> Result<&str, RecordError> {
    let fault = |reason| RecordError { column: "source", reason };
    let source = present(text).ok_or(fault("missing"))?;
    if is_error_value(source) {
        return Err(fault(SPREADSHEET));
    }
    if source.chars().count() > MAX_SOURCE || source.chars().any(is_not_text) {
        return Err(fault("invalid_source"));
    }
    Ok(source)
}

fn confidence(text: &str) -> Result<u8, RecordError> {
    let Some(text) = present(text) else {
        return Ok(Detail::DEFAULT_CONFIDENCE);
    };
    match text.parse::<u8>() {
        Ok(confidence @ 0..=100) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(confidence),
        _ => Err(RecordError { column: "confidence", reason: named("invalid_confidence", text) }),
    }
}

fn time(column: &'static str, text: &str, rules: &RowRules<'_>) -> Result<Option<Timestamp>, RecordError> {
    let Some(text) = present(text) else {
        return Ok(None);
    };
    let time = match rules.dates {
        Some(format) => format.read(text),
        None => Timestamp::parse(text),
    };
    let time = time.ok_or_else(|| {
        let reason = match rules.dates {
            _ if is_notation(text) || is_day_number(text) => SPREADSHEET,
            None if is_ambiguous_date(text) => "date_format_needed",
            _ => "invalid_date",
        };
        RecordError { column, reason }
    })?;
    Ok(Some(Timestamp::from_seconds(time.seconds())))
}

fn basis<'a>(text: &'a str, rules: &RowRules<'_>) -> Result<Option<&'a str>, RecordError> {
    let fault = |reason| RecordError { column: "basis", reason };
    let Some(text) = present(text) else {
        return if rules.needs_basis { Err(fault("basis_missing")) } else { Ok(None) };
    };
    if is_error_value(text) {
        return Err(fault(SPREADSHEET));
    }
    if text.chars().count() > MAX_BASIS || text.chars().any(is_not_text) {
        return Err(fault("invalid_basis"));
    }
    Ok(Some(text))
}

/// What is not printable, and the mark in the place of a character that could not be read.
fn is_not_text(c: char) -> bool {
    !is_printable(c) || c == char::REPLACEMENT_CHARACTER
}

/// The reason, unless the text is what a spreadsheet wrote instead of the value.
fn named(reason: &'static str, text: &str) -> &'static str {
    if is_notation(text) { SPREADSHEET } else { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_only_a_phone_gets_the_defaults_and_a_date_format_applies_to_both_dates() {
        let profile_url = "https://www.linkedin.com/in/Ada-Quell-1a2b3c";
        let ada = RawRecord { profile_url, phone: "+1 415 555 0123", source: "crm", ..RawRecord::default() };
        let record = ada.read(&Networks::built_in(), None).expect("a good row");
        assert_eq!(record.profile.as_str(), "https://linkedin.com/in/ada-quell-1a2b3c");
        let phone = ContactValue::phone("+14155550123", None).expect("a number");
        assert_eq!(record.details, [Detail::new(Kind::Phone, phone, "crm")]);

        let format = DateFormat::parse("%d.%m.%Y").expect("a format");
        let rules = RowRules { dates: Some(&format), ..RowRules::default() };
        let read = RawRecord { observed_at: "01.05.2026", expires_at: "1.6.2026", ..ada }.details(&rules);
        let times = read.details.first().map(|detail| (detail.observed_at, detail.expires_at));
        assert_eq!(times, Some((Timestamp::parse("2026-05-01"), Timestamp::parse("2026-06-01"))));
        let wrong = RawRecord { observed_at: "05/13/2026", ..ada }.details(&rules);
        assert_eq!(wrong.rejected, [RecordError { column: "observedAt", reason: "invalid_date" }]);
    }
}
