//! The answers so far, in a file next to the output: one JSON array per line, readable by its owner only.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use contactd_core::Kind;

use super::LookedUp;

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
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = file.with_context(what)?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            anyhow::bail!("another run is writing {}; wait until it has finished", output.display());
        }
        let first = format!("{}\n", serde_json::json!({ "contactd": "enrich", "url": service }));
        let (findings, whole) = match read(&file, &first).with_context(what)? {
            Read::Journal(findings, whole) => (findings, whole),
            Read::Nothing => (KnownAnswers::new(), 0),
            Read::Another => anyhow::bail!(
                "{} belongs to a run with another --url, or is not a journal; move it away to start again",
                path.display()
            ),
        };
        // A killed run may have left half a line: remove it, and look it up again.
        file.set_len(whole).with_context(what)?;
        file.seek(std::io::SeekFrom::End(0))?;
        if whole == 0 {
            file.write_all(first.as_bytes()).with_context(what)?;
        }
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
        let mut line = serde_json::to_string(&(kind.name(), url, &finding.status, &finding.value))?;
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

enum Read {
    /// The answers in it, and where its last complete line ends.
    Journal(KnownAnswers, u64),
    /// It is empty, or even its first line is incomplete.
    Nothing,
    Another,
}

/// Reads the complete lines of a journal that begins with `first`.
fn read(file: &File, first: &str) -> anyhow::Result<Read> {
    let mut findings = HashMap::new();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    reader.read_until(b'\n', &mut line)?;
    if line != first.as_bytes() {
        return Ok(if first.as_bytes().starts_with(&line) { Read::Nothing } else { Read::Another });
    }
    let mut whole = line.len() as u64;
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        let Some(text) = line.strip_suffix(b"\n") else { break };
        let Ok((kind, url, status, value)) =
            serde_json::from_slice::<(String, String, String, Option<String>)>(text)
        else {
            break;
        };
        if let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) {
            findings.insert((kind, url), LookedUp { status, value });
        }
        whole += read as u64;
    }
    Ok(Read::Journal(findings, whole))
}
