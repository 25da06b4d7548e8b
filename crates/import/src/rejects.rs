//! Rejects files: one for each input, in its format. It holds every row of which a value was rejected, as it was, with its line,
//! column and reason, and can be corrected and imported again.
//!
//! A file is written under a temporary name that did not exist, for its owner only, because it holds personal data. When all
//! rows are read, it is renamed. No symbolic link is followed, and only a rejects file is written over.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use contactd_core::{BudgetedFile, DiskBudget, csv_cell, unmarked};
use csv::ByteRecord;
use tempfile::TempPath;

use crate::columns::{REJECTED, REJECTED_ROW};
use crate::dialect::Dialect;
use crate::header::Columns;
use crate::json_rows;
use crate::layout::{Layout, Written};
use crate::read_row::Fault;
use crate::rows::{Content, Row};
use crate::{Encoding, FileError};

/// No more rejected rows are written to a file that has this many bytes. A small compressed file can hold any number of them.
const MOST_KEPT: u64 = 100 << 20;

/// Where the rejected rows of all inputs are written.
pub struct Rejects {
    target: Target,
    inputs: Vec<PathBuf>,
    /// The file of the input that is being read; it is made when the first row is rejected.
    current: Option<Current>,
    /// Complete files that have no name yet.
    complete: Vec<(PathBuf, TempPath)>,
    written: Vec<PathBuf>,
    /// Rows that were left out of a file that is as long as it may be.
    not_kept: u64,
    disk: DiskBudget,
}

enum Target {
    Nowhere,
    /// This file for the first input. The others get its name with their number.
    Chosen(PathBuf),
    /// Next to each input, or in the first of these directories that can be written to.
    Beside(Vec<PathBuf>),
}

struct Current {
    input: usize,
    path: PathBuf,
    writer: Option<Writer>,
}

impl Rejects {
    /// Writes rejected rows of the first input to `chosen`, and those of the second and later ones to the same name with `.2`,
    /// `.3`, … before its ending; or without a choice to the name of each input with `.rejects.csv` or `.rejects.jsonl`, in the
    /// first of `otherwise` that can be written to if its own directory cannot. Fails if the chosen file is one of the `inputs` or an
    /// existing file of another kind.
    pub fn to(
        chosen: Option<PathBuf>,
        inputs: &[PathBuf],
        otherwise: Vec<PathBuf>,
    ) -> Result<Self, FileError> {
        let target = chosen.map_or(Target::Beside(otherwise), Target::Chosen);
        let rejects = Self { inputs: inputs.to_vec(), ..Self::with(target) };
        if let Target::Chosen(path) = &rejects.target {
            rejects.refuse(path)?;
        }
        Ok(rejects)
    }

    /// Discards rejected rows.
    pub fn nowhere() -> Self {
        Self::with(Target::Nowhere)
    }

    fn with(target: Target) -> Self {
        Self {
            target,
            inputs: Vec::new(),
            current: None,
            complete: Vec::new(),
            written: Vec::new(),
            not_kept: 0,
            disk: DiskBudget::new(PathBuf::new()),
        }
    }

    /// Writes within this budget.
    pub(crate) fn write_within(&mut self, disk: &DiskBudget) {
        self.disk = disk.clone();
    }

    /// How many rejected rows are not in the files, because one has [`MOST_KEPT`] bytes.
    pub(crate) fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// Prepares for the rows of the next input. Fails if its file must not be written, before many rows are read.
    pub(crate) fn begin(&mut self, layout: &Layout) -> Result<(), FileError> {
        self.complete_current()?;
        let Some(path) = self.path_for(layout) else { return Ok(()) };
        self.refuse(&path)?;
        self.current = Some(Current { input: layout.input, path, writer: None });
        Ok(())
    }

