//! What an uploaded file holds, and what an import would do with its first rows.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use contactd_core::{
    Cancel, ContactValue, DateFormat, DigestKey, DigestKeys, DiskBudget, Kind, Networks, Subject,
    SuppressionList, unobserved,
};
use contactd_import::{Encoding, UploadedFiles};
use contactd_import::{FileError, FileShape, PreviewedRow, ReadOptions, ReadRows, RowChecks, UploadedFile};
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use serde_json::{Value, json};
use tempfile::TempDir;

const MESSY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy");

/// Who has opted out, and a directory with uploads.
struct Desk {
    dir: TempDir,
    keys: DigestKeys,
    suppressions: SuppressionList,
}

impl Desk {
    fn new() -> Self {
        let keys = DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key");
        let suppressions = SuppressionList::new(keys.clone());
        Self { dir: tempfile::tempdir().expect("a directory"), keys, suppressions }
    }

    /// Nobody and nothing else has opted out.
    fn opted_out(self, urls: &[&str], phones: &[&str]) -> Self {
        let networks = Networks::built_in();
        let profiles = urls.iter().map(|url| networks.canonicalize(url).expect("a profile"));
        let profiles: Vec<_> = profiles.collect();
        let phones = phones.iter().map(|phone| ContactValue::phone(phone, None).expect("a number"));
        let phones: Vec<_> = phones.collect();
        let subjects = profiles.iter().map(Subject::Profile);
        let subjects = subjects.chain(phones.iter().map(|phone| Subject::Value(Kind::Phone, phone)));
        let digests = subjects.map(|subject| self.keys.digest(subject).expect("a key"));
        self.suppressions.replace(digests).expect("known keys");
        self
    }

    fn files(&self) -> UploadedFiles {
        UploadedFiles::new(DiskBudget::new(self.dir.path().to_owned()))
    }

    /// A file that is stored under a name that says nothing.
    fn upload(&self, name: &str, bytes: impl AsRef<[u8]>) -> UploadedFile {
        let path = self.dir.path().join("upload-7");
        std::fs::write(&path, bytes).expect("writes");
        UploadedFile { path, name: name.to_owned() }
    }

    fn with_checks<T>(&self, run: impl FnOnce(&RowChecks<'_>) -> T) -> T {
        let networks = Networks::built_in();
        run(&RowChecks { networks: &networks, suppressions: &self.suppressions, sort_key: &|_| 0 })
    }

    fn describe(&self, file: &UploadedFile) -> Result<FileShape, FileError> {
        self.files().describe(file, &ReadOptions::default())
    }

    fn preview(&self, file: &UploadedFile, options: &ReadOptions) -> Result<Vec<PreviewedRow>, FileError> {
        let preview = self.with_checks(|checks| self.files().preview(file, options, checks, 20));
        preview.map(|preview| preview.rows)
    }

    /// Reads all rows, as an import does.
    fn read(
        &self,
        file: &UploadedFile,
        options: &ReadOptions,
        rejects: Option<&Path>,
    ) -> Result<ReadRows, FileError> {
        let mut source = self.files().open(file, options, rejects)?;
        self.with_checks(|checks| source.read(checks, &unobserved, &Cancel::default()))
    }

    /// The message of a file that is refused, described or not.
    fn refusal(&self, file: &UploadedFile, options: &ReadOptions) -> String {
        let error = self.preview(file, options).expect_err("refused").to_string();
        assert_eq!(self.describe(file).expect_err("refused").to_string(), error);
        error
    }
}

fn messy(name: &str) -> UploadedFile {
    UploadedFile { path: Path::new(MESSY).join(name), name: name.to_owned() }
}

fn from_crm() -> ReadOptions {
    ReadOptions { source: Some("crm".to_owned()), ..ReadOptions::default() }
}

fn mapped(mapping: &[(&str, &str)]) -> ReadOptions {
    let mapping = mapping.iter().map(|(column, header)| ((*column).to_owned(), (*header).to_owned()));
    ReadOptions { mapping: mapping.collect(), ..from_crm() }
}

fn json_of(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("JSON")
}

/// What is expected under this name in `uploaded.json`.
fn expected(name: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("uploaded.json")).expect("JSON");
    all[name].take()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).expect("packs");
    gzip.finish().expect("packs")
}

