//! Hostile workbooks: a small file cannot take gigabytes of memory or of the disk, and what cannot be read is refused with a reason.

use std::io::Write;
use std::process::Stdio;

use flate2::write::{DeflateEncoder, GzEncoder};
use flate2::{Compression, Crc};

use crate::fixture::ADA;
use crate::service::{Output, Site};

/// MiB that are enough for the program, what its allocator reserves, and what a workbook may take.
const MEMORY: u32 = 800;

/// A member of an archive: its name, how it begins, what is repeated, how often, and how it ends.
type Member<'a> = (&'a str, &'a str, &'a str, usize, &'a str);

/// A workbook with these members and what every workbook needs.
fn workbook(members: &[Member<'_>]) -> Vec<u8> {
    const OFFICE: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let root =
        format!(r#"<R><Relationship Id="r1" Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></R>"#);
    let book = r#"<workbook><sheets><sheet name="S" r:id="r1"/></sheets></workbook>"#;
    let parts = format!(
        r#"<R><Relationship Id="r1" Type="{OFFICE}/worksheet" Target="sheet.xml"/><Relationship Id="r2" Type="{OFFICE}/sharedStrings" Target="texts.xml"/></R>"#
    );
    let always: [Member<'_>; 3] = [
        ("_rels/.rels", &root, "", 0, ""),
        ("xl/workbook.xml", book, "", 0, ""),
        ("xl/_rels/workbook.xml.rels", &parts, "", 0, ""),
    ];
    let (mut file, mut list) = (Vec::new(), Vec::new());
    let count = u16::try_from(always.len() + members.len()).expect("few");
    for (name, start, repeated, times, end) in always.iter().chain(members) {
        let (mut packer, mut crc) = (DeflateEncoder::new(Vec::new(), Compression::fast()), Crc::new());
        for part in std::iter::once(*start).chain(std::iter::repeat_n(*repeated, *times)).chain([*end]) {
            packer.write_all(part.as_bytes()).expect("packs");
            crc.update(part.as_bytes());
        }
        let packed = packer.finish().expect("packs");
        let short = |number: usize| u16::try_from(number).expect("short").to_le_bytes();
        let long = |number: usize| u32::try_from(number).expect("short").to_le_bytes();
        // Neither header says truly how long the content is.
        let about = [
            &[20, 0, 0, 0, 8, 0, 0, 0, 0, 0][..],
            &crc.sum().to_le_bytes(),
            &long(packed.len()),
            &[1, 0, 0, 0],
            &short(name.len()),
        ]
        .concat();
        let at = long(file.len());
        file.extend([b"PK\x03\x04".as_slice(), &about, &[0, 0], name.as_bytes(), &packed].concat());
        list.extend([b"PK\x01\x02".as_slice(), &[20, 0], &about, &[0; 12], &at, name.as_bytes()].concat());
    }
    let at = u32::try_from(file.len()).expect("short").to_le_bytes();
    let length = u32::try_from(list.len()).expect("short").to_le_bytes();
    file.extend(list);
    let count = count.to_le_bytes();
    file.extend([b"PK\x05\x06".as_slice(), &[0; 4], &count, &count, &length, &at, &[0, 0]].concat());
    file
}

/// Imports a workbook with this much memory and no more.
fn import(bytes: &[u8]) -> Output {
    let site = Site::embedded();
    site.file("people.xlsx", bytes);
    let mut import = site.command_after(&format!("ulimit -v {}", MEMORY * 1024));
    import.args(["import", "people.xlsx", "--source", "crm", "--json"]);
    import.args(["--max-rejects", "100%", "--rejects", "/dev/null"]).stdin(Stdio::null());
    Output::from(import.output().expect("runs"))
}

const SHEET: &str = "<worksheet><sheetData>";
const HEADER: &str =
    r#"<row r="1"><c r="A1" t="str"><v>profileUrl</v></c><c r="B1" t="str"><v>phone</v></c></row>"#;
const END: &str = "</sheetData></worksheet>";

#[test]
fn a_workbook_that_unpacks_to_far_more_than_it_may_is_refused() {
    let too_long = "contactd: people.xlsx: it unpacks to far more than a workbook of contact records; save the sheet as CSV if it really is one\n";
    let mebibyte = "x".repeat(1 << 20);
    let start = format!("{SHEET}{HEADER}");
    let text = format!(r#"{start}<row r="2"><c r="A2" t="str"><v>"#);
    let texts = format!("<si><t>{}</t></si>", "y".repeat(30_000));
    let empty = "<si/>".repeat(100_000);
    let sheet = format!(r#"{start}<row r="2"><c r="A2" t="s"><v>0</v></c></row>"#);
    for members in [
        // One text of 64 MiB.
        vec![("xl/sheet.xml", text.as_str(), mebibyte.as_str(), 64, "</v></c></row>")],
        // Many texts, of 144 MB in all; and very many without anything.
        vec![
            ("xl/texts.xml", "<sst>", texts.as_str(), 4_800, "</sst>"),
            ("xl/sheet.xml", &sheet, "", 0, END),
        ],
        vec![("xl/texts.xml", "<sst>", empty.as_str(), 45, "</sst>"), ("xl/sheet.xml", &sheet, "", 0, END)],
    ] {
        let bytes = workbook(&members);
        assert!(bytes.len() < 8 << 20, "{}", bytes.len());
        import(&bytes).mentions(1, too_long);
    }
}

#[test]
fn elements_in_each_other_without_end_and_rows_without_order_are_damage() {
    let damaged = "contactd: people.xlsx: the file is damaged or truncated; download or save it again\n";
    let header = format!("{SHEET}{HEADER}");
    for (start, repeated, times, end) in [
        (header.as_str(), "<x>", 1_000_000, ""),
        (&header, r#"<row r="2"/>"#, 2, END),
        (&header, r#"<row r="2"><c r="B2"><v>1</v></c><c r="A2"><v>1</v></c></row>"#, 1, END),
        (&header, r#"<row r="2"><c r="AAAA2"><v>1</v></c></row>"#, 1, END),
        (&header, r#"<row r="2"><c r="A2" t="s"><v>7</v></c></row>"#, 1, END),
        (&header, r#"<row r="9999999"/>"#, 1, END),
        ("<!DOCTYPE x [<!ENTITY a \"aaaa\">]>", SHEET, 1, END),
        (&header, "&unknown;", 1, END),
        (&header, "", 0, ""),
    ] {
        import(&workbook(&[("xl/sheet.xml", start, repeated, times, end)])).says(1, damaged);
    }
}

#[test]
fn what_a_sheet_declares_takes_no_memory() {
    // A million rows with a cell at the right end of the sheet, and a size that would be 16 billion cells.
    let row =
        format!(r#"<row><c t="str"><v>{ADA}</v></c><c t="str"><v>+14155550101</v></c><c r="XFD2"/></row>"#);
    let start = format!(r#"<worksheet><dimension ref="A1:XFD1048576"/><sheetData>{HEADER}"#);
    let bytes = workbook(&[("xl/sheet.xml", &start, &row, 20_000, END)]);
    let output = import(&bytes);
    assert_eq!((output.code, &output.json()["rows"]), (0, &20_000.into()), "{output:?}");
}

#[test]
fn a_packed_workbook_takes_a_bounded_part_of_the_disk() {
    let packed = |part: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(part).expect("packs");
        packer.finish().expect("packs")
    };
    let zeros = packed(&vec![0; 1 << 20]);
    let bytes = [packed(b"PK\x03\x04"), zeros.repeat(513)].concat();
    assert!(bytes.len() < 4 << 20, "{}", bytes.len());
    let too_long = "the file in it is longer than 512 MiB; unpack it first: it is compressed inside\n";
    import(&bytes).mentions(1, too_long);
}
