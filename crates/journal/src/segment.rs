//! Segments: the files of a journal. Each is named after the number of its first line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::file::failed;
use crate::line::Line;
use contactd_core::JournalError;

const PLAIN: &str = ".jsonl";
const COMPRESSED: &str = ".jsonl.zst";

/// Much longer than any line, in bytes.
const MAX_LINE: u64 = 64 * 1024;

/// One file of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The number of its first line.
    pub first: u64,
    /// The path of its file.
    pub path: PathBuf,
    /// Whether it is compressed. Only closed segments are.
    pub is_compressed: bool,
}

/// Every segment in `dir`, oldest first; none if the directory does not exist. Files at the end of the list that
/// do not begin with the line in their name are left out: a stray file must not close the segment before it.
pub fn list(dir: &Path) -> Result<Vec<Segment>, JournalError> {
    let mut segments = list_all(dir)?;
    while segments.last().is_some_and(|last| !last.is_begun()) {
        segments.pop();
    }
    Ok(segments)
}

/// Every file with the name of a segment, oldest first.
pub(crate) fn list_all(dir: &Path) -> Result<Vec<Segment>, JournalError> {
    // If a file is renamed while its directory is read, the listing may contain neither name. If two listings
    // agree, no segment was renamed or created in between.
    let mut listed = list_once(dir)?;
    loop {
        let again = list_once(dir)?;
        if again.iter().map(|segment| segment.first).eq(listed.iter().map(|segment| segment.first)) {
            return Ok(again);
        }
        listed = again;
    }
}

fn list_once(dir: &Path) -> Result<Vec<Segment>, JournalError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("cannot read", dir))?,
    };
    let mut segments = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed("cannot read", dir))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        let is_compressed = name.ends_with(COMPRESSED);
        let stem = name.strip_suffix(if is_compressed { COMPRESSED } else { PLAIN });
        if let Some(first) = stem.and_then(|stem| stem.parse().ok()) {
            segments.push(Segment { first, path, is_compressed });
        }
    }
    // If the server was killed while compressing a segment, both files exist: use the plain one.
    segments.sort_by_key(|segment| (segment.first, segment.is_compressed));
    segments.dedup_by_key(|segment| segment.first);
    Ok(segments)
}

/// The path of the segment that begins with line `first`.
pub(crate) fn path(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("{first:012}{PLAIN}"))
}

impl Segment {
    /// The file name, without the directory.
    pub fn name(&self) -> String {
        self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }

    /// Whether it has its first line. A compressed segment is not checked: it was closed by a later one.
    fn is_begun(&self) -> bool {
        let mut start = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(MAX_LINE).read_to_end(&mut start));
        match read {
            Ok(_) if !self.is_compressed => {
                let line =
                    start.split_inclusive(|&b| b == b'\n').next().and_then(|line| line.strip_suffix(b"\n"));
                line.and_then(Line::parse).is_some_and(|line| line.seq == self.first)
            }
            // Compressed since the listing, or unreadable: reading it will report the error.
            _ => true,
        }
    }

    /// The path of its compressed form, whether that exists or not.
    pub(crate) fn compressed_path(&self) -> PathBuf {
        self.path.with_extension("jsonl.zst")
    }

    /// Its lines, decompressed.
    pub(crate) fn read(&self) -> Result<Box<dyn BufRead + Send>, JournalError> {
        self.read_from(0)
    }

    /// Its lines, decompressed, starting at byte `offset`; none if it is shorter.
    pub(crate) fn read_from(&self, offset: u64) -> Result<Box<dyn BufRead + Send>, JournalError> {
        let (mut file, is_compressed) = self.open()?;
        if is_compressed {
            let unpacked = zstd::Decoder::new(file).map_err(failed("cannot decompress", &self.path))?;
            let mut unpacked = BufReader::with_capacity(1 << 18, unpacked);
            io::copy(&mut unpacked.by_ref().take(offset), &mut io::sink())
                .map_err(failed("cannot decompress", &self.path))?;
            return Ok(Box::new(unpacked));
        }
        file.seek(SeekFrom::Start(offset)).map_err(failed("cannot read", &self.path))?;
        Ok(Box::new(BufReader::with_capacity(1 << 18, file)))
    }

    /// Its file, and whether that is compressed. It may have been compressed since it was listed.
    fn open(&self) -> Result<(File, bool), JournalError> {
        let (file, is_compressed) = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.is_compressed => {
                (File::open(self.compressed_path()), true)
            }
            file => (file, self.is_compressed),
        };
        Ok((file.map_err(failed("cannot read", &self.path))?, is_compressed))
    }
}

/// Creates a segment with content `text` that only its owner can access. It gets its name only after its content
/// is on disk: until then, another attempt may write different content.
pub(crate) fn make(dir: &Path, first: u64, text: &[u8]) -> io::Result<File> {
    let unfinished = path(dir, first).with_extension("jsonl.new");
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&unfinished)?;
    file.set_len(0)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&unfinished, path(dir, first))?;
    Ok(file)
}