/// A start and then this many MiB of the same text, packed into little.
fn bomb(start: &[u8], repeated: &[u8], mebibytes: usize) -> Vec<u8> {
    let mut zstd = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    zstd.write_all(start).expect("packs");
    let part = repeated.repeat((1 << 20) / repeated.len());
    for _ in 0..mebibytes {
        zstd.write_all(&part).expect("packs");
    }
    zstd.finish().expect("packs")
}

/// A Parquet file of optional texts; an empty text is null.
fn parquet(columns: &[(&str, Vec<&str>)]) -> Vec<u8> {
    let schema: String = columns.iter().map(|(name, _)| format!("optional binary {name} (UTF8); ")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message people {{ {schema} }}"));
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_data_page_row_count_limit(1_000)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .set_compression(Compression::ZSTD(Default::default()));
    let properties = properties.build().into();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema.expect("a schema").into(), properties)
        .expect("a writer");
    let mut group = writer.next_row_group().expect("a group");
    for (_, texts) in columns {
        let levels: Vec<i16> = texts.iter().map(|text| i16::from(!text.is_empty())).collect();
        let values: Vec<ByteArray> =
            texts.iter().filter(|text| !text.is_empty()).map(|text| ByteArray::from(*text)).collect();
        let mut column = group.next_column().expect("a column").expect("one more");
        column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None).expect("writes");
        column.close().expect("closes");
    }
    group.close().expect("closes");
    writer.into_inner().expect("finishes")
}

const ADA: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";
const ADA_STORED: &str = "https://linkedin.com/in/ada-quell-1a2b3c";
const EVE: &str = "https://www.linkedin.com/in/eve-nuvel-2b3c4d";
const UNA: &str = "https://www.linkedin.com/in/una-vastor-3c4d5e";

#[test]
fn a_file_of_a_spreadsheet_is_described_with_its_columns_and_first_values() {
    let shape = Desk::new().describe(&messy("01-german-excel.csv")).expect("describes");
    assert_eq!(json_of(&shape), expected("spreadsheet"));
}

#[test]
fn any_encoding_packing_and_format_is_described() {
    let desk = Desk::new();
    let text = format!("profileUrl;PHONE;Note\n{ADA};+14155550101;\"two\nlines\"\n{EVE};'+14155550102;\n");
    let marked = format!("\u{FEFF}{text}");
    let utf_16: Vec<u8> = marked.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let columns = json!([
        {"name": "profileUrl", "field": "profileUrl", "samples": [ADA, EVE]},
        {"name": "PHONE", "field": "phone", "samples": ["+14155550101", "+14155550102"]},
        {"name": "Note", "field": null, "samples": ["two\nlines"]},
    ]);
    for (bytes, encoding) in [
        (text.clone().into_bytes(), "UTF-8"),
        (marked.into_bytes(), "UTF-8"),
        (utf_16.clone(), "UTF-16LE"),
        (gzip(text.as_bytes()), "UTF-8"),
        (zstd::encode_all(utf_16.as_slice(), 1).expect("packs"), "UTF-16LE"),
    ] {
        let shape = desk.describe(&desk.upload("people.csv", bytes)).expect("describes");
        assert_eq!(
            json_of(&shape),
            json!({
                "format": "csv", "encoding": encoding, "delimiter": ";", "sheets": [], "columns": columns, "suggestedMapping": {},
            })
        );
    }
    let lines = format!(
        "{{\"profile\":\"{ADA}\",\"phone\":14155550101,\"tags\":[1]}}\nno JSON\n{{\"Mobile\":\"+14155550102\",\"phone\":null}}\n"
    );
    let table = parquet(&[("LinkedIn", vec![ADA, "", EVE]), ("phone", vec!["", "+14155550101", ""])]);
    for (bytes, name) in [
        (lines.clone().into_bytes(), "lines"),
        (gzip(lines.as_bytes()), "lines"),
        (table.clone(), "table"),
        (zstd::encode_all(table.as_slice(), 1).expect("packs"), "table"),
    ] {
        let shape = desk.describe(&desk.upload("people", bytes)).expect("describes");
        assert_eq!(json_of(&shape), expected(name));
    }
}