    /// Adds a row of which something was rejected.
    pub(crate) fn add(&mut self, layout: &Layout, faults: &[Fault], row: &Row) -> Result<(), FileError> {
        let Some(current) = self.current.as_mut().filter(|current| current.input == layout.input) else {
            return Ok(());
        };
        let unwritable = |error| FileError::RejectsUnwritable { path: current.path.clone(), error };
        let writer = match &mut current.writer {
            Some(writer) => writer,
            None => {
                current.writer.insert(Writer::begin(&current.path, layout, &self.disk).map_err(unwritable)?)
            }
        };
        if writer.written() >= MOST_KEPT {
            self.not_kept += 1;
            return Ok(());
        }
        writer.write(layout, faults, row).map_err(unwritable)
    }

    /// Completes all files and gives them their names.
    pub(crate) fn finish(&mut self) -> Result<(), FileError> {
        self.complete_current()?;
        for (path, _) in &self.complete {
            // Something else may have got this name in the meantime.
            self.refuse(path)?;
        }
        for (path, temporary) in std::mem::take(&mut self.complete) {
            temporary
                .persist(&path)
                .map_err(|error| FileError::RejectsUnwritable { path: path.clone(), error: error.error })?;
            self.written.push(path);
        }
        Ok(())
    }

    /// The files that were written, without devices.
    pub fn written(&self) -> &[PathBuf] {
        &self.written
    }

    fn complete_current(&mut self) -> Result<(), FileError> {
        let Some(Current { path, writer: Some(writer), .. }) = self.current.take() else { return Ok(()) };
        match writer.complete() {
            Ok(Some(temporary)) => self.complete.push((path, temporary)),
            Ok(None) => {}
            Err(error) => return Err(FileError::RejectsUnwritable { path, error }),
        }
        Ok(())
    }

    fn path_for(&self, layout: &Layout) -> Option<PathBuf> {
        match &self.target {
            Target::Nowhere => None,
            Target::Chosen(path) if layout.input == 0 || is_device(path) => Some(path.clone()),
            Target::Chosen(path) => Some(numbered(path, layout.input + 1)),
            Target::Beside(otherwise) => {
                // Not next to a pipe, whatever its path.
                let file = self.inputs.get(layout.input).filter(|file| file.is_file());
                let mut name = file.map_or("stdin".into(), |file| file.as_os_str().to_owned());
                name.push(if layout.columns.is_some() { ".rejects.csv" } else { ".rejects.jsonl" });
                let path = writable(PathBuf::from(name), otherwise);
                // The same input may be named twice.
                let is_taken = self.complete.iter().any(|(taken, _)| *taken == path);
                Some(if is_taken { numbered(&path, layout.input + 1) } else { path })
            }
        }
    }

    /// Fails if rejected rows must not be written here.
    fn refuse(&self, path: &Path) -> Result<(), FileError> {
        let Ok(there) = path.symlink_metadata() else { return Ok(()) };
        let is_same = |input: &PathBuf| {
            let input = if input == Path::new("-") { Path::new("/dev/stdin") } else { input };
            input.metadata().is_ok_and(|input| (input.dev(), input.ino()) == (there.dev(), there.ino()))
        };
        if self.inputs.iter().any(is_same) {
            return Err(FileError::RejectsAreInput(path.to_owned()));
        }
        if there.is_symlink() {
            return Err(FileError::RejectsAreLink(path.to_owned()));
        }
        if there.is_dir() || there.is_file() && !holds_rejects(path) {
            return Err(FileError::RejectsTaken(path.to_owned()));
        }
        Ok(())
    }
}

/// The same name in the first directory that can be written to.
fn writable(path: PathBuf, otherwise: &[PathBuf]) -> PathBuf {
    let is_writable = |dir: &Path| tempfile::tempfile_in(dir).is_ok();
    let (Some(name), false) = (path.file_name(), is_writable(dir_of(&path))) else { return path };
    let other = otherwise.iter().find(|dir| is_writable(dir)).map(|dir| dir.join(name));
    other.unwrap_or(path)
}

fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether this is a device or a pipe: it is written to, not replaced.
fn is_device(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|there| !there.is_file() && !there.is_dir() && !there.is_symlink())
}

/// The name of a file with a number before its ending: `rejects.csv` is `rejects.2.csv`.
fn numbered(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// Whether a file is empty or holds the rejects of an earlier import.
fn holds_rejects(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let text = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&start);
    let text = match text.get(..4) {
        Some(sep) if sep.eq_ignore_ascii_case(b"sep=") => {
            text.splitn(2, |&byte| byte == b'\n').nth(1).unwrap_or_default()
        }
        _ => text,
    };
    let name = text.strip_prefix(b"{").unwrap_or(text).trim_ascii_start();
    let name = name.strip_prefix(b"\"").unwrap_or(name);
    read.is_ok() && (start.is_empty() || name.starts_with(REJECTED[0].as_bytes()))
}

/// A rejects file that is being written.
struct Writer {
    rows: RowWriter,
    /// Its temporary name, unless it is a device.
    temporary: Option<TempPath>,
}

enum RowWriter {
    Csv(Box<csv::Writer<BudgetedFile>>),
    Json(BufWriter<BudgetedFile>),
}

impl Writer {
    /// Makes the file and writes what stands before the first row.
    fn begin(path: &Path, layout: &Layout, disk: &DiskBudget) -> io::Result<Self> {
        let (file, temporary) = create(path)?;
        let mut file = disk.file(file)?;
        let Some(columns) = &layout.columns else {
            return Ok(Self { rows: RowWriter::Json(BufWriter::new(file)), temporary });
        };
        let (Dialect { delimiter, has_sep_line }, has_mark) = match &layout.written {
            // It is written in UTF-8, which Excel recognises by a mark.
            Written::Csv { dialect, has_mark, encoding } => {
                (*dialect, *has_mark || encoding.get() != Encoding::UTF8)
            }
            Written::Xlsx { .. } => (Dialect::COMMAS, true),
            Written::Parquet | Written::Json { .. } => (Dialect::COMMAS, false),
        };
        if has_mark {
            file.write_all(b"\xEF\xBB\xBF")?;
        }
        if has_sep_line {
            file.write_all(&[b"sep=".as_slice(), &[delimiter], b"\n"].concat())?;
        }
        let mut writer = csv::WriterBuilder::new().flexible(true).delimiter(delimiter).from_writer(file);
        let names = kept(&columns.header, columns);
        writer
            .write_record(REJECTED.map(|name| Cow::Borrowed(name.as_bytes())).into_iter().chain(names))
            .map_err(of_system)?;
        Ok(Self { rows: RowWriter::Csv(Box::new(writer)), temporary })
    }

    fn write(&mut self, layout: &Layout, faults: &[Fault], row: &Row) -> io::Result<()> {
        let joined = |texts: Vec<&str>| texts.join(" ");
        let line = row.line.to_string();
        let columns = joined(faults.iter().map(|fault| &*fault.column).collect());
        let reasons = joined(faults.iter().map(|fault| fault.reason).collect());
        match (&mut self.rows, &row.content, &layout.columns) {
            (RowWriter::Csv(writer), Content::Fields(fields), Some(header)) => {
                let about = [line, columns, reasons].map(|text| Cow::Owned(text.into_bytes()));
                writer.write_record(about.into_iter().chain(kept(fields, header))).map_err(of_system)?;
                Ok(())
            }
            (RowWriter::Json(writer), Content::Json(text), _) => {
                write_object(writer, &[&line, &columns, &reasons], text)
            }
            _ => Err(io::Error::other("a row of another format")),
        }
    }

    fn written(&self) -> u64 {
        match &self.rows {
            RowWriter::Csv(writer) => writer.get_ref().written(),
            RowWriter::Json(writer) => writer.get_ref().written(),
        }
    }

