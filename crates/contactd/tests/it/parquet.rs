//! Parquet files: only used columns are read, and a small file cannot take gigabytes of memory.

use std::process::Stdio;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use serde_json::json;

use crate::fixture::ADA;
use crate::service::{Output, Site, assert_has};

/// A file of optional texts; an empty text is null.
pub(crate) fn file(properties: WriterPropertiesBuilder, columns: &[(&str, Vec<&str>)]) -> Vec<u8> {
    let schema: String = columns.iter().map(|(name, _)| format!("optional binary {name} (UTF8); ")).collect();
    let schema = parquet::schema::parser::parse_message_type(&format!("message people {{ {schema} }}"));
    let schema = schema.expect("a schema").into();
    let properties = properties.build().into();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("a writer");
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

pub(crate) fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
}

fn zstd(properties: WriterPropertiesBuilder) -> WriterPropertiesBuilder {
    properties.set_compression(Compression::ZSTD(Default::default()))
}

/// MiB that are enough for the program, what its allocator reserves, and what it may take for pages. A file that took as much as
/// it declares would need more.
const MEMORY: u32 = 800;

/// Imports a file with this much memory and no more.
fn import(bytes: &[u8]) -> Output {
    let site = Site::embedded();
    site.file("people.parquet", bytes);
    let mut import = site.command_after(&format!("ulimit -v {}", MEMORY * 1024));
    import.args(["import", "people.parquet", "--source", "crm", "--json"]);
    import.args(["--max-rejects", "100%", "--rejects", "/dev/null"]).stdin(Stdio::null());
    Output::from(import.output().expect("runs"))
}

/// Fails unless a file is refused with these words.
#[track_caller]
fn refuses(bytes: &[u8], words: &str) {
    import(bytes).says(1, format!("contactd: people.parquet: {words}\n"));
}

#[test]
fn pages_that_unpack_to_more_than_the_limit_are_refused() {
    let long = "x".repeat(300 << 20);
    let bytes = file(zstd(plain()), &[("profileUrl", vec![ADA, &long]), ("phone", vec!["+14155550101", ""])]);
    assert!(bytes.len() < 200_000, "{}", bytes.len());
    refuses(&bytes, "a page is longer than 64 MiB; write the file with smaller pages and row groups");
}

#[test]
fn pages_of_several_columns_that_together_take_more_than_the_limit_are_refused() {
    let long = "x".repeat(60 << 20);
    let columns = ["profileUrl", "phone", "email", "basis", "source"].map(|name| (name, vec![long.as_str()]));
    let bytes = file(zstd(plain()), &columns);
    refuses(
        &bytes,
        "a row group would take more than 256 MiB of memory; write the file with smaller pages \
             and row groups",
    );
}

#[test]
fn a_column_that_is_not_used_is_not_read() {
    let long = "x".repeat(300 << 20);
    let bytes = file(
        zstd(plain()),
        &[("profileUrl", vec![ADA]), ("notes", vec![&long]), ("phone", vec!["+14155550101"])],
    );
    let report = import(&bytes).json();
    assert_has(&report, json!({ "detailsNew": 1, "columnsNotUsed": ["notes"] }));
}

#[test]
fn a_long_text_that_is_repeated_in_every_row_is_read_in_bounded_memory() {
    let long = "x".repeat(500 << 10);
    let rows = 2_000;
    let bytes = file(
        zstd(WriterProperties::builder()),
        &[
            ("profileUrl", vec!["no profile"; rows]),
            ("phone", vec!["+14155550101"; rows]),
            ("basis", vec![&long; rows]),
        ],
    );
    assert!(bytes.len() < 200_000, "{}", bytes.len());
    assert_eq!(import(&bytes).json()["rejected"], rows);
}

#[test]
fn a_row_that_is_too_long_is_refused() {
    let long = "x".repeat(2 << 20);
    let bytes = file(zstd(plain()), &[("profileUrl", vec![ADA, &long]), ("phone", vec!["+14155550101", ""])]);
    refuses(&bytes, "row 2 is longer than 1 MiB; is this a file of contact records?");
}

/// People with some nulls, more than one page of them.
fn people() -> Vec<(&'static str, Vec<String>)> {
    let rows = 0..3_000;
    vec![
        (
            "profileUrl",
            rows.clone().map(|row| format!("https://linkedin.com/in/parquet-quell-{row}")).collect(),
        ),
        (
            "phone",
            rows.clone()
                .map(|row| if row % 3 == 0 { String::new() } else { "+14155550101".to_owned() })
                .collect(),
        ),
        (
            "email",
            rows.map(|row| if row % 7 == 1 { String::new() } else { format!("q{row}@example.com") })
                .collect(),
        ),
    ]
}

#[test]
fn every_encoding_and_compression_that_is_supported_loads() {
    let people = people();
    let columns: Vec<(&str, Vec<&str>)> =
        people.iter().map(|(name, texts)| (*name, texts.iter().map(String::as_str).collect())).collect();
    let details = people[1..].iter().flat_map(|(_, texts)| texts).filter(|text| !text.is_empty()).count();
    let encodings = [
        None,
        Some(Encoding::PLAIN),
        Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        Some(Encoding::DELTA_BYTE_ARRAY),
    ];
    let compressions = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(Default::default()),
        Compression::ZSTD(Default::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
    ];
    for (number, compression) in compressions.into_iter().enumerate() {
        for (version, encoding) in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0]
            .into_iter()
            .flat_map(|version| encodings.map(|encoding| (version, encoding)))
        {
            // All encodings once, and one for each further compression.
            if number > 0 && encoding != encodings[number % encodings.len()] {
                continue;
            }
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_compression(compression)
                .set_data_page_row_count_limit(700)
                .set_write_batch_size(100)
                .set_dictionary_enabled(encoding.is_none());
            let properties = encoding.into_iter().fold(properties, WriterPropertiesBuilder::set_encoding);
            let site = Site::empty();
            let input = site.file("people.parquet", file(properties, &columns));
            let report = site.run(&["import", &input, "--source", "crm", "--json"]);
            assert_eq!(report.code, 0, "{compression:?} {version:?} {encoding:?}: {}", report.stderr);
            assert_eq!(report.json()["detailsNew"], details, "{compression:?} {version:?} {encoding:?}");
        }
    }
}

#[test]
fn a_page_that_declares_more_lengths_than_values_is_refused() {
    let properties = plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY);
    let mut bytes = file(properties, &[("profileUrl", vec![ADA; 100]), ("phone", vec!["+14155550101"; 100])]);
    // The header of a list of lengths: blocks of 128 in 4 parts, 100 lengths.
    let header = [0x80, 0x01, 0x04, 100];
    let at = bytes.windows(4).position(|window| window == header).expect("a list of lengths");
    bytes[at + 3] = 127;
    refuses(&bytes, "row 1 is damaged, or holds text that is not UTF-8; nothing was loaded");
}

#[test]
fn a_column_of_lists_is_refused() {
    let schema = "message people { required binary profileUrl (UTF8); repeated binary phone (UTF8); }";
    let schema = parquet::schema::parser::parse_message_type(schema).expect("a schema").into();
    let writer = SerializedFileWriter::new(Vec::new(), schema, plain().build().into()).expect("a writer");
    let bytes = writer.into_inner().expect("finishes");
    refuses(&bytes, "the column phone holds lists or groups; write one value for each row in it");
}
