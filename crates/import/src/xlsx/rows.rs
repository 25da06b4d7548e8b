//! The rows of a sheet, as texts.

use crate::FileError;
use crate::rows::{MAX_ROW_BYTES, whole};
use crate::xlsx::dates::Dates;
use crate::xlsx::strings::Strings;
use crate::xml::{Element, Piece, Xml, too_long};
use crate::zip::damaged;

/// How many columns a sheet has at most.
const MAX_COLUMNS: usize = 16_384;

/// How many rows a sheet has at most.
const MAX_ROWS: u64 = 1 << 20;

/// A row that is not blank: its number, and the cells that hold something, with their columns, in order.
pub(crate) struct SheetRow {
    pub(crate) number: u64,
    pub(crate) cells: Vec<(usize, String)>,
}

/// The rows of a sheet being read.
pub(crate) struct SheetRows {
    xml: Xml,
    strings: Strings,
    dates: Dates,
    /// The number of the last row.
    number: u64,
}

impl SheetRows {
    pub(crate) fn new(xml: Xml, strings: Strings, dates: Dates) -> Self {
        Self { xml, strings, dates, number: 0 }
    }

    /// The next row that is not blank.
    pub(crate) fn next(&mut self) -> Result<Option<SheetRow>, FileError> {
        while let Some((element, is_empty)) = self.xml.next_of(&["row"])? {
            let stated = element.attribute("r").and_then(|number| number.parse().ok());
            let number = stated.unwrap_or(self.number + 1);
            if number <= self.number || number > MAX_ROWS {
                return Err(damaged());
            }
            self.number = number;
            let cells = if is_empty { Vec::new() } else { self.cells()? };
            if !cells.is_empty() {
                return Ok(Some(SheetRow { number, cells }));
            }
        }
        Ok(None)
    }

    /// The cells of a row that has just begun.
    fn cells(&mut self) -> Result<Vec<(usize, String)>, FileError> {
        let mut cells: Vec<(usize, String)> = Vec::new();
        let (mut next, mut bytes) = (0, 0);
        loop {
            match self.xml.next()?.ok_or_else(damaged)? {
                Piece::Start(cell, is_empty) if cell.name() == "c" => {
                    let stated = cell.attribute("r");
                    let column = stated.map_or(Some(next), |place| column(&place)).ok_or_else(damaged)?;
                    if column < next || column >= MAX_COLUMNS {
                        return Err(damaged());
                    }
                    next = column + 1;
                    if is_empty {
                        continue;
                    }
                    let text = self.text(&cell)?;
                    bytes += text.len() as u64;
                    if bytes > MAX_ROW_BYTES {
                        return Err(too_long());
                    }
                    if !text.trim().is_empty() {
                        cells.push((column, text));
                    }
                }
                Piece::End(name) if name == "row" => return Ok(cells),
                Piece::Start(..) | Piece::End(_) | Piece::Text(_) => {}
            }
        }
    }

    /// The text of a cell that has just begun. Of a formula it is the value that was last computed.
    fn text(&mut self, cell: &Element) -> Result<String, FileError> {
        let (mut value, mut text) = (String::new(), None);
        loop {
            match self.xml.next()?.ok_or_else(damaged)? {
                Piece::Start(inner, false) if inner.name() == "v" => value = self.xml.text("v")?,
                Piece::Start(inner, false) if inner.name() == "is" => {
                    text = Some(self.xml.formatted_text("is")?);
                }
                Piece::End(name) if name == "c" => break,
                Piece::Start(..) | Piece::End(_) | Piece::Text(_) => {}
            }
        }
        if let Some(text) = text {
            return Ok(unescaped(&text));
        }
        let value = value.trim_matches(['\n', '\r']);
        Ok(match cell.attribute("t").as_deref() {
            Some("s") if value.is_empty() => String::new(),
            Some("s") => {
                let text = value.trim().parse().ok().and_then(|number| self.strings.get(number));
                unescaped(text.ok_or_else(damaged)?)
            }
            Some("str") => unescaped(value),
            Some("b") => if value.trim() == "1" { "TRUE" } else { "FALSE" }.to_owned(),
            // An error value such as #N/A is recognised where it is checked.
            Some("e") => value.to_owned(),
            Some("d") => match value.contains('T') && !value.ends_with('Z') {
                true => format!("{value}Z"),
                false => value.to_owned(),
            },
            _ => self.number(cell, value.trim()),
        })
    }

    /// A number as a CSV would have it, or the date that it is.
    fn number(&self, cell: &Element, value: &str) -> String {
        let Ok(number) = value.parse::<f64>() else { return value.to_owned() };
        let style = cell.attribute("s").and_then(|style| style.parse().ok()).unwrap_or(0);
        let shortest = || match number.abs() {
            // As a number with an exponent, so that no zeros are taken for digits of a phone number.
            size if size >= 1e15 || size > 0.0 && size < 1e-5 => format!("{number:e}"),
            _ => number.to_string(),
        };
        self.dates.date(style, number).or_else(|| whole(Some(number))).unwrap_or_else(shortest)
    }
}

/// The column of a place such as `AB12`, counted from 0.
fn column(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic);
    let column = letters
        .take(4)
        .fold(0, |column, letter| column * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1);
    column.checked_sub(1)
}

/// A text with its `_x000D_`, which stand for characters that XML cannot have.
fn unescaped(text: &str) -> String {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("_x") {
        let code = rest.get(at + 2..at + 6).filter(|_| rest.get(at + 6..at + 7) == Some("_"));
        let code = code.filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
        let c = code.and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        whole.push_str(&rest[..at]);
        whole.push_str(&c.map_or("_x".to_owned(), String::from));
        rest = &rest[at + if c.is_some() { 7 } else { 2 }..];
    }
    whole + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_counted_from_a() {
        for (place, number) in
            [("A1", Some(0)), ("Z9", Some(25)), ("aa10", Some(26)), ("XFD1", Some(16_383)), ("1", None)]
        {
            assert_eq!(column(place), number, "{place}");
        }
    }

    #[test]
    fn escaped_characters_are_read() {
        for (text, read) in [
            ("a_x000D__x000A_b", "a\r\nb"),
            ("_x", "_x"),
            ("my_xml_x_", "my_xml_x_"),
            ("_x005F_x0041_", "_x0041_"),
        ] {
            assert_eq!(unescaped(text), read);
        }
    }
}