#[test]
fn json_lines_with_lists_have_no_columns_to_map_and_their_values_are_previewed() {
    let desk = Desk::new();
    let shape = json_of(&desk.describe(&messy("26-nested.jsonl")).expect("describes"));
    assert_eq!((&shape["columns"], &shape["suggestedMapping"]), (&json!([]), &json!({})));
    let rows = desk.preview(&messy("26-nested.jsonl"), &ReadOptions::default()).expect("previews");
    assert_eq!(json_of(&rows), expected("nested"));
}

#[test]
fn a_preview_says_what_is_loaded_rejected_and_opted_out() {
    let desk = Desk::new().opted_out(&[EVE], &["+14155550103", "+14155550105"]);
    let file = desk.upload(
        "people.csv",
        format!(
            "LinkedIn,Mobile,email,Notes\n{ADA},'+14155550101,ada@example.com,\"a\nb\"\n{EVE},+14155550102,,x\n\
             {UNA},+14155550103,una@example.com\n{ADA},+1415555,\n{ADA},call me,ada@example.org\n\
             {UNA},+14155550105,una(at)example.com\n"
        ),
    );
    let options = mapped(&[("profileUrl", "LinkedIn"), ("phone", "Mobile")]);
    let rows = desk.preview(&file, &options).expect("previews");
    assert_eq!(json_of(&rows), expected("verdicts"));
    let read = desk.read(&file, &options, None).expect("reads");
    assert_eq!((read.rows, read.rejected, read.partly_rejected, read.suppressed), (6, 3, 2, 3));
    let debug = format!("{rows:?} {:?}", desk.describe(&file).expect("describes"));
    for personal in ["ada", "1415", "example.com"] {
        assert!(!debug.to_lowercase().contains(personal), "{debug}");
    }
}

/// The options that the flags of a messy file stand for; none if it is about something else than reading.
fn options_of(flags: &str) -> Option<ReadOptions> {
    let mut options = ReadOptions::default();
    let mut flags = flags.lines();
    while let Some(flag) = flags.next() {
        let mut value = || flags.next().expect("a value").to_owned();
        match flag {
            "--source" => options.source = Some(value()),
            "--region" => options.region = Some(value()),
            "--delimiter" => options.delimiter = value().bytes().next(),
            "--date-format" => options.date_format = Some(DateFormat::parse(&value()).expect("a format")),
            "--require-basis" => options.needs_basis = true,
            "--encoding" => options.encoding = Encoding::named(&value()),
            "--sheet" => options.sheet = Some(value()),
            "--map" => {
                let mapping = value();
                let (column, header) = mapping.split_once('=').expect("a mapping");
                options.mapping.push((column.to_owned(), header.to_owned()));
            }
            _ => return None,
        }
    }
    Some(options)
}

/// The messy files and what is beside them with this ending.
fn all_messy(ending: &str) -> Vec<(UploadedFile, String)> {
    let entries = std::fs::read_dir(MESSY).expect("a directory");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let names =
        paths.iter().map(|path| name(path)).filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    let names = names.filter(|name| !name.ends_with(".args") && !name.ends_with(".json"));
    let beside = |name: &str| {
        let stem = name.split('.').next().expect("a stem");
        std::fs::read_to_string(Path::new(MESSY).join(format!("{stem}.{ending}"))).unwrap_or_default()
    };
    names.map(|name| (messy(&name), beside(&name))).collect()
}