    /// Flushes everything to the disk. Gives the file, unless it is a device.
    fn complete(self) -> io::Result<Option<TempPath>> {
        let file = match self.rows {
            RowWriter::Csv(writer) => writer.into_inner().map_err(csv::IntoInnerError::into_error)?,
            RowWriter::Json(writer) => writer.into_inner().map_err(io::IntoInnerError::into_error)?,
        };
        if self.temporary.is_some() {
            file.file().sync_all()?;
        }
        Ok(self.temporary)
    }
}

/// The error of the system that a writer met, which says whether the disk is full.
fn of_system(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        _ => io::Error::other("a row cannot be written"),
    }
}

/// The cells of a row as they are written, without those that a rejects file added.
fn kept<'a>(fields: &'a ByteRecord, columns: &'a Columns) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let is_kept = |place: usize| !columns.about_rejects.contains(&place);
    let kept = fields.iter().enumerate().filter(move |(place, _)| is_kept(*place));
    kept.map(|(_, field)| cell(field, columns.is_csv))
}

/// A cell that a spreadsheet does not take for a formula. In a CSV it may be marked already.
fn cell(field: &[u8], is_marked: bool) -> Cow<'_, [u8]> {
    match std::str::from_utf8(field) {
        Ok(text) => match csv_cell(if is_marked { unmarked(text) } else { text }) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Err(_) => {
            let text = String::from_utf8_lossy(field);
            let is_formula = !text.starts_with('\'') && csv_cell(&text).len() > text.len();
            if is_formula { Cow::Owned([b"'", field].concat()) } else { Cow::Borrowed(field) }
        }
    }
}

/// Writes a JSON line with what was rejected before its own fields. A line that is no object is written as a text.
fn write_object(writer: &mut impl Write, about: &[&str; 3], text: &[u8]) -> io::Result<()> {
    let [line, columns, reasons] = about;
    let mut fields = format!(r#"{{"{}":{line}"#, REJECTED[0]).into_bytes();
    for (name, text) in [(REJECTED[1], columns), (REJECTED[2], reasons)] {
        write!(fields, r#","{name}":{}"#, serde_json::Value::from(*text))?;
    }
    writer.write_all(&fields)?;
    let text = &*without_rejects(text);
    match text.strip_prefix(b"{").map(<[u8]>::trim_ascii_start) {
        Some(rest) if rest.starts_with(b"}") => writer.write_all(rest)?,
        Some(rest) => {
            writer.write_all(b",")?;
            writer.write_all(rest)?;
        }
        None => {
            let text = serde_json::Value::from(String::from_utf8_lossy(text));
            write!(writer, r#","{REJECTED_ROW}":{text}}}"#)?;
        }
    }
    writer.write_all(b"\n")
}

/// A line without what an earlier rejects file said about it.
fn without_rejects(text: &[u8]) -> Cow<'_, [u8]> {
    let name = format!("\"{}\"", REJECTED[0]);
    if !text.windows(name.len()).any(|part| part == name.as_bytes()) {
        return Cow::Borrowed(text);
    }
    let Ok(mut row) = json_rows::object(text) else { return Cow::Borrowed(text) };
    for name in REJECTED {
        row.remove(name);
    }
    match row.get(REJECTED_ROW) {
        Some(serde_json::Value::String(row)) => Cow::Owned(row.clone().into_bytes()),
        _ => Cow::Owned(serde_json::Value::Object(row).to_string().into_bytes()),
    }
}

/// Opens a device, or makes a file with a temporary name: exclusively, with a random name, 0600; removed if it is dropped before it
/// gets its name.
fn create(path: &Path) -> io::Result<(File, Option<TempPath>)> {
    if is_device(path) {
        return Ok((OpenOptions::new().write(true).open(path)?, None));
    }
    let temporary =
        tempfile::Builder::new().prefix(".contactd-rejects-").suffix(".unfinished").tempfile_in(dir_of(path));
    let file = temporary?;
    let (file, temporary) = file.into_parts();
    Ok((file, Some(temporary)))
}
