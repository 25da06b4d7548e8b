//! The keys of digests, in `keys/` of the data directory, readable by their owner only.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};
use contactd_core::{DigestKey, DigestKeys};

const FIRST: &str = "digest-001.key";

/// Reads the keys, oldest first by name. Where there is none, the first one is made, if it may be.
pub(crate) fn open(dir: &Path, may_make: bool) -> anyhow::Result<DigestKeys> {
    let mut names = list(dir)?;
    if names.is_empty() && may_make {
        make(dir)?;
        names = list(dir)?;
    }
    let keys = names.iter().map(|name| read(&dir.join(name))).collect::<anyhow::Result<Vec<_>>>()?;
    DigestKeys::new(keys).with_context(|| {
        format!("the keys of this store are missing from {}; restore them from a backup", dir.display())
    })
}

fn list(dir: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.starts_with("digest-") && name.ends_with(".key") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read(file: &Path) -> anyhow::Result<DigestKey> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the key {}", file.display()))?;
    let bytes: Option<Vec<u8>> =
        (0..32).map(|at| u8::from_str_radix(text.trim().get(2 * at..2 * at + 2)?, 16).ok()).collect();
    match bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()) {
        Some(bytes) if text.trim().len() == 64 => Ok(DigestKey::new(&bytes)),
        _ => bail!("{} is not a key: it has to hold 64 hex digits; restore it from a backup", file.display()),
    }
}

/// Makes the first key, whole or not at all. If another process was faster, its key stays.
fn make(dir: &Path) -> anyhow::Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness from the system: {error}"))?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let unfinished = dir.join(format!(".digest.{}.new", std::process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let linked = fs::hard_link(&unfinished, dir.join(FIRST));
    fs::remove_file(&unfinished)?;
    fs::File::open(dir)?.sync_all()?;
    match linked {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error.into()),
        _ => Ok(()),
    }
}

/// Adds the keys of another directory that are not in this one.
pub(crate) fn add_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut present =
        list(to)?.iter().map(|name| read(&to.join(name))).collect::<anyhow::Result<Vec<_>>>()?;
    let mut number = present.len();
    for name in list(from)? {
        let key = read(&from.join(&name))?;
        if present.iter().any(|known| known.id() == key.id()) {
            continue;
        }
        // In front of those that are there: new digests go on being made with the newest of them.
        number += 1;
        let copy = to.join(format!("digest-000-{number:03}.key"));
        fs::copy(from.join(&name), &copy)?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
        present.push(key);
    }
    Ok(())
}

/// Files in `keys/` that others than their owner can read.
pub(crate) fn exposed(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0))
        .map(|entry| entry.path().display().to_string())
        .collect()
}
