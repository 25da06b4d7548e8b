//! Rows of JSON lines: one object per line, with the columns as flat fields, or with lists of details.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use contactd_core::{Networks, Record, RecordError};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::COLUMNS;
use crate::error::{FileError, Tried};
use crate::rows::{BUFFER, Content, Defaults, MAX_ROW_BYTES, Row, raw, whole};

/// A file being read.
pub(crate) struct JsonRows {
    reader: BufReader<Box<dyn Read>>,
    line: u64,
}

impl JsonRows {
    pub(crate) fn read(input: Box<dyn Read>) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, input), line: 0 }
    }

    /// The next line that is not blank; none at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        loop {
            let mut text = Vec::new();
            let limit = MAX_ROW_BYTES + 1;
            let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut text);
            if read.tried("the file cannot be read further")? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if text.len() as u64 >= limit {
                let what = format!("line {} is longer than 16 MiB; is this a file of JSON lines?", self.line);
                return Err(FileError::unusable(what));
            }
            let without_mark = text.strip_prefix(b"\xEF\xBB\xBF").filter(|_| self.line == 1);
            let content = without_mark.unwrap_or(&text).trim_ascii();
            if !content.is_empty() {
                return Ok(Some(Row { line: self.line, content: Content::Json(content.to_vec()) }));
            }
        }
    }
}

/// The profile and details of a line.
pub(crate) fn record(text: &[u8], networks: &Networks, defaults: &Defaults) -> Result<Record, RecordError> {
    let row = object(text)?;
    let mut texts: [Cow<'_, str>; COLUMNS.len()] = Default::default();
    for (text, column) in texts.iter_mut().zip(COLUMNS) {
        *text = field(&row, defaults.mapped(column).unwrap_or(column), column)?;
    }
    let flat = || texts.each_ref().map(AsRef::as_ref);
    let mut record: Option<Record> = None;
    if !texts[PHONE].is_empty() || !texts[EMAIL].is_empty() {
        record = Some(raw(flat(), defaults).read(networks, defaults.region.as_deref())?);
    }
    for (list, value_column, label_column) in [("phones", PHONE, PHONE_LABEL), ("emails", EMAIL, EMAIL_LABEL)]
    {
        for detail in details(&row, list)?.iter().filter(|detail| !is_blank(detail)) {
            let mut nested = flat();
            (nested[PHONE], nested[EMAIL]) = ("", "");
            let own = Nested::read(detail, list)?;
            nested[value_column] = &own.value;
            for (column, text) in [(label_column, &own.label), (SOURCE, &own.source), (REGION, &own.region)]
                .into_iter()
                .chain((CONFIDENCE..=EXPIRES_AT).zip(&own.rest))
            {
                if !text.trim().is_empty() {
                    nested[column] = text;
                }
            }
            let read = raw(nested, defaults).read(networks, defaults.region.as_deref())?;
            match &mut record {
                Some(record) => record.details.extend(read.details),
                None => record = Some(read),
            }
        }
    }
    match record {
        Some(record) => Ok(record),
        // No details: this reports an invalid profile URL, or else the missing details.
        None => raw(flat(), defaults).read(networks, defaults.region.as_deref()),
    }
}

const PHONE: usize = 1;
const EMAIL: usize = 2;
const PHONE_LABEL: usize = 3;
const EMAIL_LABEL: usize = 4;
const CONFIDENCE: usize = 5;
const EXPIRES_AT: usize = 8;
const REGION: usize = 9;
const SOURCE: usize = 10;

/// The maximum length of a list of details.
const MAX_DETAILS_OF_ROW: usize = 1_000;

/// One detail of a list.
struct Nested<'a> {
    value: Cow<'a, str>,
    label: Cow<'a, str>,
    source: Cow<'a, str>,
    region: Cow<'a, str>,
    /// The columns from confidence to expiry.
    rest: [Cow<'a, str>; 4],
}

impl<'a> Nested<'a> {
    fn read(detail: &'a Value, list: &'static str) -> Result<Self, RecordError> {
        let object = match detail {
            Value::Object(object) => object,
            Value::String(value) => {
                return Ok(Self {
                    value: value.into(),
                    label: "".into(),
                    source: "".into(),
                    region: "".into(),
                    rest: Default::default(),
                });
            }
            _ => return Err(RecordError { column: list, reason: "not_object" }),
        };
        let value = field(object, "value", list)?;
        if value.trim().is_empty() {
            return Err(RecordError { column: list, reason: "missing" });
        }
        Ok(Self {
            value,
            label: field(object, "label", list)?,
            source: field(object, "source", list)?,
            region: field(object, "region", list)?,
            rest: [
                field(object, "confidence", list)?,
                field(object, "observedAt", list)?,
                field(object, "basis", list)?,
                field(object, "expiresAt", list)?,
            ],
        })
    }
}

fn details<'a>(row: &'a Map<String, Value>, list: &'static str) -> Result<&'a [Value], RecordError> {
    match row.get(list) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(details)) if details.len() > MAX_DETAILS_OF_ROW => {
            Err(RecordError { column: list, reason: "too_many_details" })
        }
        Some(Value::Array(details)) => Ok(details),
        Some(_) => Err(RecordError { column: list, reason: "not_list" }),
    }
}

