//! The answers so far, in a file next to the output: one JSON array per line, readable by its owner only.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::Kind;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};

use super::LookedUp;
use crate::durable;

pub(crate) struct AnswerLog {
    path: PathBuf,
    file: File,
    findings: KnownAnswers,
}

type KnownAnswers = HashMap<(Kind, String), LookedUp>;

impl AnswerLog {
    /// Opens the journal of an output, and reads the answers of an earlier run. A journal of another service, or a file that
    /// is not a journal, is refused and not changed.
    pub(crate) fn open(output: &Path, service: &str) -> anyhow::Result<Self> {
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(".journal");
        let path = output.with_file_name(name);
        let what = || format!("cannot use the journal {}", path.display());
        let first = format!("{}\n", serde_json::json!({ "contactd": "enrich", "url": service }));
        if path.symlink_metadata().is_err() {
            durable::create(&path, first.as_bytes()).with_context(what)?;
        }
        let Some(mut file) = open_own(&path).with_context(what)? else {
            bail!("{} is not a file that only you can read; move it away to start again", path.display());
        };
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another run is writing {}; wait until it has finished", output.display());
        }
        let Some((findings, whole)) = read(&file, &first).with_context(what)? else {
            bail!(
                "{} belongs to a run with another --url, or is not a journal; move it away to start again",
                path.display()
            );
        };
        // A killed run may have left half a line: remove it, and look it up again.
        file.set_len(whole).with_context(what)?;
        file.seek(io::SeekFrom::End(0))?;
        Ok(Self { path, file, findings })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn looked_up(&self, kind: Kind, url: &str) -> Option<&LookedUp> {
        self.findings.get(&(kind, url.to_owned()))
    }

    /// Writes an answer to the journal.
    pub(crate) fn add(&mut self, kind: Kind, url: &str, finding: &LookedUp) -> anyhow::Result<()> {
        let mut line =
            serde_json::to_string(&(kind.name(), url, &finding.status, &finding.value, &finding.canonical))?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot write to the journal {}", self.path.display()))?;
        self.findings.insert((kind, url.to_owned()), finding.clone());
        Ok(())
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

/// The answers in a journal that begins with `first`, and where its last complete line ends. `None` if it begins
/// with another line.
fn read(file: &File, first: &str) -> anyhow::Result<Option<(KnownAnswers, u64)>> {
    let mut findings = HashMap::new();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line != first.as_bytes() {
        return Ok(None);
    }
    let mut whole = line.len() as u64;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let Ok((kind, url, status, value, canonical)) =
            serde_json::from_slice::<(String, String, String, Option<String>, Option<String>)>(text)
        else {
            break;
        };
        if let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) {
            findings.insert((kind, url), LookedUp { status, value, canonical });
        }
        whole += read as u64;
    }
    Ok(Some((findings, whole)))
}
