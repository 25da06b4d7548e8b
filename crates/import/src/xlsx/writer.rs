//! Writing a workbook with one sheet. Every cell is text: a spreadsheet then changes none of them, and runs none as a formula.

use std::fs::File;
use std::io::{self, Write};

use quick_xml::escape::escape;

use crate::zip_writer::ZipWriter;

/// What every workbook has besides its sheet.
const PARTS: [(&str, &str); 3] = [
    (
        "[Content_Types].xml",
        r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>"#,
    ),
    (
        "_rels/.rels",
        r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#,
    ),
    (
        "xl/_rels/workbook.xml.rels",
        r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#,
    ),
];

/// The list of sheets, before and after the name of the only one.
const LIST: [&str; 2] = [
    r#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name=""#,
    r#"" sheetId="1" r:id="rId1"/></sheets></workbook>"#,
];

/// How long a text Excel takes in a cell, and how many rows in a sheet.
const MAX_CELL: usize = 32_767;
const MAX_ROWS: u32 = 1 << 20;

/// A workbook that is being written.
pub(crate) struct SheetWriter {
    zip: ZipWriter,
    row: u32,
}

impl SheetWriter {
    pub(crate) fn begin(file: File, sheet: &str, header: &[String]) -> io::Result<Self> {
        let mut zip = ZipWriter::new(file);
        for (name, content) in PARTS {
            zip.begin(name)?;
            zip.write_all(content.as_bytes())?;
        }
        zip.begin("xl/workbook.xml")?;
        zip.write_all(LIST.join(&*escape(sheet)).as_bytes())?;
        zip.begin("xl/worksheets/sheet1.xml")?;
        zip.write_all(
            br#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>"#,
        )?;
        let mut writer = Self { zip, row: 0 };
        writer.write(header)?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, cells: &[String]) -> io::Result<()> {
        self.row += 1;
        if self.row > MAX_ROWS {
            return Err(io::Error::other("a sheet has at most 1,048,576 rows; write a .csv file instead"));
        }
        write!(self.zip, r#"<row r="{}">"#, self.row)?;
        for (column, text) in cells.iter().enumerate().filter(|(_, text)| !text.is_empty()) {
            if text.chars().count() > MAX_CELL {
                return Err(io::Error::other(
                    "a cell has at most 32,767 characters; write a .csv file instead",
                ));
            }
            let text: String = text.chars().filter(|c| is_xml(*c)).collect();
            let place = format!("{}{}", letters(column), self.row);
            let text = escape(text.as_str());
            write!(
                self.zip,
                r#"<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>"#
            )?;
        }
        self.zip.write_all(b"</row>")
    }

    pub(crate) fn finish(mut self) -> io::Result<File> {
        self.zip.write_all(b"</sheetData></worksheet>")?;
        self.zip.finish()
    }
}

/// The letters of a column, counted from 0: `A`, `Z`, `AA`.
fn letters(column: usize) -> String {
    let last = char::from(b'A' + u8::try_from(column % 26).unwrap_or_default());
    if column < 26 { last.to_string() } else { letters(column / 26 - 1) + &last.to_string() }
}

/// Whether XML can have this character.
fn is_xml(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_letters_of_a_spreadsheet() {
        let names = [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")];
        for (column, name) in names {
            assert_eq!(letters(column), name);
        }
    }
}
