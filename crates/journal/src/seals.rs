//! Which public keys are trusted: the roots, and what seals lead to from them.
//!
//! `seals.jsonl` holds a copy of the first checkpoint of every journal in the directory and of every seal. So the
//! keys of all epochs can be found although the lines of old epochs have been removed.

use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use contactd_core::{Chain, RootKey};
use parking_lot::Mutex;

use crate::ChainKey;
use crate::epoch::is_signed;
use crate::file::{failed, give_to_owner, read_or_empty, sync_dir};
use crate::line::{Checkpoint, Epoch, Line, is_linked, signed_text};
use crate::segment::SEALS;
use crate::source::Source;
use crate::{JournalError, RootSource, Roots};

/// The public keys of all epochs that can be trusted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    roots: Roots,
    keys: HashMap<Epoch, RootKey>,
    /// The good lines of `seals.jsonl`, in order.
    pub(crate) seals: Vec<SealCopy>,
    /// The lines of that file, from one, that are not valid.
    pub(crate) bad_lines: Vec<u64>,
}

/// A line of `seals.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SealCopy {
    pub(crate) line: u64,
    pub(crate) seq: u64,
    pub(crate) chain: Chain,
    pub(crate) epoch: Epoch,
    /// The epoch of the checkpoint after it.
    epoch_after: Epoch,
    /// Whether it ends its epoch. Otherwise it is the first checkpoint of its journal.
    pub(crate) is_seal: bool,
}

impl Trust {
    /// What these roots lead to, with the seals of a journal.
    pub(crate) fn of(source: &Source, roots: &Roots) -> Result<Self, JournalError> {
        Ok(Self::of_text(&source.seals()?, roots))
    }

    /// What these roots lead to, with these seals.
    pub(crate) fn of_text(seals: &[u8], roots: &Roots) -> Self {
        let mut trust = Self { roots: roots.clone(), ..Self::default() };
        for (number, text) in (1..).zip(seals.split_inclusive(|&b| b == b'\n')) {
            // The last one is being written, or a kill left it unfinished.
            let Some(text) = text.strip_suffix(b"\n") else { break };
            if !Line::parse(text).is_some_and(|line| trust.accept_copy(number, text, &line)) {
                trust.bad_lines.push(number);
            }
        }
        trust
    }

    fn accept_copy(&mut self, line: u64, text: &[u8], copy: &Line) -> bool {
        let Some(signed) = copy.checkpoint() else { return false };
        let is_good = signed.is_copied()
            && self.signs_seal(text, signed)
            && is_linked(&ChainKey::new(&signed.key), signed.previous, text, copy.chain);
        if is_good {
            self.follow(signed);
            self.seals.push(SealCopy {
                line,
                seq: copy.seq,
                chain: copy.chain,
                epoch: signed.epoch_named(),
                epoch_after: signed.epoch_after(),
                is_seal: signed.next.is_some(),
            });
        }
        is_good
    }

    /// Whether a root is trusted.
    pub(crate) fn trusts(&self, root: RootKey) -> bool {
        self.roots.source == RootSource::Journal || self.roots.keys.contains(&root)
    }

    /// The public key of an epoch, if it can be trusted.
    pub(crate) fn key(&self, (root, epoch): Epoch) -> Option<RootKey> {
        match epoch {
            1 => self.trusts(root).then_some(root),
            _ => self.keys.get(&(root, epoch)).copied(),
        }
    }

    /// Trusts a key whose private half is in `keys/`.
    pub(crate) fn add(&mut self, epoch: Epoch, key: RootKey) {
        if epoch.1 > 1 {
            self.keys.insert(epoch, key);
        } else if !self.trusts(key) {
            self.roots.keys.push(key);
        }
    }

    /// Whether a checkpoint has the signature of the epoch that it names.
    pub(crate) fn signs(&self, text: &[u8], signed: &Checkpoint) -> bool {
        self.key(signed.epoch_named())
            .zip(signed_text(text))
            .is_some_and(|(key, text)| is_signed(key, text, &signed.signature))
    }

    /// Like [`signs`](Self::signs), for seals: a server reads all of them again and again, so it remembers which are good.
    fn signs_seal(&self, text: &[u8], signed: &Checkpoint) -> bool {
        /// By the hash of the public key and the line.
        static GOOD: Mutex<Option<HashSet<[u8; 32]>>> = Mutex::new(None);
        /// More than ten years of hours.
        const MOST: usize = 100_000;
        let Some(key) = self.key(signed.epoch_named()) else { return false };
        let hash = *blake3::Hasher::new().update(&key.0).update(text).finalize().as_bytes();
        let mut good = GOOD.lock();
        let good = good.get_or_insert_default();
        if good.contains(&hash) {
            return true;
        }
        let is_good = self.signs(text, signed);
        if is_good && good.len() < MOST {
            good.insert(hash);
        }
        is_good
    }

    /// After a checkpoint whose signature is good: trusts the key it names.
    pub(crate) fn follow(&mut self, signed: &Checkpoint) {
        if let Some(next) = signed.next {
            self.keys.entry(signed.epoch_after()).or_insert(next);
        }
    }

    /// Whether there is a copy of what `seals.jsonl` has last before an epoch: the seal of the epoch before it or, before the first one,
    /// the first checkpoint.
    pub(crate) fn has_copy_before(&self, (root, epoch): Epoch) -> bool {
        self.seals.iter().any(|copy| match epoch {
            1 => copy.epoch == (root, 1),
            _ => copy.is_seal && copy.epoch_after == (root, epoch),
        })
    }

    /// Whether an epoch may have ended although its seal has no copy: the keys of the next one are known.
    pub(crate) fn may_have_ended(&self, (root, epoch): Epoch) -> bool {
        self.key((root, epoch.saturating_add(1))).is_some()
            && !self.seals.iter().any(|copy| copy.is_seal && copy.epoch == (root, epoch))
    }

    /// The epoch that comes after line `seq`, as far as the seals tell.
    pub(crate) fn epoch_after(&self, seq: u64) -> Option<Epoch> {
        let mut epoch = None;
        for copy in &self.seals {
            // The first checkpoint of a journal is the second or third of its lines.
            let reach = if copy.is_seal { seq } else { seq.saturating_add(2) };
            if copy.seq <= reach {
                epoch = Some(copy.epoch_after);
            } else if epoch.is_none() && copy.is_seal {
                return Some(copy.epoch);
            }
        }
        epoch
    }
}

/// Adds the copy of a seal, without its newline. It is on disk when this returns.
pub(crate) fn append(dir: &Path, seal: &[u8]) -> Result<(), JournalError> {
    let path = dir.join(SEALS);
    let append = || -> io::Result<()> {
        let before = read_or_empty(&path)?;
        let is_new = before.is_empty();
        // A kill may have left a part of a line: a whole one takes its place.
        let whole = before.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        if before[..whole].split(|&b| b == b'\n').any(|line| line == seal) {
            return Ok(());
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        if whole < before.len() {
            file.set_len(whole as u64)?;
        }
        give_to_owner(&path)?;
        file.write_all(&[seal, b"\n"].concat())?;
        file.sync_all()?;
        if is_new { sync_dir(dir) } else { Ok(()) }
    };
    append().map_err(failed("cannot write", &path))
}