#[test]
fn the_preview_of_every_messy_file_is_what_its_import_reports() {
    let desk = Desk::new();
    let mut compared = (0, 0);
    for ((file, flags), (_, report)) in all_messy("args").into_iter().zip(all_messy("report.json")) {
        let Some(options) = options_of(&flags) else { continue };
        let expected: Value = serde_json::from_str(&report).expect("JSON");
        let rows = match desk.preview(&file, &options) {
            Ok(rows) => rows,
            Err(error) => {
                // The command adds which flag helps.
                let said = expected["error"].as_str().expect("refused").trim_start_matches("contactd: ");
                let error = error.to_string();
                let same = error.split("; map").next().and_then(|error| error.split("; name a").next());
                assert!(said.starts_with(same.expect("a text")), "{error}, not {said}");
                compared.1 += 1;
                continue;
            }
        };
        let report = &expected["report"];
        let rows = json_of(&rows);
        let rows = rows.as_array().expect("a list");
        let count = |verdict: &str| rows.iter().filter(|row| row["verdict"] == verdict).count() as u64;
        let rejected = report["rejected"].as_u64().expect("a number");
        let partly = report["partlyRejected"].as_u64().expect("a number");
        let name = &file.name;
        assert_eq!(report["rows"], rows.len(), "{name}");
        assert_eq!((count("rejected"), count("loaded in part")), (rejected - partly, partly), "{name}");
        let reasons = rows.iter().flat_map(|row| {
            let reasons = row["reasons"].as_array().expect("a list").iter();
            reasons.map(|reason| json!({"file": name, "line": row["line"], "column": reason["column"], "reason": reason["reason"]}))
        });
        assert_eq!(Value::from_iter(reasons.take(10)), report["examples"], "{name}");
        let shape = json_of(&desk.describe(&file).expect("describes"));
        assert_eq!(shape["format"], report["inputs"][0]["format"], "{name}");
        compared.0 += 1;
    }
    assert!(compared.0 >= 55 && compared.1 >= 12, "{compared:?}");
}

#[test]
fn with_a_whole_mapping_no_other_column_is_used() {
    let desk = Desk::new();
    let file = desk.upload(
        "people.csv",
        format!("profileUrl,phone,email,source\n{ADA},+14155550101,ada@example.com,hr\n"),
    );
    let whole = |mapping: &[(&str, &str)]| ReadOptions { only_mapped: true, ..mapped(mapping) };
    let rows =
        desk.preview(&file, &whole(&[("profileUrl", "profileUrl"), ("phone", "phone")])).expect("previews");
    assert_eq!(
        json_of(&rows),
        json!([{"line": 2, "values": {"profileUrl": ADA, "phone": "+14155550101"}, "stored": {"profileUrl": ADA_STORED, "phone": "+14155550101"}, "verdict": "loaded", "reasons": []}])
    );
    let missing = desk.preview(&file, &whole(&[("profileUrl", "profileUrl")])).expect_err("refused");
    assert_eq!(
        missing.to_string(),
        "people.csv: the mapping names no column for phone or email; the columns are profileUrl, phone, email, source; \
         map phone or email to one of them"
    );
    let line = format!(
        r#"{{"profileUrl":"{ADA}","phone":"+14155550101","email":"ada@example.com","phones":["x"]}}"#
    );
    let lines = desk.upload("people.jsonl", line);
    let rows =
        desk.preview(&lines, &whole(&[("profileUrl", "profileUrl"), ("email", "email")])).expect("previews");
    assert_eq!(
        json_of(&rows),
        json!([{"line": 1, "values": {"profileUrl": ADA, "email": "ada@example.com"}, "stored": {"profileUrl": ADA_STORED, "email": "ada@example.com"}, "verdict": "loaded", "reasons": []}])
    );
}

#[test]
fn what_is_missing_for_an_import_is_said_before_it_begins_and_the_place_of_the_file_is_not() {
    let desk = Desk::new();
    let other = desk.upload("people.csv", "Link,Mobile\na,b\n");
    let cases = [
        (
            other.clone(),
            from_crm(),
            "people.csv: no column is called profileUrl; the columns are Link, Mobile; map profileUrl to one of them",
        ),
        (
            other.clone(),
            mapped(&[("profileUrl", "Link"), ("phone", "Handy")]),
            "people.csv: phone is mapped to Handy, but no column has that header; the columns are Link, Mobile",
        ),
        (
            other.clone(),
            ReadOptions { source: None, ..mapped(&[("profileUrl", "Link"), ("phone", "Mobile")]) },
            "people.csv: there is no source column; name a source for the file",
        ),
        (
            other.clone(),
            mapped(&[("telephone", "Mobile")]),
            "the mapping names a field that an import does not have; the fields are profileUrl, phone, email, phoneLabel, \
             emailLabel, confidence, observedAt, basis, expiresAt, region, source, phone:personal, phone:work, email:personal, \
             email:work",
        ),
        (
            other.clone(),
            mapped(&[("profileUrl", "Mobile"), ("profileUrl", "Link")]),
            "the mapping names profileUrl twice; name it once",
        ),
        (
            other,
            mapped(&[("phone", "Mobile"), ("phone:work", "Mobile")]),
            "the mapping names one column for phone and for phone:work; a column can be one of them",
        ),
    ];
    for (file, options, message) in cases {
        assert_eq!(desk.preview(&file, &options).expect_err("refused").to_string(), message);
        assert_eq!(desk.read(&file, &options, None).expect_err("refused").to_string(), message);
        assert!(desk.describe(&file).is_ok());
    }
    let gone = UploadedFile { path: desk.dir.path().join("gone"), name: "people.csv".to_owned() };
    assert_eq!(
        desk.refusal(&gone, &from_crm()),
        "cannot read people.csv: No such file or directory (os error 2)"
    );
}

