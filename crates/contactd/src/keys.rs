//! The keys for digests: in `keys/` of the data directory, readable by their owner only, or from another source.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use contactd_core::{DigestKey, DigestKeys, SecondFactorKey, TotpKeyError, hex};
use contactd_services::ReadSecondFactorKey;

use crate::data_dir::DataDir;
use crate::durable;

const FIRST: &str = "digest-001.key";

/// The key of second factors. No backup contains it.
pub(crate) const SECOND_FACTOR: &str = "second-factor.key";

/// Where the keys come from.
#[derive(Clone, Default)]
pub(crate) enum KeySource {
    /// `keys/` of the data directory, where the first key is created.
    #[default]
    DataDir,
    /// A file with one key per line.
    File(PathBuf),
    /// The keys themselves.
    Text(String),
}

impl KeySource {
    /// Where the keys come from, in words.
    pub(crate) fn words(&self, dir: &Path) -> String {
        match self {
            Self::DataDir => format!("in {}", dir.display()),
            Self::File(file) => format!("in {}", file.display()),
            Self::Text(_) => "from the environment".to_owned(),
        }
    }
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DataDir => "DataDir",
            Self::File(_) => "File",
            Self::Text(_) => "Text(<redacted>)",
        })
    }
}

type Key = [u8; 32];

/// The digest keys, oldest first. If the data directory has none and `may_make` is set, the first one is created.
pub(crate) fn digest(source: &KeySource, dir: &Path, may_make: bool) -> anyhow::Result<DigestKeys> {
    let keys = match given(source)? {
        Some(keys) => keys,
        None => {
            if list(dir)?.is_empty() && may_make {
                make(&dir.join(FIRST))?;
            }
            list(dir)?.iter().map(|name| read(&dir.join(name))).collect::<anyhow::Result<Vec<_>>>()?
        }
    };
    DigestKeys::new(keys.iter().map(DigestKey::new).collect()).with_context(|| {
        format!("the keys of this store are missing from {}; restore them from a backup", dir.display())
    })
}

/// Keys that do not come from the data directory.
fn given(source: &KeySource) -> anyhow::Result<Option<Vec<Key>>> {
    let (text, what) = match source {
        KeySource::DataDir => return Ok(None),
        KeySource::File(file) => {
            let what = file.display().to_string();
            (fs::read_to_string(file).with_context(|| format!("cannot read the keys in {what}"))?, what)
        }
        KeySource::Text(text) => (text.clone(), "a key from the environment".to_owned()),
    };
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let keys = words.map(|word| {
        hex::decode(word).with_context(|| format!("{what} is not a key: it must be 64 hex digits"))
    });
    keys.collect::<anyhow::Result<Vec<_>>>().map(Some)
}

/// Whether a directory exists and has digest keys.
pub(crate) fn are_in(dir: &Path) -> bool {
    list(dir).is_ok_and(|names| !names.is_empty())
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

fn read(file: &Path) -> anyhow::Result<Key> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read the key {}", file.display()))?;
    hex::decode(text.trim()).with_context(|| {
        format!("{} is not a key: it must contain 64 hex digits; restore it from a backup", file.display())
    })
}

/// Creates a key file. If another process was faster, its key stays.
fn make(file: &Path) -> anyhow::Result<()> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("cannot get random bytes from the system: {error}"))?;
    Ok(durable::create(file, hex::encode(&bytes).as_bytes())?)
}

/// Reads the key of second factors in a data directory, or makes it.
pub(crate) fn second_factor(dir: &DataDir) -> ReadSecondFactorKey {
    let (dir, file) = (dir.clone(), dir.keys().join(SECOND_FACTOR));
    Box::new(move |may_make| {
        let unusable = |error: anyhow::Error| TotpKeyError::Unusable(format!("{error:#}"));
        if !file.try_exists().map_err(|error| unusable(error.into()))? {
            if !may_make {
                return Ok(None);
            }
            make(&file).map_err(unusable)?;
            dir.give_to_owner();
        }
        Ok(Some(SecondFactorKey::new(&read(&file).map_err(unusable)?)))
    })
}

/// Copies the key of second factors of another directory, if it has one.
pub(crate) fn copy_second_factor(from: &Path, to: &Path) -> anyhow::Result<()> {
    if from.join(SECOND_FACTOR).try_exists()? {
        durable::copy(&from.join(SECOND_FACTOR), &to.join(SECOND_FACTOR))?;
    }
    Ok(())
}

/// Adds the digest keys of another directory that are not in this one.
pub(crate) fn add_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut present =
        list(to)?.iter().map(|name| read(&to.join(name))).collect::<anyhow::Result<Vec<_>>>()?;
    let mut number = present.len();
    for name in list(from)? {
        let key = read(&from.join(&name))?;
        if present.contains(&key) {
            continue;
        }
        // Sorted before the existing keys, so that new digests still use the newest of those.
        number += 1;
        durable::copy(&from.join(&name), &to.join(format!("digest-000-{number:03}.key")))?;
        present.push(key);
    }
    durable::sync_dir(to)?;
    Ok(())
}

/// Key files that not only their owner can read.
#[derive(Debug, Default)]
pub(crate) struct ExposedKeys {
    /// Those that every user can read or change.
    pub(crate) to_others: Vec<String>,
    /// Those that only the group can read or change besides.
    pub(crate) to_group: Vec<String>,
}

impl ExposedKeys {
    /// Looks at the permissions of the files in `dir` and of the one that `source` names.
    pub(crate) fn find(dir: &Path, source: &KeySource) -> Self {
        let in_dir = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let elsewhere = match source {
            KeySource::File(file) => Some(file.clone()),
            KeySource::DataDir | KeySource::Text(_) => None,
        };
        let mut exposed = Self::default();
        for path in in_dir.chain(elsewhere) {
            let mode = path.metadata().map_or(0, |metadata| metadata.permissions().mode());
            let name = path.display().to_string();
            if mode & 0o007 != 0 {
                exposed.to_others.push(name);
            } else if mode & 0o070 != 0 {
                exposed.to_group.push(name);
            }
        }
        exposed.to_others.sort();
        exposed.to_group.sort();
        exposed
    }

    /// Refuses keys that every user can read, and warns about those that the group can read.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        if !self.to_others.is_empty() {
            let (names, files) = (self.to_others.join(", "), self.to_others.join(" "));
            bail!("other users can read {names}; run `chmod 600 {files}` and start again");
        }
        if !self.to_group.is_empty() {
            let (names, files) = (self.to_group.join(", "), self.to_group.join(" "));
            tracing::warn!("the group can read {names}; unless it has to, run `chmod 600 {files}`");
        }
        Ok(())
    }
}
