//! What a workbook holds: its sheets, its texts and which cells are dates.

use std::fs::File;
use std::io::Read;

use crate::xlsx::dates::Dates;
use crate::xlsx::rows::SheetRows;
use crate::xlsx::strings::Strings;
use crate::xml::Xml;
use crate::zip::{Zip, damaged};
use crate::{FileError, ReadOptions};

/// How many bytes the list of sheets, and what belongs to it, may have.
const MAX_LIST: u64 = 16 << 20;

/// How many bytes a sheet may have: a full one of a million rows has 1 or 2 GiB.
const MAX_SHEET: u64 = 8 << 30;

/// A workbook. No cell is read yet.
pub(crate) struct Workbook {
    zip: Zip,
    sheets: Vec<Sheet>,
    strings: Option<String>,
    styles: Option<String>,
    counts_from_1904: bool,
}

struct Sheet {
    name: String,
    path: String,
    is_hidden: bool,
}

/// A file that starts like this cannot be read, and why.
pub(crate) fn refused(start: &[u8]) -> Option<FileError> {
    // What Excel wrote before 2007, and around an encrypted workbook.
    start.starts_with(b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1").then(|| {
        FileError::unusable(
            "it is a workbook with a password, or an old .xls file; save it as .xlsx without a password",
        )
    })
}

impl Workbook {
    /// Reads the list of sheets.
    pub(crate) fn open(file: File) -> Result<Self, FileError> {
        let zip = Zip::open(file)?;
        refuse_others(&zip)?;
        let main = main_part(&zip)?;
        let targets = relations(&zip, &relations_of(&main))?;
        let mut xml = part(&zip, &main)?.ok_or_else(not_a_workbook)?;
        let (mut sheets, mut counts_from_1904, mut has_others) = (Vec::new(), false, false);
        while let Some((element, _)) = xml.next_of(&["sheet", "workbookPr"])? {
            if element.name() == "workbookPr" {
                counts_from_1904 = element.attribute("date1904").is_some_and(|is| is == "1" || is == "true");
                continue;
            }
            let id = element.attribute("id").unwrap_or_default();
            let target = targets.iter().find(|relation| relation.id == id).ok_or_else(damaged)?;
            let is_hidden = element.attribute("state").is_some_and(|state| state != "visible");
            let name = element.attribute("name").unwrap_or_default();
            match target.kind == "worksheet" {
                true => sheets.push(Sheet { name, path: within(&main, &target.target), is_hidden }),
                // A sheet of charts has no rows.
                false => has_others = true,
            }
        }
        match sheets.is_empty() {
            true if has_others => return Err(FileError::unusable("the workbook has no sheet with rows")),
            true => return Err(not_a_workbook()),
            false => {}
        }
        let of_kind = |kind| targets.iter().find(|relation| relation.kind == kind);
        let [strings, styles] = ["sharedStrings", "styles"]
            .map(|kind| of_kind(kind).map(|relation| within(&main, &relation.target)));
        Ok(Self { zip, sheets, strings, styles, counts_from_1904 })
    }

    /// The names of its sheets, in order.
    pub(crate) fn sheets(&self) -> Vec<String> {
        self.sheets.iter().map(|sheet| sheet.name.clone()).collect()
    }

    /// The name and the rows of the chosen sheet, or of the first one that people see. No more than `most` bytes of it are read.
    pub(crate) fn rows(
        &self,
        options: &ReadOptions,
        most: Option<u64>,
    ) -> Result<(String, SheetRows), FileError> {
        let found = match options.sheet.as_deref() {
            None => self.sheets.iter().find(|sheet| !sheet.is_hidden).or(self.sheets.first()),
            Some(name) => self.sheets.iter().find(|sheet| sheet.name.trim() == name.trim()),
        };
        let sheet = found.ok_or_else(|| FileError::NoSheet { found: self.sheets() })?;
        let content = self.zip.read(&sheet.path)?.ok_or_else(damaged)?;
        let sheet_part = Xml::read(content, most.unwrap_or(MAX_SHEET));
        let content = |name: &Option<String>| name.as_ref().map_or(Ok(None), |name| self.zip.read(name));
        let strings = Strings::read(content(&self.strings)?)?;
        let dates =
            Dates::read(content(&self.styles)?, self.counts_from_1904, options.date_format.is_some())?;
        Ok((sheet.name.clone(), SheetRows::new(sheet_part, strings, dates)))
    }
}

