//! How the rows of a file are read, as a caller writes it.

use std::collections::BTreeMap;

use contactd_core::{DateFormat, is_phone_region};
use contactd_services::{Encoding, ReadOptions, parse_source};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::refusal::Refusal;

/// One column, or several of them.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Headers {
    One(String),
    Several(Vec<String>),
}

/// Which column each field is.
pub(crate) type Mapping = BTreeMap<String, Headers>;

/// What a caller says about a file.
#[derive(Default)]
pub(crate) struct Reading<'a> {
    pub(crate) mapping: Mapping,
    pub(crate) source: Option<&'a str>,
    pub(crate) region: Option<&'a str>,
    pub(crate) date_format: Option<&'a str>,
    pub(crate) needs_basis: bool,
    pub(crate) encoding: Option<&'a str>,
    pub(crate) sheet: Option<&'a str>,
}

impl Reading<'_> {
    /// How the rows are read.
    pub(crate) fn options(self) -> Result<ReadOptions, Refusal> {
        let source =
            given(self.source).map(parse_source).transpose().map_err(|error| wrong("source", &error))?;
        let region = given(self.region).map(str::to_owned);
        if region.as_deref().is_some_and(|region| !is_phone_region(region)) {
            return Err(Refusal::invalid(
                "The region is not a country: write two letters, such as US or DE.",
            ));
        }
        let date_format = given(self.date_format).map(DateFormat::parse).transpose();
        let date_format = date_format.map_err(|error| wrong("dateFormat", &error))?;
        let encoding = given(self.encoding).map(Encoding::named);
        if encoding == Some(None) {
            return Err(Refusal::invalid(
                "There is no such encoding: write a name such as utf-8 or windows-1252.",
            ));
        }
        Ok(ReadOptions {
            source,
            region,
            only_mapped: !self.mapping.is_empty(),
            mapping: flat(self.mapping),
            delimiter: None,
            date_format,
            needs_basis: self.needs_basis,
            encoding: encoding.flatten(),
            sheet: given(self.sheet).map(str::to_owned),
        })
    }
}

/// Each field with each of its columns.
fn flat(mapping: Mapping) -> Vec<(String, String)> {
    let columns = mapping.into_iter().flat_map(|(field, headers)| {
        let headers = match headers {
            Headers::One(header) => vec![header],
            Headers::Several(headers) => headers,
        };
        headers.into_iter().map(move |header| (field.clone(), header))
    });
    columns.collect()
}

/// A text, unless it is empty.
pub(crate) fn given(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

/// Why a field of the caller cannot be used.
pub(crate) fn wrong(field: &str, error: &impl ToString) -> Refusal {
    Refusal::invalid(format!(
        "The field {field} cannot be used: {}.",
        error.to_string().trim_end_matches('.')
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_offers_every_country_that_numbers_can_have() {
        let script = include_str!("../../assets/console/countries.js");
        let list = script.split('`').nth(1).expect("a list");
        let offered: Vec<&str> = list.split_whitespace().collect();
        let letters = || 'A'..='Z';
        let all = letters().flat_map(|first| letters().map(move |second| format!("{first}{second}")));
        let known: Vec<String> = all.filter(|code| is_phone_region(code)).collect();
        assert_eq!(offered, known);
    }

    #[test]
    fn a_field_may_have_several_columns() {
        let mapping = r#"{"phone": "Mobile", "phone:work": ["Office", "Front desk"]}"#;
        let mapping: Mapping = serde_json::from_str(mapping).expect("a mapping");
        let flat = flat(mapping);
        let flat: Vec<_> = flat.iter().map(|(field, header)| (field.as_str(), header.as_str())).collect();
        assert_eq!(flat, [("phone", "Mobile"), ("phone:work", "Office"), ("phone:work", "Front desk")]);
    }
}
