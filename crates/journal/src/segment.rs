//! Segments: the files of a journal. Each is named after the number of its first line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::JournalError;
use crate::file::{failed, give_to_owner};
use crate::lists::LISTS;

const PLAIN: &str = ".jsonl";
const COMPRESSED: &str = ".jsonl.zst";

/// The copies of all seals.
pub(crate) const SEALS: &str = "seals.jsonl";
/// The end of the name of a file that was found in the journal's directory and is not a part of it.
const SET_ASIDE: &str = ".foreign";

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

/// Every file with the name of a segment, oldest first; none if the directory does not exist. Whether they are
/// segments of this journal is for the reader of lines to find out.
pub fn list(dir: &Path) -> Result<Vec<Segment>, JournalError> {
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
    let mut segments = Vec::new();
    for path in files(dir)? {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if let Some((first, is_compressed)) = parse_name(name) {
            segments.push(Segment { first, path, is_compressed });
        }
    }
    // If the server was killed while compressing a segment, both files exist: use the plain one.
    segments.sort_by_key(|segment| (segment.first, segment.is_compressed));
    segments.dedup_by_key(|segment| segment.first);
    Ok(segments)
}

fn files(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("cannot read", dir))?,
    };
    entries.map(|entry| Ok(entry.map_err(failed("cannot read", dir))?.path())).collect()
}

/// The number in the name of a segment, and whether it is compressed. Only the exact form counts.
fn parse_name(name: &str) -> Option<(u64, bool)> {
    let is_compressed = name.ends_with(COMPRESSED);
    let stem = name.strip_suffix(if is_compressed { COMPRESSED } else { PLAIN })?;
    let first: u64 = stem.parse().ok()?;
    (first > 0 && stem == format!("{first:012}")).then_some((first, is_compressed))
}

/// The names of files that do not belong into a journal's directory.
pub(crate) fn strange(dir: &Path) -> Result<Vec<String>, JournalError> {
    /// The ends of names that are ours for a while, or that hold what was set aside.
    const OURS: [&str; 4] = [".new", ".unfinished", ".damaged", SET_ASIDE];
    let mut names: Vec<String> = files(dir)?
        .iter()
        .filter_map(|path| path.file_name().map(|name| name.to_string_lossy().into_owned()))
        .filter(|name| name != SEALS && name != LISTS && parse_name(name).is_none())
        .filter(|name| !OURS.iter().any(|end| name.ends_with(end)))
        .collect();
    names.sort();
    Ok(names)
}

/// Renames a file that is not a segment of this journal, so that it is in nobody's way.
pub(crate) fn set_aside(path: &Path) -> Result<(), JournalError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    tracing::error!(file = name, "this file is not a part of the audit journal; it is renamed");
    let free =
        (1..).map(|n| path.with_file_name(format!("{name}.{n}{SET_ASIDE}"))).find(|aside| !aside.exists());
    let aside = free.unwrap_or_else(|| path.with_extension("damaged"));
    fs::rename(path, &aside).map_err(failed("cannot rename", path))
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

    /// The path of its compressed form, whether that exists or not.
    pub(crate) fn compressed_path(&self) -> PathBuf {
        self.path.with_extension("jsonl.zst")
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
    give_to_owner(&unfinished)?;
    file.sync_all()?;
    fs::rename(&unfinished, path(dir, first))?;
    Ok(file)
}
