//! Files to import: opening, decompressing, decoding, and recognising the format by the content.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use contactd_core::DiskBudget;

use csv::ByteRecord;

use crate::csv_rows::CsvRows;
use crate::dialect::Dialect;
use crate::encoding::{FoundEncoding, decoded};
use crate::error::Tried;
use crate::header::Columns;
use crate::json_rows::JsonRows;
use crate::layout::{Layout, Written};
use crate::parquet_rows::ParquetRows;
use crate::rows::{BUFFER, Row};
use crate::xlsx::{self, Headed, Workbook};
use crate::{FileError, Format, ReadOptions};

/// How many bytes of a file are read to recognise its format.
const START: u64 = 1024;

/// How many bytes of a first line are read to recognise what separates the columns.
const MAX_FIRST_LINE: usize = 64 * 1024;

/// How many bytes of a file are read at most, if only its start is read: far more than its first rows may take.
pub(crate) const MAX_START: u64 = 64 << 20;

/// How long a workbook may be that is copied, because it is packed or comes from standard input.
const MAX_WORKBOOK: u64 = 512 << 20;

const UTF8_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The rows of one file, whatever its format.
pub(crate) enum Rows {
    Csv(CsvRows),
    Json(JsonRows),
    Parquet(ParquetRows),
    Xlsx(Headed),
}

impl Rows {
    /// The next row, valid or not; none at the end of the file.
    pub(crate) fn next(&mut self) -> Result<Option<Row>, FileError> {
        match self {
            Self::Csv(rows) => rows.read_row(),
            Self::Json(rows) => rows.next(),
            Self::Parquet(rows) => rows.next(),
            Self::Xlsx(rows) => rows.next(),
        }
    }
}

/// A file whose header is read.
pub(crate) struct Opened {
    pub(crate) written: Written,
    /// Unless each row is a JSON object.
    pub(crate) header: Option<ByteRecord>,
    /// Of a Parquet file they have only the columns that were asked for.
    pub(crate) rows: Rows,
}

/// How much of a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// All of it.
    Everything,
    /// The first rows, and at most [`MAX_START`] bytes.
    Start,
}

/// How files are opened.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub(crate) format: Option<Format>,
    pub(crate) options: &'a ReadOptions,
    /// For temporary files.
    pub(crate) disk: &'a DiskBudget,
    pub(crate) reach: Reach,
}

/// A file whose format is known. Its header is not read yet.
pub(crate) enum Recognized {
    Csv { input: Box<dyn Read>, dialect: Dialect, has_mark: bool, encoding: FoundEncoding },
    Json { input: Box<dyn Read>, encoding: FoundEncoding },
    Parquet(File),
    Xlsx(File),
}

impl Opening<'_> {
    /// Opens the input with this number and name; `-` is standard input. `read` counts the bytes read.
    pub(crate) fn open(
        self,
        (input, file, name): (usize, &Path, &str),
        read: &Arc<AtomicU64>,
    ) -> Result<(Layout, Rows), FileError> {
        let bytes = CountingReader { input: raw(file, name)?, read: Arc::clone(read) };
        let recognized = self.recognize(Box::new(bytes), Some((file, name)));
        recognized
            .and_then(|recognized| self.laid_out(recognized, input, name))
            .map_err(|error| error.of(name))
    }

    /// Recognises the format of a file.
    pub(crate) fn recognize_file(self, file: &Path, name: &str) -> Result<Recognized, FileError> {
        self.recognize(raw(file, name)?, Some((file, name))).map_err(|error| error.of(name))
    }
}

/// The rows of a CSV in memory.
pub(crate) fn text(
    (input, name): (usize, &str),
    csv: Cow<'static, str>,
    options: &ReadOptions,
) -> Result<(Layout, Rows), FileError> {
    let disk = DiskBudget::new(PathBuf::from("."));
    let opening = Opening { format: Some(Format::Csv), options, disk: &disk, reach: Reach::Everything };
    let recognized = opening.recognize(Box::new(io::Cursor::new(csv.into_owned().into_bytes())), None)?;
    opening.laid_out(recognized, input, name)
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

fn raw(file: &Path, name: &str) -> Result<Box<dyn Read>, FileError> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let what = format!("cannot read {name}");
    let open = File::open(file).tried(&what)?;
    if open.metadata().tried(&what)?.is_dir() {
        return Err(FileError::unusable(format!("{name} is a directory; name the files in it")));
    }
    Ok(Box::new(open))
}