/// Whether an element of a list is empty.
fn is_blank(detail: &Value) -> bool {
    detail.is_null() || detail.as_str().is_some_and(|text| text.trim().is_empty())
}

/// A line as an object. Duplicate names are an error, because it is unclear which value is right.
fn object(text: &[u8]) -> Result<Map<String, Value>, RecordError> {
    let fault = |reason| RecordError { column: "row", reason };
    let has_duplicate = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let parsed = Strict { has_duplicate: &has_duplicate }.deserialize(&mut deserializer);
    match parsed.and_then(|value| deserializer.end().map(|()| value)) {
        _ if has_duplicate.get() => Err(fault("duplicate_field")),
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err(fault("not_object")),
        Err(_) => Err(fault("not_json")),
    }
}

/// Reads a JSON value; fails and sets `has_duplicate` if an object has a duplicate name.
#[derive(Clone, Copy)]
struct Strict<'a> {
    has_duplicate: &'a Cell<bool>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = access.next_element_seed(self)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            if fields.insert(name, access.next_value_seed(self)?).is_some() {
                self.has_duplicate.set(true);
                return Err(A::Error::custom("a field is given twice"));
            }
        }
        Ok(Value::Object(fields))
    }
}

/// A field as the text that it would be in a CSV.
fn field<'a>(
    object: &'a Map<String, Value>,
    name: &str,
    column: &'static str,
) -> Result<Cow<'a, str>, RecordError> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(Cow::Borrowed("")),
        Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Some(Value::Number(number)) => Ok(Cow::Owned(whole(number.as_f64()).unwrap_or(number.to_string()))),
        Some(_) => Err(RecordError { column, reason: "not_text" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";

    fn read(json: &str) -> Result<Vec<(String, String, u8, String)>, RecordError> {
        let defaults = Defaults { source: Some("crm".to_owned()), ..Defaults::default() };
        let record = record(json.replace("URL", URL).as_bytes(), &Networks::built_in(), &defaults)?;
        Ok(record
            .details
            .into_iter()
            .map(|detail| {
                (
                    detail.value.expose().to_owned(),
                    detail.label.name().to_owned(),
                    detail.confidence,
                    detail.source,
                )
            })
            .collect())
    }

    #[test]
    fn flat_and_nested_rows_are_read() {
        let phone = |value: &str, label: &str, confidence, source: &str| {
            (value.to_owned(), label.to_owned(), confidence, source.to_owned())
        };
        assert_eq!(
            read(r#"{"profileUrl":"URL","phone":"+14155550123","confidence":90}"#),
            Ok(vec![phone("+14155550123", "personal", 90, "crm")])
        );
        assert_eq!(
            read(
                r#"{"profileUrl":"URL","confidence":"70","phones":[{"value":"+14155550123","label":"work"},"+14155550124"],
                    "emails":["",null,{"value":"ada@example.com","confidence":20.0,"source":"hr"}],"more":[1]}"#
            ),
            Ok(vec![
                phone("+14155550123", "work", 70, "crm"),
                phone("+14155550124", "personal", 70, "crm"),
                phone("ada@example.com", "personal", 20, "hr"),
            ])
        );
    }

    #[test]
    fn blank_fields_of_a_detail_are_taken_from_its_line() {
        let line = r#"{"profileUrl":"URL","phoneLabel":"work","source":"row","confidence":10,
            "phones":[{"value":"+14155550101","label":" ","confidence":" ","source":"\u00a0"}]}"#;
        assert_eq!(
            read(line),
            Ok(vec![("+14155550101".to_owned(), "work".to_owned(), 10, "row".to_owned())])
        );
    }

    #[test]
    fn a_line_with_too_many_details_is_rejected() {
        let many = vec![r#""ada@example.com""#; MAX_DETAILS_OF_ROW + 1].join(",");
        let line = format!(r#"{{"profileUrl":"URL","emails":[{many}]}}"#);
        assert_eq!(read(&line), Err(RecordError { column: "emails", reason: "too_many_details" }));
    }

    #[test]
    fn a_bad_line_names_its_field_and_reason() {
        for (json, column, reason) in [
            ("{", "row", "not_json"),
            ("[1]", "row", "not_object"),
            (r#"{"profileUrl":"URL","phone":"+14155550123","profileUrl":"URL"}"#, "row", "duplicate_field"),
            (
                r#"{"profileUrl":"URL","phones":[{"value":"+14155550123","value":"+14155550124"}]}"#,
                "row",
                "duplicate_field",
            ),
            (r#"{"profileUrl":"URL","phone":14155550123.5,"region":"US"}"#, "phone", "invalid_phone"),
            (r#"{"profileUrl":"URL"}"#, "phone", "no_detail"),
            (r#"{"phone":"+14155550123"}"#, "profileUrl", "missing"),
            (r#"{"profileUrl":["URL"],"phone":"+14155550123"}"#, "profileUrl", "not_text"),
            (r#"{"profileUrl":"URL","phones":{}}"#, "phones", "not_list"),
            (r#"{"profileUrl":"URL","phones":[7]}"#, "phones", "not_object"),
            (r#"{"profileUrl":"URL","phones":[{"label":"work"}]}"#, "phones", "missing"),
            (r#"{"profileUrl":"URL","emails":[{"value":"ada"}]}"#, "email", "invalid_email"),
        ] {
            assert_eq!(read(json), Err(RecordError { column, reason }), "{json}");
        }
    }
}