#[test]
fn an_import_of_an_upload_writes_its_rejected_rows_to_the_chosen_file() {
    let desk = Desk::new();
    let file = desk.upload("people.csv", format!("profileUrl,phone\n{ADA},none\n{EVE},+14155550102\n"));
    let rejects = desk.dir.path().join("rejects.csv");
    let read = desk.read(&file, &from_crm(), Some(&rejects)).expect("reads");
    assert_eq!((read.rows, read.rejected, read.records), (2, 1, 1));
    assert_eq!(read.examples.first().map(|row| row.file.as_str()), Some("people.csv"));
    let kept = std::fs::read_to_string(&rejects).expect("written");
    assert_eq!(
        kept,
        format!(
            "rejectedLine,rejectedColumn,rejectedReason,profileUrl,phone\n2,phone,phone_letters,{ADA},none\n"
        )
    );
}

#[test]
fn only_the_first_part_of_a_file_is_read() {
    let desk = Desk::new();
    // Numbers that do not repeat, so that most of it is left when the first rows are unpacked.
    let rows = (0..200_000_u64).map(|n| {
        let slug = n.wrapping_mul(6_364_136_223_846_793_005);
        format!("https://linkedin.com/in/start-quell-{slug:x},+1415555{:04}\n", 100 + n % 100)
    });
    let text: String = std::iter::once("profileUrl,phone\n".to_owned()).chain(rows).collect();
    let packed = gzip(text.as_bytes());
    let file = desk.upload("people.csv.gz", &packed[..packed.len() / 2]);
    assert_eq!(desk.preview(&file, &from_crm()).expect("previews").len(), 20);
    assert_eq!(desk.describe(&file).expect("describes").columns.len(), 2);
    let error = desk.read(&file, &from_crm(), None).expect_err("cut off").to_string();
    assert!(error.contains("the compressed file is damaged or truncated"), "{error}");

    let mut table = parquet(&[("profileUrl", vec![ADA; 50_000]), ("phone", vec!["+14155550101"; 50_000])]);
    // Pages of the first column, far from its first rows.
    let (from, to) = (table.len() * 2 / 5, table.len() / 2);
    table[from..to].fill(0xFF);
    let file = desk.upload("people.parquet", &table);
    let rows = desk.preview(&file, &from_crm()).expect("previews");
    assert_eq!((rows.len(), rows.last().map(|row| row.line)), (20, Some(20)));
    let shape = json_of(&desk.describe(&file).expect("describes"));
    assert_eq!(shape["columns"][0]["samples"], json!([ADA, ADA, ADA]));
    let error = desk.read(&file, &from_crm(), None).expect_err("damaged").to_string();
    let (row, rest) =
        error.strip_prefix("people.parquet: row ").and_then(|e| e.split_once(' ')).expect("a row");
    assert_eq!(rest, "is damaged, or holds text that is not UTF-8; nothing was loaded");
    assert!(row.parse::<u32>().is_ok_and(|row| row > 10_000), "{row}");
}

