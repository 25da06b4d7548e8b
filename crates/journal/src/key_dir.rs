//! The files in `keys/` that belong to the journal: the keys of the epoch, and what was signed last.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use contactd_core::{Chain, RootKey, Timestamp, hex};
use ed25519_dalek::SigningKey;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

use crate::JournalError;
use crate::epoch::EpochKeys;
use crate::file::{failed, give_to_owner, sync_dir};

const PREFIX: &str = "journal-epoch-";
const SUFFIX: &str = ".key";
/// What was signed last.
const ANCHOR: &str = "journal-signed";
/// The length of its first part, which is overwritten in place.
const ANCHOR_BYTES: usize = 256;
/// The length of its second part: the number and the chain value of the last line, signed or not.
const LAST_BYTES: usize = 24;

/// Whether a file in `keys/` is one of the journal's. Such files are not part of a backup.
pub fn is_journal_key(name: &str) -> bool {
    name.starts_with(PREFIX) || name == ANCHOR
}

/// The directory with the journal's keys.
#[derive(Clone, Debug)]
pub struct KeyDir {
    dir: PathBuf,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenKeys {
    root: RootKey,
    epoch: u64,
    begun_at: i64,
    secret: String,
    signing: String,
}

/// The last line that a checkpoint signed, or was about to sign. It is written before the checkpoint reveals its
/// key, so a journal that ends before this line was cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) root: RootKey,
    /// The number of the checkpoint.
    pub(crate) number: u64,
    /// The line before the checkpoint.
    pub(crate) seq: u64,
    pub(crate) chain: Chain,
}

/// What is noted about the end of a journal, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noted {
    /// What was signed last.
    pub(crate) anchor: Option<Anchor>,
    /// The number and the chain value of the last line that was written.
    pub(crate) last: Option<(u64, Chain)>,
}

impl KeyDir {
    /// The keys in this directory, which must exist.
    pub fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// The keys of every epoch that are here, oldest first. There are two only for a moment.
    pub(crate) fn epochs(&self) -> Result<Vec<EpochKeys>, JournalError> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(failed("cannot read", &self.dir))?,
        };
        for entry in entries {
            let path = entry.map_err(failed("cannot read", &self.dir))?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
                continue;
            }
            match fs::read(&path) {
                // It was being destroyed when the process was killed.
                Ok(text) if text.iter().all(|&byte| byte == 0) => {
                    let _ = fs::remove_file(&path);
                }
                Ok(text) => found.push(parse(&Zeroizing::new(text)).ok_or_else(|| {
                    JournalError::Key(format!(
                        "{} is damaged; move it away, and the next server begins a new journal after the old one",
                        path.display()
                    ))
                })?),
                // The epoch has just ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed("cannot read", &path)(error)),
            }
        }
        found.sort_by_key(|keys| keys.epoch);
        Ok(found)
    }

    fn path(&self, epoch: u64) -> PathBuf {
        self.dir.join(format!("{PREFIX}{epoch:06}{SUFFIX}"))
    }

    /// Writes the keys of an epoch. They are on disk when this returns.
    pub(crate) fn store(&self, keys: &EpochKeys) -> Result<(), JournalError> {
        let path = self.path(keys.epoch);
        self.store_at(keys, &path).map_err(failed("cannot write", &path))
    }

    fn store_at(&self, keys: &EpochKeys, path: &Path) -> io::Result<()> {
        let mut written = WrittenKeys {
            root: keys.root,
            epoch: keys.epoch,
            begun_at: keys.begun_at.millis(),
            secret: hex::encode(&*keys.secret),
            signing: hex::encode(keys.signing.as_bytes()),
        };
        let text = Zeroizing::new(serde_json::to_vec(&written)?);
        written.secret.zeroize();
        written.signing.zeroize();
        let unfinished = path.with_extension("new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(&text)?;
        give_to_owner(&unfinished)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        sync_dir(&self.dir)
    }

    /// Overwrites and removes the keys of an epoch.
    pub(crate) fn destroy(&self, epoch: u64) -> Result<(), JournalError> {
        let path = self.path(epoch);
        let destroyed = || -> io::Result<()> {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.write_all_at(&vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(0)], 0)?;
            file.sync_all()?;
            fs::remove_file(&path)?;
            sync_dir(&self.dir)
        };
        match destroyed() {
            // It was destroyed before.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.dir.is_dir() => Ok(()),
            destroyed => destroyed.map_err(failed("cannot remove", &path)),
        }
    }

    /// What is noted about the end of the journal.
    pub(crate) fn noted(&self) -> Noted {
        let text = fs::read(self.dir.join(ANCHOR)).unwrap_or_default();
        Noted { anchor: parse_anchor(&text), last: parse_last(&text) }
    }

    /// The file for [`write_anchor`].
    pub(crate) fn open_anchor(&self) -> Result<File, JournalError> {
        let path = self.dir.join(ANCHOR);
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let open = open.and_then(|file| give_to_owner(&path).map(|()| file));
        open.map_err(failed("cannot open", &path))
    }
}

/// Notes what is signed. It survives a kill. It is not synced: after a power cut, an older one is as good.
pub(crate) fn write_anchor(file: &File, anchor: &Anchor) -> io::Result<()> {
    let mut text = serde_json::to_vec(anchor)?;
    text.resize(ANCHOR_BYTES, b' ');
    file.write_all_at(&text, 0)
}

/// Notes the last line that was written, like [`write_anchor`].
pub(crate) fn write_last(file: &File, seq: u64, chain: Chain) -> io::Result<()> {
    let mut last = [0; LAST_BYTES];
    last[..8].copy_from_slice(&seq.to_le_bytes());
    last[8..].copy_from_slice(&chain.0);
    file.write_all_at(&last, ANCHOR_BYTES as u64)
}

impl Noted {
    /// The same if it is about the journal with this root; otherwise nothing.
    pub(crate) fn of(self, root: RootKey) -> Self {
        let is_of = self.anchor.as_ref().is_some_and(|anchor| anchor.root == root);
        if is_of { self } else { Self::default() }
    }
}

fn parse_anchor(text: &[u8]) -> Option<Anchor> {
    serde_json::from_slice(text.get(..ANCHOR_BYTES)?.trim_ascii_end()).ok()
}

fn parse_last(text: &[u8]) -> Option<(u64, Chain)> {
    let (seq, chain) = text.get(ANCHOR_BYTES..ANCHOR_BYTES + LAST_BYTES)?.split_at(8);
    let seq = u64::from_le_bytes(seq.try_into().ok()?);
    (seq > 0).then_some((seq, Chain(chain.try_into().ok()?)))
}

fn parse(text: &[u8]) -> Option<EpochKeys> {
    let mut written: WrittenKeys = serde_json::from_slice(text).ok()?;
    let keys = EpochKeys {
        root: written.root,
        epoch: written.epoch,
        begun_at: Timestamp::from_millis(written.begun_at),
        secret: Zeroizing::new(hex::decode(&written.secret)?),
        signing: SigningKey::from_bytes(&Zeroizing::new(hex::decode(&written.signing)?)),
    };
    written.secret.zeroize();
    written.signing.zeroize();
    Some(keys)
}
