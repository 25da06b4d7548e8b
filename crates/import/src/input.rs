//! Files to import: opening, decompressing, and recognising the format by the content.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::csv_rows::CsvRows;
use crate::error::Tried;
use crate::json_rows::JsonRows;
use crate::layout::{Layout, Shape};
use crate::parquet_rows::ParquetRows;
use crate::rows::{BUFFER, Defaults, Row};
use crate::{FileError, Format};

/// How many bytes of a file are read to recognise its format.
const START: u64 = 1024;

/// The rows of one file, whatever its format.
pub(crate) enum Rows {
    Csv(CsvRows),
    Json(JsonRows),
    Parquet(ParquetRows),
}

impl Rows {
    /// The next row, valid or not; none at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        match self {
            Self::Csv(rows) => rows.read_row(),
            Self::Json(rows) => rows.next(),
            Self::Parquet(rows) => rows.next(),
        }
    }
}

/// Opens a file; `-` is standard input. `read` counts the bytes read.
pub(crate) fn open(
    file: &Path,
    format: Option<Format>,
    defaults: &Defaults,
    room: &Path,
    read: &Arc<AtomicU64>,
) -> Result<(Layout, Rows), FileError> {
    let name = name(file);
    let input = CountingReader { input: raw(file)?, read: Arc::clone(read) };
    recognize(Box::new(input), format, defaults, name.clone(), (Some(file), room))
        .map_err(|error| error.of(&name))
}

/// The rows of a CSV in memory.
pub(crate) fn text(name: &str, csv: &'static str, defaults: &Defaults) -> Result<(Layout, Rows), FileError> {
    let input = Box::new(csv.as_bytes());
    recognize(input, Some(Format::Csv), defaults, name.to_owned(), (None, Path::new(".")))
}

/// The name of the file in messages.
pub(crate) fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// The total size in bytes, if all of these are regular files.
pub(crate) fn size(files: &[impl AsRef<Path>]) -> Option<u64> {
    files
        .iter()
        .map(|file| file.as_ref().metadata().ok().filter(|meta| meta.is_file()).map(|meta| meta.len()))
        .sum()
}

fn raw(file: &Path) -> Result<Box<dyn Read>, FileError> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let what = format!("cannot read {}", file.display());
    let open = File::open(file).tried(&what)?;
    if open.metadata().tried(&what)?.is_dir() {
        return Err(FileError::unusable(format!("{} is a directory; name the files in it", file.display())));
    }
    Ok(Box::new(open))
}

fn recognize(
    input: Box<dyn Read>,
    format: Option<Format>,
    defaults: &Defaults,
    file: String,
    (path, room): (Option<&Path>, &Path),
) -> Result<(Layout, Rows), FileError> {
    let (input, is_packed) = unpacked(input)?;
    let (start, mut input) = peek(input)?;
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&start);
    let looks_like = match start {
        start if start.starts_with(b"PAR1") => Format::Parquet,
        start if start.trim_ascii_start().starts_with(b"{") => Format::Jsonl,
        start if start.trim_ascii_start().is_empty() && path.is_some_and(is_called_jsonl) => Format::Jsonl,
        _ => Format::Csv,
    };
    let format = format.unwrap_or(looks_like);
    Ok(match format {
        Format::Csv => {
            let (rows, columns) = CsvRows::read(input, defaults)?;
            (Layout { file, shape: Shape::Fields(columns) }, Rows::Csv(rows))
        }
        Format::Jsonl => (Layout { file, shape: Shape::Json }, Rows::Json(JsonRows::read(input))),
        Format::Parquet => {
            // The metadata is at the end of the file, so a stream is copied to a temporary file first.
            let whole = match path.filter(|path| !is_packed && path.is_file()) {
                Some(path) => File::open(path).tried("the file cannot be read")?,
                None => {
                    let mut whole = tempfile::tempfile_in(room).tried("cannot create a temporary file")?;
                    io::copy(&mut input, &mut whole).tried("the file cannot be unpacked")?;
                    whole
                }
            };
            let (rows, columns) = ParquetRows::read(whole, defaults)?;
            (Layout { file, shape: Shape::Fields(columns) }, Rows::Parquet(rows))
        }
    })
}

fn is_called_jsonl(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    [".jsonl", ".ndjson"].iter().any(|ending| name.ends_with(ending))
}

/// The decompressed content, and whether it was compressed.
fn unpacked(input: Box<dyn Read>) -> Result<(Box<dyn Read>, bool), FileError> {
    let (start, input) = peek(input)?;
    let is_zstd = match start.as_slice() {
        [0x28, 0xB5, 0x2F, 0xFD, ..] => true,
        // A skippable frame before the first frame with data.
        [first, 0x2A, 0x4D, 0x18, ..] => first & 0xF0 == 0x50,
        _ => false,
    };
    let input = BufReader::with_capacity(BUFFER, input);
    Ok(if start.starts_with(b"\x1F\x8B") {
        (Box::new(Unpacking(Box::new(flate2::bufread::MultiGzDecoder::new(input)))), true)
    } else if is_zstd {
        (
            Box::new(Unpacking(Box::new(
                zstd::Decoder::with_buffer(input).tried("the file cannot be unpacked")?,
            ))),
            true,
        )
    } else {
        (Box::new(input), false)
    })
}

/// The first bytes of an input, however slowly they arrive, and a reader of the whole input.
fn peek(mut input: Box<dyn Read>) -> Result<(Vec<u8>, Box<dyn Read>), FileError> {
    let mut start = Vec::new();
    input.by_ref().take(START).read_to_end(&mut start).tried("the file cannot be read")?;
    let whole = Box::new(io::Cursor::new(start.clone()).chain(input));
    Ok((start, whole))
}

/// A compressed input. A read error is reported as damage to the compressed file.
struct Unpacking(Box<dyn Read>);

impl Read for Unpacking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer).map_err(|error| {
            io::Error::other(format!(
                "the compressed file is damaged or truncated ({error}); download or create it again"
            ))
        })
    }
}

/// An input that counts the bytes read.
struct CountingReader {
    input: Box<dyn Read>,
    read: Arc<AtomicU64>,
}

impl Read for CountingReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
