//! The answers so far, in a file next to the output: one JSON array per line, readable by its owner only.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::Kind;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::LookedUp;
use super::asking::{Answered, Question};
use super::urls::Urls;
use crate::durable;

/// About how long a line is.
const LINE_BYTES: usize = 192;

pub(crate) struct AnswerLog {
    path: PathBuf,
    file: File,
    places: Places,
}

/// Where the answers about each URL begin in the file, by kind. What is in them stays in the file.
struct Places {
    of_urls: Vec<[Option<NonZeroU64>; Kind::ALL.len()]>,
    /// Where the last complete line ends.
    end: u64,
}

/// A line: the name of the kind, the URL, the status, the value, the canonical form.
type Line<'a> = (Cow<'a, str>, Cow<'a, str>, Cow<'a, str>, Option<Cow<'a, str>>, Option<Cow<'a, str>>);

impl AnswerLog {
    /// Opens the journal of an output, and finds the answers of an earlier run. A journal of another service, or a file that
    /// is not a journal, is refused and not changed.
    pub(crate) fn open(output: &Path, service: &str, urls: &Urls) -> anyhow::Result<Self> {
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(".journal");
        let path = output.with_file_name(name);
        let what = || format!("cannot use the journal {}", path.display());
        let first = format!("{}\n", serde_json::json!({ "contactd": "enrich", "url": service }));
        if path.symlink_metadata().is_err() {
            durable::create(&path, first.as_bytes()).with_context(what)?;
        }
        let Some(file) = open_own(&path).with_context(what)? else {
            bail!("{} is not a file that only you can read; move it away to start again", path.display());
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another run is writing {}; wait until it has finished", output.display());
        }
        let Some(places) = Places::read(&file, &first, urls).with_context(what)? else {
            bail!(
                "{} belongs to a run with another --url, or is not a journal; move it away to start again",
                path.display()
            );
        };
        // A killed run may have left half a line: remove it, and look it up again.
        file.set_len(places.end).with_context(what)?;
        Ok(Self { path, file, places })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn has(&self, url: u32, kind: Kind) -> bool {
        self.places.of_urls[url as usize][kind as usize].is_some()
    }

    /// Writes answers to the journal, in one piece.
    pub(crate) fn add(&mut self, urls: &Urls, answered: Answered) -> anyhow::Result<()> {
        let mut lines = Vec::with_capacity(answered.len() * LINE_BYTES);
        for (Question { url, kind }, LookedUp { status, value, canonical }) in answered {
            self.places.note(url, kind, self.places.end + lines.len() as u64);
            serde_json::to_writer(&mut lines, &(kind.name(), urls.url(url), status, value, canonical))?;
            lines.push(b'\n');
        }
        self.places.end += lines.len() as u64;
        let write = self.file.write_all(&lines);
        write.with_context(|| format!("cannot write to the journal {}", self.path.display()))
    }

    /// Reads answers. Fast if they are asked for in the order in which they were written.
    pub(crate) fn reader(&self) -> anyhow::Result<AnswerReader<'_>> {
        let mut file = &self.file;
        let at = file.seek(SeekFrom::Start(0))?;
        Ok(AnswerReader { log: self, file: BufReader::new(file), at, line: Vec::new() })
    }

    /// Deletes the journal, once the output is complete.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

/// Opens a journal. `None` if it is a symbolic link, belongs to somebody else, or others can read it: the answers are
/// personal data.
fn open_own(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    Ok((metadata.is_file() && is_own && metadata.mode() & 0o077 == 0).then_some(file))
}

impl Places {
    fn note(&mut self, url: u32, kind: Kind, place: u64) {
        self.of_urls[url as usize][kind as usize] = NonZeroU64::new(place);
    }

    /// Reads a journal that begins with `first`. `None` if it begins with another line.
    fn read(file: &File, first: &str, urls: &Urls) -> anyhow::Result<Option<Self>> {
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut places = Self { of_urls: vec![<[_; Kind::ALL.len()]>::default(); urls.len()], end: 0 };
        places.end += reader.read_until(b'\n', &mut line)? as u64;
        if line != first.as_bytes() {
            return Ok(None);
        }
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            let Some((kind, url, ..)) = parsed(&line) else { break };
            let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
            // The file may have changed since: answers about other URLs stay unused.
            if let (Some(kind), Some(number)) = (kind, urls.number(&url)) {
                places.note(number, kind, places.end);
            }
            places.end += read as u64;
        }
        Ok(Some(places))
    }
}

/// A complete line. `None` if it is not one.
fn parsed(line: &[u8]) -> Option<Line<'_>> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

/// Reads the answers of a journal.
pub(crate) struct AnswerReader<'a> {
    log: &'a AnswerLog,
    file: BufReader<&'a File>,
    /// Where in the file it is.
    at: u64,
    line: Vec<u8>,
}

impl AnswerReader<'_> {
    pub(crate) fn looked_up(&mut self, url: u32, kind: Kind) -> anyhow::Result<Option<LookedUp>> {
        let Some(place) = self.log.places.of_urls[url as usize][kind as usize] else { return Ok(None) };
        let what = || format!("cannot read the journal {}", self.log.path.display());
        self.file.seek_relative(place.get().cast_signed() - self.at.cast_signed()).with_context(what)?;
        self.line.clear();
        let read = self.file.read_until(b'\n', &mut self.line).with_context(what)?;
        self.at = place.get() + read as u64;
        let (_, _, status, value, canonical) = parsed(&self.line).with_context(what)?;
        let owned = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned);
        Ok(Some(LookedUp {
            status: status.into_owned().into(),
            value: owned(value),
            canonical: owned(canonical),
        }))
    }
}