fn not_a_workbook() -> FileError {
    FileError::unusable(
        "the file is an archive, and no .xlsx workbook; unpack it, or save it as .xlsx or CSV",
    )
}

/// Refuses what is not a plain workbook, and says what it is.
fn refuse_others(zip: &Zip) -> Result<(), FileError> {
    for name in zip.names() {
        let name = name.to_ascii_lowercase();
        if name.ends_with("vbaproject.bin") || name.starts_with("xl/macrosheets/") {
            return Err(FileError::unusable("the workbook has macros; save it as .xlsx without macros"));
        }
        if name == "xl/workbook.bin" {
            return Err(FileError::unusable("it is a binary workbook (.xlsb); save it as .xlsx"));
        }
        if name == "content.xml" {
            return Err(FileError::unusable("it is an OpenDocument file; save it as .xlsx or CSV"));
        }
    }
    Ok(())
}

/// One part of the workbook refers to another.
struct Relation {
    id: String,
    /// The last word of its type.
    kind: String,
    target: String,
}

fn part(zip: &Zip, name: &str) -> Result<Option<Xml>, FileError> {
    let content: Option<Box<dyn Read>> = zip.read(name)?;
    Ok(content.map(|content| Xml::read(content, MAX_LIST)))
}

fn relations(zip: &Zip, name: &str) -> Result<Vec<Relation>, FileError> {
    let mut relations = Vec::new();
    let Some(mut xml) = part(zip, name)? else { return Ok(relations) };
    while let Some((element, _)) = xml.next_of(&["Relationship"])? {
        let [id, kind, target] =
            ["Id", "Type", "Target"].map(|name| element.attribute(name).unwrap_or_default());
        let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
        relations.push(Relation { id, kind, target });
    }
    Ok(relations)
}

/// The part that lists the sheets.
fn main_part(zip: &Zip) -> Result<String, FileError> {
    let relations = relations(zip, "_rels/.rels")?;
    let main = relations.into_iter().find(|relation| relation.kind == "officeDocument");
    let is_workbook = || zip.names().any(|name| name.eq_ignore_ascii_case("xl/workbook.xml"));
    match main {
        Some(relation) => Ok(within("", &relation.target)),
        None => Err(if is_workbook() { damaged() } else { not_a_workbook() }),
    }
}

/// The name of the part that holds the relations of a part.
fn relations_of(part: &str) -> String {
    let (_, name) = part.rsplit_once('/').unwrap_or(("", part));
    within(part, &format!("_rels/{name}.rels"))
}

/// The name of a part that another part calls so.
fn within(part: &str, target: &str) -> String {
    let dir = part.rsplit_once('/').map_or("", |(dir, _)| dir);
    let mut names: Vec<&str> = if target.starts_with('/') { Vec::new() } else { dir.split('/').collect() };
    for name in target.split('/') {
        match name {
            ".." => drop(names.pop()),
            "." => {}
            name => names.push(name),
        }
    }
    names.retain(|name| !name.is_empty());
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_however_another_one_names_it() {
        for target in
            ["worksheets/a.xml", "/xl/worksheets/a.xml", "./worksheets/a.xml", "../xl/worksheets/a.xml"]
        {
            assert_eq!(within("xl/workbook.xml", target), "xl/worksheets/a.xml", "{target}");
        }
        assert_eq!(within("", "/xl/workbook.xml"), "xl/workbook.xml");
        assert_eq!(within("a.xml", "../../b.xml"), "b.xml");
        assert_eq!(relations_of("xl/workbook.xml"), "xl/_rels/workbook.xml.rels");
    }
}
