//! Rows of JSON lines: one object per line, with the columns as flat fields, or with lists of details.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use contactd_core::{Detail, Networks, ReadDetails, Record, RecordError};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::ReadOptions;
use crate::columns::{self, COLUMNS, EMAIL, EMAIL_LABEL, PHONE, PHONE_LABEL, REJECTED, REJECTED_ROW};
use crate::error::{FileError, Tried};
use crate::mapping::Field;
use crate::read_row::{Fault, MoreValue, ReadRow, Texts};
use crate::rows::{BUFFER, Content, MAX_ROW_BYTES, Row, whole};
use crate::seen::Seen;

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
        let mut blank = 0;
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
            blank += text.len() as u64;
            if blank > MAX_ROW_BYTES {
                return Err(FileError::unusable(
                    "it has more than 16 MiB of blank lines in a row; is this a file of JSON lines?",
                ));
            }
        }
    }
}

/// What was read from a line. Names of unknown fields are added to `seen`.
pub(crate) fn read(text: &[u8], networks: &Networks, options: &ReadOptions, seen: &mut Seen) -> ReadRow {
    let row = match object(text) {
        Ok(row) => row,
        Err(reason) => return ReadRow::rejected(Fault::of_row(reason)),
    };
    note_fields(&row, options, seen);
    match of_rejects(row) {
        Ok(row) => read_object(&row, networks, options),
        Err(reason) => ReadRow::rejected(Fault::of_row(reason)),
    }
}

/// The object of a line; in a rejects file it may be in a text.
fn of_rejects(row: Map<String, Value>) -> Result<Map<String, Value>, &'static str> {
    match row.get(REJECTED_ROW) {
        Some(Value::String(text)) => object(text.as_bytes()),
        _ => Ok(row),
    }
}

/// The lists of details, with the columns of their values and labels.
const LISTS: [(&str, usize, usize); 2] = [("phones", PHONE, PHONE_LABEL), ("emails", EMAIL, EMAIL_LABEL)];

/// Whether a line has a list of details. What its fields mean cannot be chosen then.
pub(crate) fn is_nested(row: &Map<String, Value>) -> bool {
    LISTS.iter().any(|(list, ..)| row.contains_key(*list))
}

/// The texts of the columns in a line, as they are in the file, with the values of its lists; none if it cannot be read.
pub(crate) fn texts(line: &[u8], options: &ReadOptions) -> Vec<(&'static str, String)> {
    let Ok(row) = object(line).and_then(of_rejects) else { return Vec::new() };
    let of_field =
        |column: &'static str| row.get(options.header_of(column)?).map(|value| (column, shown(value)));
    let of_more = |(field, header): (Field, &str)| row.get(header).map(|value| (field.name(), shown(value)));
    let of_list = |(list, column, _): (&str, usize, usize)| match row
        .get(list)
        .filter(|_| !options.only_mapped)?
    {
        Value::Array(details) => {
            let values =
                details.iter().take(MOST_SHOWN).map(|detail| shown(detail.get("value").unwrap_or(detail)));
            Some((COLUMNS[column], values.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(", ")))
        }
        other => Some((COLUMNS[column], shown(other))),
    };
    let fields = COLUMNS.into_iter().filter_map(of_field).chain(options.more_values().filter_map(of_more));
    fields.chain(LISTS.into_iter().filter_map(of_list)).collect()
}

/// How many details of a list are shown.
const MOST_SHOWN: usize = 20;

/// A value for people: a text as it is, everything else as JSON.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Notes which fields a line has.
pub(crate) fn note_fields(row: &Map<String, Value>, options: &ReadOptions, seen: &mut Seen) {
    for name in row.keys().map(String::as_str) {
        let is_column = |column: &str| options.header_of(column) == Some(name);
        match name {
            "phones" if !options.only_mapped => seen.column(PHONE),
            "emails" if !options.only_mapped => seen.column(EMAIL),
            REJECTED_ROW => {}
            name if REJECTED.contains(&name) => seen.has_rejects = true,
            name => match COLUMNS.iter().position(|column| is_column(column)) {
                Some(column) => seen.column(column),
                None => match options.more_values().find(|(_, header)| *header == name) {
                    Some((field, _)) => seen.column(field.column()),
                    None => seen.not_used(name),
                },
            },
        }
    }
}

