//! Writing a table again with more columns, in the format that it has or in another one.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use contactd_core::csv_cell;
use csv::ByteRecord;
use serde_json::Value;

use crate::dialect::Dialect;
use crate::encoding::EncodedWriter;
use crate::layout::Written;
use crate::parquet_writer::ParquetWriter;
use crate::rows::{Content, Row};
use crate::xlsx::SheetWriter;
use crate::{Encoding, Format};

/// A table that is being written.
pub struct TableWriter {
    names: Vec<String>,
    /// How many of the columns were there before.
    width: usize,
    rows: Rows,
}

enum Rows {
    Csv(Box<csv::Writer<EncodedWriter<BufWriter<File>>>>),
    Json(EncodedWriter<BufWriter<File>>),
    Xlsx(SheetWriter),
    Parquet(ParquetWriter),
}

impl TableWriter {
    pub(crate) fn begin(
        file: File,
        written: &Written,
        format: Option<Format>,
        header: Option<&ByteRecord>,
        added: &[String],
    ) -> io::Result<Self> {
        let own = header.map(|header| header.iter().map(text).collect::<Vec<_>>()).unwrap_or_default();
        let width = own.len();
        let names: Vec<String> = own.into_iter().chain(added.iter().cloned()).collect();
        let format = format.unwrap_or_else(|| written.format());
        if header.is_none() && format != Format::Jsonl {
            return Err(io::Error::other("JSON lines can only be written as JSON lines (.jsonl)"));
        }
        let rows = match (format, written) {
            (Format::Csv, _) => {
                let (dialect, has_mark, encoding) = match written {
                    Written::Csv { dialect, has_mark, encoding } => (*dialect, *has_mark, encoding.get()),
                    // Excel reads a CSV as UTF-8 if it has a mark.
                    Written::Xlsx { .. } => (Dialect::COMMAS, true, Encoding::UTF8),
                    Written::Parquet | Written::Json { .. } => (Dialect::COMMAS, false, Encoding::UTF8),
                };
                Rows::Csv(Box::new(csv_writer(file, dialect, has_mark, encoding, &names)?))
            }
            (Format::Jsonl, Written::Json { encoding }) => {
                Rows::Json(EncodedWriter::new(BufWriter::new(file), encoding.get()))
            }
            (Format::Jsonl, _) => Rows::Json(EncodedWriter::new(BufWriter::new(file), Encoding::UTF8)),
            (Format::Xlsx, Written::Xlsx { sheet, .. }) => {
                Rows::Xlsx(SheetWriter::begin(file, sheet, &names)?)
            }
            (Format::Xlsx, _) => Rows::Xlsx(SheetWriter::begin(file, "contactd", &names)?),
            (Format::Parquet, _) => Rows::Parquet(ParquetWriter::begin(file, &names)?),
        };
        Ok(Self { names, width, rows })
    }

    /// Writes a row, and what is added to it.
    pub fn write(&mut self, row: &Row, added: &[&str]) -> io::Result<()> {
        let fields = match &row.content {
            Content::Fields(fields) => fields,
            Content::Json(object) => return self.write_object(object, added),
        };
        // Short rows are padded, so that the added values are below their names.
        let missing = self.width.saturating_sub(fields.len());
        let own = fields.iter().chain(std::iter::repeat_n(&b""[..], missing));
        let all = own.chain(added.iter().map(|text| text.as_bytes()));
        match &mut self.rows {
            Rows::Csv(writer) => writer.write_record(all.map(cell)).map_err(of_system),
            Rows::Xlsx(writer) => writer.write(&all.map(text).collect::<Vec<_>>()),
            Rows::Parquet(writer) => writer.write(all.map(text)),
            Rows::Json(writer) => {
                let named = self.names.iter().zip(all).filter(|(name, _)| !name.is_empty());
                let object: serde_json::Map<_, _> =
                    named.map(|(name, value)| (name.clone(), Value::from(text(value)))).collect();
                writeln!(writer, "{}", Value::Object(object))
            }
        }
    }

    /// Writes a JSON object as it is, with more fields.
    fn write_object(&mut self, object: &[u8], added: &[&str]) -> io::Result<()> {
        let Rows::Json(writer) = &mut self.rows else {
            return Err(io::Error::other("a row of another format"));
        };
        let own = object.strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
        writer.write_all(own)?;
        let mut is_first = own.ends_with(b"{");
        for (name, value) in self.names.iter().zip(added) {
            let comma = if is_first { "" } else { "," };
            write!(writer, "{comma}{}:{}", Value::from(name.as_str()), Value::from(*value))?;
            is_first = false;
        }
        writer.write_all(b"}\n")
    }

    /// Writes the rest. Gives the complete file.
    pub fn finish(self) -> io::Result<File> {
        match self.rows {
            Rows::Csv(writer) => writer.into_inner().map_err(csv::IntoInnerError::into_error)?.finish(),
            Rows::Json(writer) => writer.finish(),
            Rows::Xlsx(writer) => writer.finish(),
            Rows::Parquet(writer) => writer.finish(),
        }
    }
}

fn csv_writer(
    file: File,
    dialect: Dialect,
    has_mark: bool,
    encoding: Encoding,
    names: &[String],
) -> io::Result<csv::Writer<EncodedWriter<BufWriter<File>>>> {
    let mut file = EncodedWriter::new(BufWriter::new(file), encoding);
    if has_mark {
        file.write_all("\u{FEFF}".as_bytes())?;
    }
    if dialect.has_sep_line {
        file.write_all(&[b"sep=".as_slice(), &[dialect.delimiter], b"\n"].concat())?;
    }
    let mut writer = csv::WriterBuilder::new().flexible(true).delimiter(dialect.delimiter).from_writer(file);
    writer.write_record(names.iter().map(|name| cell(name.as_bytes()))).map_err(of_system)?;
    Ok(writer)
}

fn of_system(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        _ => io::Error::other("a row cannot be written"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A cell that no spreadsheet program runs as a formula. One that already begins with `'` stays as it is.
fn cell(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_safe =
        bytes.starts_with(b"'") || matches!(csv_cell(&String::from_utf8_lossy(bytes)), Cow::Borrowed(_));
    if is_safe { bytes.into() } else { [b"'", bytes].concat().into() }
}
