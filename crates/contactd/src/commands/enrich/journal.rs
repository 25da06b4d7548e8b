//! The answers so far, in a file beside the output: one JSON array per line, for its owner only.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use contactd_core::Kind;

use super::Finding;

pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    findings: Findings,
}

type Findings = HashMap<(Kind, String), Finding>;

impl Journal {
    /// Opens the journal of an output, and reads what an earlier run left in it.
    pub(crate) fn open(output: &Path) -> anyhow::Result<Self> {
        let mut name = output.file_name().unwrap_or_default().to_owned();
        name.push(".journal");
        let path = output.with_file_name(name);
        let what = || format!("cannot use the journal {}", path.display());
        let file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(&path);
        let mut file = file.with_context(what)?;
        if rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            anyhow::bail!("another run is writing {}; wait for it", output.display());
        }
        let (findings, whole) = read(&file).with_context(what)?;
        // A kill may have left half a line: it is asked again.
        file.set_len(whole).with_context(what)?;
        file.seek(std::io::SeekFrom::End(0))?;
        Ok(Self { path, file, findings })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn finding(&self, kind: Kind, url: &str) -> Option<&Finding> {
        self.findings.get(&(kind, url.to_owned()))
    }

    /// Writes an answer down.
    pub(crate) fn add(&mut self, kind: Kind, url: &str, finding: &Finding) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(&(kind.name(), url, &finding.status, &finding.value))?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot write to the journal {}", self.path.display()))?;
        self.findings.insert((kind, url.to_owned()), finding.clone());
        Ok(())
    }

    /// Takes it away: the output is whole.
    pub(crate) fn remove(self) -> anyhow::Result<()> {
        fs::remove_file(&self.path).with_context(|| format!("cannot remove {}", self.path.display()))
    }
}

/// The whole lines of a journal, and where they end.
fn read(file: &File) -> anyhow::Result<(Findings, u64)> {
    let mut findings = HashMap::new();
    let mut whole = 0;
    let mut reader = BufReader::new(file);
    let mut line = String::new();
    loop {
        line.clear();
        let read = reader.read_line(&mut line)?;
        let Some(text) = line.strip_suffix('\n') else { break };
        let Ok((kind, url, status, value)) =
            serde_json::from_str::<(String, String, String, Option<String>)>(text)
        else {
            break;
        };
        if let Some(kind) = Kind::ALL.into_iter().find(|known| known.name() == kind) {
            findings.insert((kind, url), Finding { status, value });
        }
        whole += read as u64;
    }
    Ok((findings, whole))
}
