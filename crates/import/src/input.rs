//! Files to import: opening, decompressing, decoding, and recognising the format by the content.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::csv_rows::CsvRows;
use crate::dialect::Dialect;
use crate::encoding::Encoding;
use crate::error::Tried;
use crate::json_rows::JsonRows;
use crate::layout::{Layout, Shape};
use crate::parquet_rows::ParquetRows;
use crate::rows::{BUFFER, Defaults, Row};
use crate::{FileError, Format};

/// How many bytes of a file are read to recognise its format.
const START: u64 = 1024;

/// How many bytes of a first line are read to recognise what separates the columns.
const MAX_FIRST_LINE: usize = 64 * 1024;

const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

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

/// The shape of a file, and its rows.
type Opened = (Shape, Rows);

/// Opens the input with this number; `-` is standard input. `read` counts the bytes read.
pub(crate) fn open(
    (input, file): (usize, &Path),
    format: Option<Format>,
    defaults: &Defaults,
    room: &Path,
    read: &Arc<AtomicU64>,
) -> Result<(Layout, Rows), FileError> {
    let name = name(file);
    let bytes = CountingReader { input: raw(file)?, read: Arc::clone(read) };
    let (shape, rows) =
        recognize(Box::new(bytes), format, defaults, (Some(file), room)).map_err(|error| error.of(&name))?;
    Ok((Layout { file: name, input, shape }, rows))
}

/// The rows of a CSV in memory.
pub(crate) fn text(
    (input, name): (usize, &str),
    csv: &'static str,
    defaults: &Defaults,
) -> Result<(Layout, Rows), FileError> {
    let (shape, rows) =
        recognize(Box::new(csv.as_bytes()), Some(Format::Csv), defaults, (None, Path::new(".")))?;
    Ok((Layout { file: name.to_owned(), input, shape }, rows))
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
    (path, room): (Option<&Path>, &Path),
) -> Result<Opened, FileError> {
    let (input, is_packed) = unpacked(input)?;
    let (start, input) = peek(input)?;
    if format == Some(Format::Parquet) || format.is_none() && start.starts_with(b"PAR1") {
        return parquet(input, defaults, path.filter(|path| !is_packed && path.is_file()), room);
    }
    let encoding = Encoding::of(&start);
    let (start, mut input) = match encoding {
        Encoding::Utf8 => (start, input),
        encoding => peek(encoding.decoded(input))?,
    };
    let has_mark = start.starts_with(UTF8_MARK);
    let text = start.strip_prefix(UTF8_MARK).unwrap_or(&start).trim_ascii_start();
    let is_json = match format {
        Some(format) => format == Format::Jsonl,
        None => text.starts_with(b"{") || text.is_empty() && path.is_some_and(is_called_jsonl),
    };
    if is_json {
        return Ok((Shape::Json { encoding: encoding.name() }, Rows::Json(JsonRows::read(input))));
    }
    let line;
    (line, input) = first_line(start, input)?;
    let dialect = Dialect::of(&line, defaults);
    let (rows, columns) = CsvRows::read(input, dialect, defaults)?;
    let Dialect { delimiter, has_sep_line } = dialect;
    Ok((
        Shape::Csv { columns, delimiter, has_sep_line, has_mark, encoding: encoding.name() },
        Rows::Csv(rows),
    ))
}

fn parquet(
    mut input: Box<dyn Read>,
    defaults: &Defaults,
    path: Option<&Path>,
    room: &Path,
) -> Result<Opened, FileError> {
    // The metadata is at the end of the file, so a stream is copied to a temporary file first.
    let whole = match path {
        Some(path) => File::open(path).tried("the file cannot be read")?,
        None => {
            let mut whole = tempfile::tempfile_in(room).tried("cannot create a temporary file")?;
            io::copy(&mut input, &mut whole).tried("the file cannot be unpacked")?;
            whole
        }
    };
    let (rows, columns, not_used) = ParquetRows::read(whole, defaults)?;
    Ok((Shape::Parquet { columns, not_used }, Rows::Parquet(rows)))
}

/// The first line that is not blank of a text that starts with `start`, as far as it is read, and a reader of the whole input.
fn first_line(start: Vec<u8>, mut input: Box<dyn Read>) -> Result<(Vec<u8>, Box<dyn Read>), FileError> {
    let mut line = start;
    let mut is_read = 0;
    let start_of = |text: &[u8]| text.iter().take_while(|&&byte| matches!(byte, b'\r' | b'\n')).count();
    let end = |text: &[u8]| {
        let (start, mut is_quoted) = (start_of(text), false);
        let end = text.iter().skip(start).position(|&byte| {
            is_quoted ^= byte == b'"';
            byte == b'\n' && !is_quoted
        });
        end.map(|end| start + end)
    };
    // `input` begins with what is in `line` already.
    while end(&line).is_none() && line.len() < MAX_FIRST_LINE {
        let mut skipped = vec![0; line.len() - is_read];
        input.read_exact(&mut skipped).tried("the file cannot be read")?;
        is_read = line.len();
        let more = input.by_ref().take(START).read_to_end(&mut line).tried("the file cannot be read")?;
        is_read += more;
        if more == 0 {
            break;
        }
    }
    let input: Box<dyn Read> = match is_read {
        0 => input,
        _ => Box::new(io::Cursor::new(line.clone()).chain(input)),
    };
    line.truncate(end(&line).unwrap_or(line.len()));
    line.drain(..start_of(&line));
    Ok((line, input))
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