fn read_object(row: &Map<String, Value>, networks: &Networks, options: &ReadOptions) -> ReadRow {
    let texts = COLUMNS.map(|column| match options.header_of(column) {
        Some(header) => field(row, header),
        None => Ok(Cow::Borrowed("")),
    });
    let mut flat = Texts::empty();
    for (column, text) in texts.iter().enumerate() {
        flat.set(column, text.as_ref().map(AsRef::as_ref).map_err(|reason| *reason));
    }
    if options.only_mapped || !is_nested(row) {
        let more: Vec<_> =
            options.more_values().map(|(of, header)| (of, header, field(row, header))).collect();
        let more = more.iter().map(|(field, header, text)| MoreValue {
            field: *field,
            text: text.as_ref().map(AsRef::as_ref).map_err(|reason| *reason),
            name: Cow::Borrowed(header),
        });
        return flat.read(more, networks, options);
    }
    let profile = match flat.raw(options).profile(networks) {
        Ok(profile) => profile,
        Err(error) => return ReadRow::rejected(flat.fault(error)),
    };
    let mut read = ReadRow::default();
    let mut all = Vec::new();
    let mut has_detail = flat.raw(options).has_detail();
    if has_detail {
        let ReadDetails { details, rejected, has_doubtful_phone } =
            flat.raw(options).details(&options.rules());
        all = details;
        read.faults.extend(rejected.into_iter().map(|error| flat.fault(error)));
        read.has_doubtful_phone = has_doubtful_phone;
    }
    for (list, value_column, label_column) in LISTS {
        let details = match row.get(list) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(details)) if details.len() > MAX_DETAILS_OF_ROW => {
                return ReadRow::rejected(RecordError { column: list, reason: "too_many_details" });
            }
            Some(Value::Array(details)) => details,
            Some(_) => {
                has_detail = true;
                read.faults.push(RecordError { column: list, reason: "not_list" }.into());
                continue;
            }
        };
        for (at, detail) in details.iter().enumerate().filter(|(_, detail)| !is_blank(detail)) {
            has_detail = true;
            let place = Place { list, at, value_column, label_column };
            place.read(detail, &flat, options, &mut all, &mut read);
        }
    }
    if !has_detail {
        return ReadRow::rejected(RecordError::NO_DETAIL);
    }
    read.record = (!all.is_empty()).then_some(Record { profile, details: all });
    read
}

/// The maximum length of a list of details.
const MAX_DETAILS_OF_ROW: usize = 1_000;

/// The place of a detail in a list.
#[derive(Clone, Copy)]
struct Place {
    list: &'static str,
    at: usize,
    value_column: usize,
    label_column: usize,
}

impl Place {
    /// The name that a column has in a detail of a list.
    fn field_of(self, column: usize) -> Option<&'static str> {
        match column {
            column if column == self.value_column => Some("value"),
            column if column == self.label_column => Some("label"),
            0 | PHONE | EMAIL | PHONE_LABEL | EMAIL_LABEL => None,
            column => Some(COLUMNS[column]),
        }
    }

    /// Reads a detail. What it does not state itself is taken from its line.
    fn read(
        self,
        detail: &Value,
        line: &Texts<'_>,
        options: &ReadOptions,
        details: &mut Vec<Detail>,
        row: &mut ReadRow,
    ) {
        let fault = |reason| Fault { column: Cow::Owned(format!("{}[{}]", self.list, self.at)), reason };
        let own: [Result<Cow<'_, str>, &'static str>; COLUMNS.len()] = match detail {
            Value::Object(object) => std::array::from_fn(|column| match self.field_of(column) {
                Some(name) => field(object, name),
                None => Ok(Cow::Borrowed("")),
            }),
            Value::String(value) => std::array::from_fn(|column| {
                Ok(Cow::Borrowed(if column == self.value_column { value.as_str() } else { "" }))
            }),
            _ => return row.faults.push(fault("not_object")),
        };
        let is_stated = |column: usize| own[column].as_ref().map_or(true, |text| !text.trim().is_empty());
        if !is_stated(self.value_column) {
            return row.faults.push(fault("missing"));
        }
        let mut texts = *line;
        texts.set(PHONE, Ok(""));
        texts.set(EMAIL, Ok(""));
        for column in (0..COLUMNS.len()).filter(|&column| is_stated(column)) {
            texts.set(column, own[column].as_ref().map(AsRef::as_ref).map_err(|reason| *reason));
        }
        let read = texts.raw(options).details(&options.rules());
        details.extend(read.details);
        row.has_doubtful_phone |= read.has_doubtful_phone;
        for error in read.rejected {
            let Fault { column, reason } = texts.fault(error);
            let position = columns::position(error.column).filter(|&column| is_stated(column));
            match position.and_then(|column| self.field_of(column)) {
                Some("value") => row.faults.push(fault(reason)),
                Some(name) => {
                    let column = Cow::Owned(format!("{}[{}].{name}", self.list, self.at));
                    row.faults.push(Fault { column, reason });
                }
                // A field of the line is reported once, however many details it rejects.
                None => {
                    let of_line = Fault { column, reason };
                    if !row.faults.contains(&of_line) {
                        row.faults.push(of_line);
                    }
                }
            }
        }
    }
}

