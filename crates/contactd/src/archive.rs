//! The file format of a backup: a compressed tar archive. Its last entry, the manifest, lists the other files with their sizes
//! and checksums.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::{Observer, Progress, hex};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::durable;

const MANIFEST: &str = "manifest.json";
const VERSION: u32 = 1;

/// What a backup contains.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Manifest {
    version: u32,
    /// When the backup was started.
    pub(crate) made_at: String,
    /// Whether it is of a node of a cluster, whose tokens and opt-outs are in a database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_of_node: bool,
    files: Vec<ArchivedFile>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ArchivedFile {
    name: String,
    bytes: u64,
    sha256: String,
}

/// What is backed up.
#[derive(Debug)]
pub(crate) struct Content<'a> {
    pub(crate) dir: &'a Path,
    /// The names of files in it.
    pub(crate) files: &'a [String],
    pub(crate) made_at: String,
    /// Whether it is of a node of a cluster.
    pub(crate) is_of_node: bool,
}

/// Writes `content` to `target`, readable by its owner only, and syncs it.
pub(crate) fn write_file(target: &Path, content: Content<'_>, observer: Observer<'_>) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    let out = BufWriter::with_capacity(1 << 20, file);
    let file = write(out, content, observer)?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(())
}

/// Writes `content` to a stream. Returns the stream.
pub(crate) fn write<W: Write>(out: W, content: Content<'_>, observer: Observer<'_>) -> anyhow::Result<W> {
    let Content { dir, files, made_at, is_of_node } = content;
    let paths: Vec<PathBuf> = files.iter().map(|name| dir.join(name)).collect();
    let all =
        paths.iter().map(|path| path.metadata().map(|metadata| metadata.len())).sum::<io::Result<u64>>()?;
    let mut count = reporting("writing the backup", all, observer);
    let mut archive = tar::Builder::new(zstd::Encoder::new(out, 1)?);
    let mut manifest = Manifest { version: VERSION, made_at, is_of_node, files: Vec::new() };
    for (name, path) in files.iter().zip(&paths) {
        let counted = Counted { through: File::open(path)?, count: &mut count };
        append(&mut archive, name, path.metadata()?.len(), counted)?;
        manifest.files.push(entry(name, File::open(path)?)?);
    }
    let manifest = serde_json::to_vec_pretty(&manifest)?;
    append(&mut archive, MANIFEST, manifest.len() as u64, manifest.as_slice())?;
    let mut out = archive.into_inner()?.finish()?;
    out.flush()?;
    Ok(out)
}

/// Counts the bytes that go through it.
pub(crate) struct Counted<T, F> {
    pub(crate) through: T,
    pub(crate) count: F,
}

impl<R: Read, F: FnMut(u64)> Read for Counted<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.through.read(buffer).inspect(|&read| (self.count)(read as u64))
    }
}

impl<W: Write, F: FnMut(u64)> Write for Counted<W, F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.through.write(bytes).inspect(|&written| (self.count)(written as u64))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.through.flush()
    }
}

/// Reports how much of a step is done.
fn reporting<'a>(step: &'static str, all: u64, observer: Observer<'a>) -> impl FnMut(u64) + 'a {
    let mut done = 0;
    move |bytes| {
        done += bytes;
        observer(Progress::Copying { step, done, all: Some(all) });
    }
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: u64, data: impl Read) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o600);
    header.set_entry_type(tar::EntryType::Regular);
    archive.append_data(&mut header, name, data)
}

/// Reads a backup to its end and checks every file in it against the manifest. With `into`, the files are written there.
pub(crate) fn read(backup: &Path, into: Option<&Path>, observer: Observer<'_>) -> anyhow::Result<Manifest> {
    let what = || format!("{} is not a complete backup", backup.display());
    let file = File::open(backup).with_context(|| format!("cannot read {}", backup.display()))?;
    let step = if into.is_some() { "unpacking the backup" } else { "reading the backup" };
    let counted = Counted { count: reporting(step, file.metadata()?.len(), observer), through: file };
    let mut archive = tar::Archive::new(zstd::Decoder::new(counted).with_context(what)?);
    let mut found = Vec::new();
    let mut manifest = None;
    for item in archive.entries().with_context(what)? {
        let mut item = item.with_context(what)?;
        // A sparse file could be larger than any disk, and a link could lead elsewhere.
        if !item.header().entry_type().is_file() {
            bail!("{}: it contains something that is not a file", what());
        }
        let name = item.path().with_context(what)?.to_string_lossy().into_owned();
        if name == MANIFEST {
            manifest = Some(serde_json::from_reader::<_, Manifest>(&mut item).with_context(what)?);
        } else if let Some(dir) = into {
            let path = dir.join(plain(&name).with_context(what)?);
            DirBuilder::new().recursive(true).mode(0o700).create(path.parent().unwrap_or(dir))?;
            let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            io::copy(&mut item, &mut out).with_context(what)?;
            out.sync_all()?;
            durable::sync_parent(&path)?;
            found.push(entry(&name, File::open(&path)?)?);
        } else {
            found.push(entry(&name, &mut item).with_context(what)?);
        }
    }
    // Read to the end: a file that was cut off there is found only now.
    if io::copy(&mut archive.into_inner(), &mut io::sink()).is_err() {
        bail!("{}: its end is damaged", what());
    }
    let manifest = manifest.with_context(what)?;
    if manifest.version != VERSION {
        bail!("{} was made by a newer version; use a newer contactd", backup.display());
    }
    if manifest.files != found {
        bail!("{}: its content has changed since it was made", what());
    }
    Ok(manifest)
}

/// The name as a relative path; `None` if it would lead out of the directory it is written to.
fn plain(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

fn entry(name: &str, data: impl Read) -> io::Result<ArchivedFile> {
    let mut data = BufReader::with_capacity(1 << 20, data);
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let read = data.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        bytes += read as u64;
    }
    let sha256 = hex::encode(&hasher.finalize());
    Ok(ArchivedFile { name: name.to_owned(), bytes, sha256 })
}

#[cfg(test)]
#[path = "../../../fuzz/checks/backup.rs"]
mod checks;
#[cfg(test)]
#[path = "../../../fuzz/checks/seeds.rs"]
mod seeds;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_backup_is_read_and_nothing_is_written_beside_it() {
        let room = tempfile::tempdir().expect("a directory");
        let inputs = seeds::inputs("backup");
        let complete = inputs.iter().filter(|input| checks::check(room.path(), input)).count();
        assert!((2..inputs.len() / 2).contains(&complete), "{complete} of {}", inputs.len());
    }
}
