//! Contact details, whom they belong to, and who opted out.

mod csv_cell;
mod date_format;
mod detail;
mod email;
mod phone;
mod record;
mod slug_parts;
mod spreadsheet;
mod subject_name;
pub(crate) mod suppression;

pub use csv_cell::{csv_cell, csv_row, unmarked};
pub use date_format::{DateFormat, DateFormatError};
pub use detail::{ContactValue, Detail, Kind, Label};
pub use email::EmailError;
pub use phone::{PhoneError, is_phone_of, is_phone_region, phone_country};
pub use record::{COLUMNS, RawRecord, ReadDetails, Record, RecordError, RowRules};
pub use slug_parts::SlugParts;
pub use subject_name::{SubjectName, SubjectNameError, subject_lines};
pub use suppression::{
    CurrentSuppressions, DigestKey, DigestKeys, Subject, SubjectCheck, SubjectDigest, SuppressionList,
    UnknownKey,
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Networks, Timestamp};

    /// A line has a rule, a text as JSON or the columns of a row, and what the rule makes of it.
    #[test]
    fn texts_are_read_as_the_table_says() {
        for line in include_str!("people/values.txt").lines() {
            let mut columns = line.splitn(3, " | ");
            let mut next = || columns.next().expect("three columns");
            let (rule, text, expected) = (next(), next(), next());
            let (rule, with) = rule.split_once(' ').unwrap_or((rule, ""));
            let read = match rule {
                "row" => read_row(with == "needs basis", &serde_json::from_str(text).expect("columns")),
                _ => read(rule, with, &serde_json::from_str::<String>(text).expect("a text")),
            };
            assert_eq!(read, expected, "{line}");
        }
    }

    fn read(rule: &str, with: &str, text: &str) -> String {
        let answer = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
        match rule {
            "phone" => match phone::read(text, Some(with).filter(|region| !region.is_empty())) {
                Ok((number, is_doubtful)) => number + if is_doubtful { " (doubtful)" } else { "" },
                Err(error) => error.code().to_owned(),
            },
            "email" => email::normalize(text).unwrap_or_else(|error| error.code().to_owned()),
            "format" => DateFormat::parse(text).map_or_else(|error| format!("{error:?}"), |_| String::new()),
            "date" => {
                let read = DateFormat::parse(with).expect("a format").read(text);
                read.map_or_else(|| "-".to_owned(), |time| time.to_string())
            }
            "time" => Timestamp::parse(text).map_or_else(|| "-".to_owned(), |time| time.to_string()),
            "ambiguous" => answer(date_format::is_ambiguous_date(text)),
            "notation" => answer(spreadsheet::is_notation(text)),
            "cell" => serde_json::to_string(&csv_cell(text)).expect("JSON"),
            _ => match SubjectName::recognize(text, &Networks::built_in()) {
                Ok(SubjectName::Person(_)) => "person",
                Ok(SubjectName::Value(kind, _)) => kind.name(),
                Err(SubjectNameError::Nobody) => "nobody",
                Err(SubjectNameError::Profile(_)) => "bad profile",
                Err(SubjectNameError::Phone(_)) => "bad phone",
                Err(SubjectNameError::Email(_)) => "bad email",
            }
            .to_owned(),
        }
    }

    /// The values that are accepted, then each fault.
    fn read_row(needs_basis: bool, columns: &BTreeMap<String, String>) -> String {
        let text = |name: &str, other: &'static str| columns.get(name).map_or(other, String::as_str);
        let row = RawRecord {
            profile_url: text("profileUrl", "https://linkedin.com/in/ada-quell"),
            phone: text("phone", "+14155550123"),
            email: text("email", ""),
            phone_label: text("phoneLabel", ""),
            confidence: text("confidence", ""),
            observed_at: text("observedAt", ""),
            basis: text("basis", ""),
            expires_at: text("expiresAt", ""),
            region: text("region", ""),
            source: text("source", "crm"),
            ..RawRecord::default()
        };
        let read = row.details(&RowRules { needs_basis, ..RowRules::default() });
        let whole = if row.has_detail() { None } else { Some(RecordError::NO_DETAIL) };
        let whole = row.profile(&Networks::built_in()).err().or(whole);
        let values = read.details.iter().map(|detail| detail.value.expose().to_owned());
        let fault = |error: &RecordError| format!("{} {}", error.column, error.reason);
        match whole {
            Some(error) => fault(&error),
            None => values.chain(read.rejected.iter().map(fault)).collect::<Vec<_>>().join(", "),
        }
    }
}