/// Whether an element of a list is empty.
fn is_blank(detail: &Value) -> bool {
    detail.is_null() || detail.as_str().is_some_and(|text| text.trim().is_empty())
}

/// A line as an object. Duplicate names are an error, because it is unclear which value is right.
pub(crate) fn object(text: &[u8]) -> Result<Map<String, Value>, &'static str> {
    let has_duplicate = Cell::new(false);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let parsed = Strict { has_duplicate: &has_duplicate }.deserialize(&mut deserializer);
    match parsed.and_then(|value| deserializer.end().map(|()| value)) {
        _ if has_duplicate.get() => Err("duplicate_field"),
        Ok(Value::Object(row)) => Ok(row),
        Ok(_) => Err("not_object"),
        Err(_) if std::str::from_utf8(text).is_err() => Err("not_utf8"),
        Err(_) => Err("not_json"),
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

/// A field as the text that it would be in a CSV, or the reason why it is none.
fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Result<Cow<'a, str>, &'static str> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(Cow::Borrowed("")),
        Some(Value::String(text)) => Ok(Cow::Borrowed(text)),
        Some(Value::Number(number)) => Ok(Cow::Owned(whole(number.as_f64()).unwrap_or(number.to_string()))),
        Some(_) => Err("not_text"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const URL: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";

    /// The value, label, confidence and source of each detail, and each fault.
    fn read(line: &[u8]) -> (Value, Value) {
        let options = ReadOptions { source: Some("crm".to_owned()), ..ReadOptions::default() };
        let read = super::read(line, &Networks::built_in(), &options, &mut Seen::default());
        let detail =
            |detail: &Detail| json!([detail.value.expose(), detail.label, detail.confidence, detail.source]);
        let details = read.record.iter().flat_map(|record| &record.details).map(detail).collect();
        let fault = |fault: &Fault| json!([fault.column, fault.reason]);
        (Value::Array(details), read.faults.iter().map(fault).collect())
    }

    /// A line of the file has a JSON line, what is read from it, and its faults.
    #[test]
    fn flat_and_nested_rows_are_read_and_every_fault_names_its_place() {
        for line in include_str!("json_rows.txt").lines() {
            let mut columns = line.split(" | ");
            let row = columns.next().expect("a row").replace("URL", URL);
            let expected = columns.map(|json| serde_json::from_str::<Value>(json).expect("JSON"));
            let (details, faults) = read(row.as_bytes());
            assert_eq!(vec![details, faults], expected.collect::<Vec<_>>(), "{line}");
        }
        assert_eq!(read(b"{\"phone\":\"\xE9\"}"), (json!([]), json!([["row", "not_utf8"]])));
        let many = vec![r#""ada@example.com""#; MAX_DETAILS_OF_ROW + 1].join(",");
        let line = format!(r#"{{"profileUrl":"{URL}","emails":[{many}]}}"#);
        assert_eq!(read(line.as_bytes()), (json!([]), json!([["emails", "too_many_details"]])));
    }

    #[test]
    fn unknown_fields_are_noted_and_those_of_a_rejects_file_are_not() {
        let mut seen = Seen::default();
        let line = format!(
            r#"{{"rejectedLine":2,"rejectedColumn":"row","rejectedReason":"x","profile":"{URL}","phones":[]}}"#
        );
        super::read(line.as_bytes(), &Networks::built_in(), &ReadOptions::default(), &mut seen);
        let mut about = crate::InputRead::default();
        seen.report(&mut about);
        assert!(about.holds_rejects);
        assert_eq!(about.columns_not_used, ["profile"]);
        assert_eq!(about.suggested_mapping, [("profileUrl", "profile".to_owned())]);
    }
}