impl Opening<'_> {
    /// Recognises the format of an input, by its content, or by its name if it is empty.
    pub(crate) fn recognize(
        self,
        input: Box<dyn Read>,
        of: Option<(&Path, &str)>,
    ) -> Result<Recognized, FileError> {
        let Self { format, options, .. } = self;
        // What is packed may take a little more than what is in it.
        let (input, is_packed) = unpacked(self.bounded(input, 2 * MAX_START))?;
        let (start, input) = peek(self.bounded(input, MAX_START))?;
        if format == Some(Format::Parquet) || format.is_none() && start.starts_with(b"PAR1") {
            let path = of.map(|(path, _)| path).filter(|path| !is_packed && path.is_file());
            return Ok(Recognized::Parquet(self.whole(input, path, u64::MAX)?));
        }
        if let Some(error) = xlsx::refused(&start) {
            return Err(error);
        }
        let is_workbook = start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06");
        if format == Some(Format::Xlsx) || format.is_none() && is_workbook {
            let path = of.map(|(path, _)| path).filter(|path| !is_packed && path.is_file());
            return Ok(Recognized::Xlsx(self.whole(input, path, MAX_WORKBOOK)?));
        }
        let (input, encoding) = decoded(&start, options.encoding, input);
        let (start, mut input) = peek(input)?;
        let has_mark = start.starts_with(UTF8_MARK);
        let text = start.strip_prefix(UTF8_MARK).unwrap_or(&start).trim_ascii_start();
        let is_json = match format {
            Some(format) => format == Format::Jsonl,
            None => {
                text.starts_with(b"{") || text.is_empty() && of.is_some_and(|(_, name)| is_called_jsonl(name))
            }
        };
        if is_json {
            return Ok(Recognized::Json { input, encoding });
        }
        let line;
        (line, input) = first_line(start, input)?;
        Ok(Recognized::Csv { input, dialect: Dialect::of(&line, options), has_mark, encoding })
    }

    /// Reads the header. Of a Parquet file, only the columns that `used` chooses by their places are read.
    pub(crate) fn read_header(
        self,
        recognized: Recognized,
        used: impl FnOnce(&ByteRecord) -> Result<Vec<usize>, FileError>,
    ) -> Result<Opened, FileError> {
        let is_start = self.reach == Reach::Start;
        Ok(match recognized {
            Recognized::Csv { input, dialect, has_mark, encoding } => {
                let (rows, header) = CsvRows::open(input, dialect)?;
                let written = Written::Csv { dialect, has_mark, encoding };
                Opened { written, header: Some(header), rows: Rows::Csv(rows) }
            }
            Recognized::Json { input, encoding } => {
                let rows = Rows::Json(JsonRows::read(input));
                Opened { written: Written::Json { encoding }, header: None, rows }
            }
            Recognized::Parquet(file) => {
                let (rows, header) = ParquetRows::read(file, is_start, used)?;
                Opened { written: Written::Parquet, header: Some(header), rows: Rows::Parquet(rows) }
            }
            Recognized::Xlsx(file) => {
                let book = Workbook::open(file)?;
                let most = is_start.then_some(MAX_START);
                let (sheet, rows) = book.rows(self.options, most)?;
                let written = Written::Xlsx { sheet, sheets: book.sheets() };
                let (rows, header) = Headed::open(rows, self.options).map_err(|error| match error {
                    FileError::EmptySheet => written.other_sheets(error),
                    error => error,
                })?;
                Opened { written, header: Some(header), rows: Rows::Xlsx(rows) }
            }
        })
    }

    /// Reads the header and finds the columns that an import needs.
    fn laid_out(self, recognized: Recognized, input: usize, file: &str) -> Result<(Layout, Rows), FileError> {
        let is_csv = matches!(recognized, Recognized::Csv { .. });
        let find = |header: &ByteRecord| Columns::find(header.clone(), self.options, is_csv);
        let Opened { written, header, rows } =
            self.read_header(recognized, |header| Ok(find(header)?.used()))?;
        let found = header.as_ref().map(find).transpose();
        let (mut columns, mut not_read) = (found.map_err(|error| written.other_sheets(error))?, Vec::new());
        if let (Rows::Parquet(_), Some(all)) = (&rows, &columns) {
            not_read = all.not_used();
            columns = Some(all.only(&all.used()));
        }
        Ok((Layout { file: file.to_owned(), input, written, columns, not_read }, rows))
    }

    /// A file that is not read from its start to its end: a stream is copied to a temporary file first, if it is shorter than `most`.
    fn whole(self, input: Box<dyn Read>, path: Option<&Path>, most: u64) -> Result<File, FileError> {
        if let Some(path) = path {
            return File::open(path).tried("the file cannot be read");
        }
        let whole = tempfile::tempfile_in(self.disk.dir()).and_then(|file| self.disk.file(file));
        let mut whole = whole.tried("cannot create a temporary file")?;
        let most = if self.reach == Reach::Start { most.min(MAX_START) } else { most };
        let copied = io::copy(&mut input.take(most), &mut whole).tried("the file cannot be unpacked")?;
        if copied == most {
            return Err(FileError::unusable(format!(
                "the file in it is longer than {} MiB; unpack it first: it is compressed inside",
                most >> 20
            )));
        }
        Ok(whole.into_file())
    }

    /// An input of which no more than `most` bytes are read, if only its start is.
    fn bounded(self, input: Box<dyn Read>, most: u64) -> Box<dyn Read> {
        match self.reach {
            Reach::Everything => input,
            Reach::Start => Box::new(StartOnly { input, left: most }),
        }
    }
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

fn is_called_jsonl(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
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

/// The start of an input. Reading more is an error: nothing that was asked for is so long.
struct StartOnly {
    input: Box<dyn Read>,
    left: u64,
}

impl Read for StartOnly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| {
            io::Error::other("the first 64 MiB hold hardly any rows; is this a file of contact records?")
        })?;
        Ok(read)
    }
}