#[test]
fn long_values_are_shortened_and_few_very_long_rows_are_enough() {
    let desk = Desk::new();
    let note = "é".repeat(300);
    let file = desk.upload("people.csv", format!("profileUrl,phone,basis\n{ADA},+14155550101,{note}\n"));
    let short = format!("{}…", "é".repeat(200));
    let rows = json_of(&desk.preview(&file, &from_crm()).expect("previews"));
    assert_eq!(rows[0]["values"]["basis"], short.as_str());
    let shape = json_of(&desk.describe(&file).expect("describes"));
    assert_eq!(shape["columns"][2]["samples"], json!([short]));
    let megabytes = "x".repeat(5 << 20);
    let lines = format!("profileUrl,phone,note\n{}", format!("{ADA},+14155550101,{megabytes}\n").repeat(6));
    let rows = desk.preview(&desk.upload("people.csv", lines), &from_crm()).expect("previews");
    assert_eq!(rows.len(), 4, "after 16 MiB no more rows are read");
}

#[test]
fn hostile_files_are_refused_after_their_first_part() {
    let desk = Desk::new();
    let too_long =
        "people: the file cannot be read further: a row is longer than 16 MiB; is this a CSV file?";
    let header = b"profileUrl,phone\n".as_slice();
    for (bytes, message) in [
        (
            bomb(b"profileUrl,phone", b"x", 100),
            "people: the file cannot be read: a row is longer than 16 MiB; is this a CSV file?",
        ),
        (bomb(header, b"x", 100), too_long),
        (bomb(header, b"\n", 100), too_long),
        (bomb(&[header, b"\""].concat(), b"x\n", 100), too_long),
        (
            bomb(b"{\"profileUrl\":\"", b"x", 100),
            "people: line 1 is longer than 16 MiB; is this a file of JSON lines?",
        ),
        (
            bomb(b"{}\n", &[[b' '; 1_023].as_slice(), b"\n"].concat(), 100),
            "people: it has more than 16 MiB of blank lines in a row; is this a file of JSON lines?",
        ),
        (
            bomb(b"profileUrl", b",a", 8),
            "people: it has more than 16,384 columns; is this a file of contact records?",
        ),
        (
            bomb(b"PAR1", b"\0", 100),
            "people: the file in it is longer than 64 MiB; unpack it first: it is compressed inside",
        ),
        (
            [b"PAR1".as_slice(), &[0; 100], &[0xFF, 0xFF, 0xFF, 0x7F], b"PAR1"].concat(),
            "people: this is not a complete Parquet file",
        ),
        (
            [b"PAR1".as_slice(), &[7; 100], &[50, 0, 0, 0], b"PAR1"].concat(),
            "people: this is not a complete Parquet file",
        ),
        (
            gzip(header)[..12].to_vec(),
            "people: the file cannot be read: the compressed file is damaged or truncated \
            (incomplete deflate stream); download or create it again",
        ),
    ] {
        assert!(bytes.len() < 1 << 20);
        assert_eq!(desk.refusal(&desk.upload("people", bytes), &from_crm()), message);
    }
    // It takes no room on the disk.
    let path = desk.dir.path().join("sparse");
    File::create(&path).and_then(|file| file.set_len(1 << 40)).expect("a file with a hole");
    let sparse = UploadedFile { path, name: "people.csv".to_owned() };
    assert_eq!(
        desk.refusal(&sparse, &from_crm()),
        "people.csv: the file cannot be read: a row is longer than 16 MiB; is this a CSV file?"
    );
}

#[test]
fn a_page_that_unpacks_to_too_much_is_refused_if_its_column_is_used() {
    let desk = Desk::new();
    let long = "x".repeat(65 << 20);
    let used = parquet(&[("profileUrl", vec![ADA]), ("phone", vec![&long])]);
    let file = desk.upload("people.parquet", used);
    assert_eq!(
        desk.preview(&file, &from_crm()).expect_err("refused").to_string(),
        "people.parquet: a page is longer than 64 MiB; write the file with smaller pages and row groups"
    );
    let columns = json_of(&desk.describe(&file).expect("describes"));
    assert_eq!(columns["columns"][1], json!({"name": "phone", "field": "phone", "samples": []}));
    let not_used =
        parquet(&[("profileUrl", vec![ADA]), ("note", vec![&long]), ("phone", vec!["+14155550101"])]);
    let rows = desk.preview(&desk.upload("people.parquet", not_used), &from_crm()).expect("previews");
    assert_eq!(json_of(&rows)[0]["verdict"], "loaded");
}
