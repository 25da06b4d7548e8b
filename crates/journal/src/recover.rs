//! Finds where the last server stopped, and proves that nobody has changed it since.
//!
//! A server reads only the lines after the last checkpoint before it starts, and those before it in its own time (`unread.rs`): there
//! may be hundreds of thousands.

use std::fs::File;
use std::path::{Path, PathBuf};

use contactd_core::{Chain, RootKey, Timestamp};

use crate::epoch::EpochKeys;
use crate::key_dir::{Anchor, KeyDir, Noted};
use crate::line::Checkpoint;
use crate::seals::{self, Trust};
use crate::segment::{self, Segment};
use crate::settings::OpenedBy;
use crate::unread::Unread;
use crate::walk::{Proven, Walk, opening};
use crate::{JournalError, Roots};

/// The end of a journal.
#[derive(Debug)]
pub(crate) struct JournalEnd {
    /// The last segment and the end of its last line; none if the next line must begin a new segment.
    pub(crate) segment: Option<(PathBuf, u64)>,
    /// Lines up to this one are certainly on disk: a segment's first line is synced before the next is written.
    pub(crate) synced_through: u64,
    /// The number and the chain value of the last line.
    pub(crate) last: u64,
    pub(crate) chain: Chain,
    /// How many bytes follow it that are not a complete line.
    pub(crate) torn: u64,
    /// The keys of the epoch.
    pub(crate) keys: EpochKeys,
    /// The number of the next checkpoint.
    pub(crate) next_number: u64,
    /// How many lines are not signed yet.
    pub(crate) unsigned: u64,
    /// How the next segment begins, if that is special.
    pub(crate) begin: Option<Begin>,
    /// A checkpoint was about to be written: it comes before any other line.
    pub(crate) must_sign: bool,
    /// Whether all lines are on disk. If not, the next segment says that some may be lost.
    pub(crate) is_synced: bool,
    /// Lines before the end that are still to be checked.
    pub(crate) unread: Option<Unread>,
}

/// How a segment begins in special cases.
#[derive(Clone, Debug)]
pub(crate) enum Begin {
    /// A new journal begins, after one with this root if there was one.
    Journal(Option<RootKey>),
    /// The journal was not as the last server had left it: what was found.
    Broken(String),
}

/// Finds the end. A killed server leaves at most an unfinished line at the very end, which was never acknowledged.
/// Anything else that is not as it was left stays as it is, and the next segment says so.
pub(crate) fn end(
    dir: &Path,
    keys: &KeyDir,
    now: Timestamp,
    opened_by: OpenedBy,
) -> Result<JournalEnd, JournalError> {
    let epochs = keys.epochs()?;
    match epochs.last() {
        // Its key was made, and a kill came before its first segment.
        Some(first) if first.epoch == 1 && keys.noted().anchor.is_none() && !has_begun(dir, first)? => {
            new_journal(dir, keys, first.clone())
        }
        Some(newest) => continued(dir, keys, &epochs, newest, opened_by),
        None => new_journal(dir, keys, EpochKeys::generate(None, now)?),
    }
}

/// Whether a segment begins the journal of these keys.
fn has_begun(dir: &Path, keys: &EpochKeys) -> Result<bool, JournalError> {
    let trust = Trust::of(&dir.into(), &Roots::given(vec![keys.root]))?;
    for segment in segment::list(dir)? {
        if opening(&dir.into(), &trust, &segment)?.is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// There are no keys: a new journal begins. It may follow another one, which was restored.
fn new_journal(dir: &Path, keys: &KeyDir, fresh: EpochKeys) -> Result<JournalEnd, JournalError> {
    let mut walk = Walk::new(dir.into(), &Roots::default(), None)?;
    while walk.next()?.is_some() {}
    let is_synced = walk.end().is_none_or(|(segment, _)| sync(segment));
    for (stray, _) in &walk.strays {
        segment::set_aside(&stray.path)?;
    }
    let (last, chain) = walk.last.unwrap_or((0, Chain::START));
    keys.store(&fresh)?;
    Ok(JournalEnd {
        segment: None,
        synced_through: last,
        last,
        chain,
        torn: walk.torn,
        keys: fresh,
        next_number: 1,
        unsigned: 0,
        begin: Some(Begin::Journal(walk.epoch.map(|(root, _)| root))),
        must_sign: false,
        is_synced,
        unread: None,
    })
}

/// What was read of the end of a journal.
struct Tail {
    walk: Walk,
    /// The last line that is proven.
    proven: Option<(u64, Chain)>,
    /// How many lines are not signed yet.
    unsigned: u64,
    /// Lines that belong into `seals.jsonl`.
    sealed: Vec<Proven>,
    /// Lines before these, which were not read.
    unread: Option<Unread>,
}

impl Tail {
    /// Reads from where a walk is, after the line `proven`.
    fn read(mut walk: Walk, mut proven: Option<(u64, Chain)>) -> Result<Self, JournalError> {
        let (mut unsigned, mut sealed) = (0, Vec::new());
        while let Some(found) = walk.next()? {
            let line = &found.line;
            proven = Some((line.seq, line.chain));
            unsigned = if found.is_signed { 0 } else { unsigned + 1 };
            if line.checkpoint().is_some_and(Checkpoint::is_copied) {
                sealed.push(found);
            }
        }
        Ok(Self { walk, proven, unsigned, sealed, unread: None })
    }

    /// Reads from the beginning of the segment that contains what was signed last.
    fn of_segment(
        dir: &Path,
        roots: &Roots,
        keys: &KeyDir,
        anchor: Option<&Anchor>,
    ) -> Result<Self, JournalError> {
        let most = anchor.map_or(u64::MAX, |anchor| anchor.seq.max(1));
        let mut walk = Walk::new(dir.into(), roots, Some(keys.clone()))?;
        walk.enter_last(most)?;
        Self::read(walk, None)
    }

    /// Reads from the last checkpoint; `None` if it is not found, or a seal may have no copy.
    fn of_checkpoint(
        dir: &Path,
        roots: &Roots,
        keys: &KeyDir,
        anchor: &Anchor,
    ) -> Result<Option<Self>, JournalError> {
        let mut walk = Walk::new(dir.into(), roots, Some(keys.clone()))?;
        if !walk.enter_last(anchor.seq.max(1))? {
            return Ok(None);
        }
        let segment = walk.end().map(|(segment, _)| segment.clone());
        let (Some(segment), Some((seq, chain))) = (segment, walk.skip_to_last_checkpoint(anchor)?) else {
            return Ok(None);
        };
        if !walk.epoch.is_some_and(|epoch| walk.trust.has_copy_before(epoch)) {
            return Ok(None);
        }
        let unread = Unread::new(dir, roots, keys, segment, seq);
        let tail = Self::read(walk, Some((seq, chain)))?;
        Ok(Some(Self { unread: Some(unread), ..tail }))
    }

    /// What is wrong with it, if something is.
    fn what_is_wrong(&self, anchor: Option<&Anchor>, written: Option<(u64, Chain)>) -> Option<String> {
        what_is_wrong(&self.walk, self.proven, anchor).or_else(|| {
            let (last, _) = self.proven.unwrap_or((0, Chain::START));
            let (seq, _) = written.filter(|(seq, _)| last < *seq)?;
            Some(format!("it ended with line {last}, but line {seq} had been written"))
        })
    }
}

/// Continues a journal whose keys are here.
fn continued(
    dir: &Path,
    keys: &KeyDir,
    epochs: &[EpochKeys],
    newest: &EpochKeys,
    opened_by: OpenedBy,
) -> Result<JournalEnd, JournalError> {
    let root = newest.root;
    let roots = Roots::given(vec![root]);
    let Noted { anchor, last: written } = keys.noted().of(root);
    let quick = match (opened_by, &anchor) {
        (OpenedBy::Server, Some(anchor)) => Tail::of_checkpoint(dir, &roots, keys, anchor)?,
        _ => None,
    };
    // What is wrong is described with all lines of the segment.
    let is_whole =
        |tail: &Tail| tail.walk.strays.is_empty() && tail.what_is_wrong(anchor.as_ref(), written).is_none();
    let tail = match quick.filter(is_whole) {
        Some(tail) => tail,
        None => Tail::of_segment(dir, &roots, keys, anchor.as_ref())?,
    };
    let mut broken = tail.what_is_wrong(anchor.as_ref(), written);
    let Tail { walk, proven, unsigned, sealed, unread } = tail;
    for (stray, _) in walk.strays.iter().filter(|_| walk.end().is_some()) {
        segment::set_aside(&stray.path)?;
        broken.get_or_insert(format!("{} is not a file of this journal; it was renamed", stray.name()));
    }
    // Lines that a killed server wrote may not be on disk yet.
    let is_synced = walk.end().is_none_or(|(segment, _)| sync(segment));
    copy_seals(dir, &roots, &walk, sealed)?;
    let reached = walk.epoch.filter(|(of, _)| *of == root).map_or(0, |(_, epoch)| epoch);
    let current = epochs.iter().find(|epoch| epoch.epoch == reached).unwrap_or(newest);
    for epoch in epochs.iter().filter(|epoch| is_synced && epoch.epoch != current.epoch) {
        keys.destroy(epoch.epoch)?;
    }
    let signed_last = anchor.as_ref().map_or(0, |anchor| anchor.number);
    let next_number = match broken {
        None => walk.next_number.unwrap_or(1),
        Some(_) => walk.next_number.unwrap_or(1).max(signed_last + 1),
    };
    let (mut last, chain) = proven.or(walk.first).unwrap_or((0, Chain::START));
    if broken.is_some() {
        // Numbers that were in use before are not used again.
        last = last.max(anchor.as_ref().map_or(0, |anchor| anchor.seq + 1));
        last = last.max(written.map_or(0, |(seq, _)| seq));
    }
    if let Some(what) = &broken {
        tracing::error!(what, "the audit journal is not as it was left; a new segment begins");
    }
    let torn = walk.torn;
    if torn > 0 {
        tracing::warn!(
            bytes = torn,
            after = last,
            "the audit journal ends with an unfinished line left by a killed server"
        );
    }
    let open = walk.end().map(|(segment, end)| (segment.clone(), end));
    let is_continued = broken.is_none() && torn == 0;
    Ok(JournalEnd {
        synced_through: open.as_ref().map_or(last, |(open, _)| open.first),
        segment: open
            .filter(|(open, _)| is_continued && !open.is_compressed)
            .map(|(open, end)| (open.path, end)),
        last,
        chain,
        torn,
        keys: current.clone(),
        next_number,
        unsigned,
        must_sign: broken.is_none() && anchor.as_ref().is_some_and(|anchor| anchor.number == next_number),
        begin: broken.map(Begin::Broken),
        is_synced,
        unread,
    })
}

/// Adds the copies of seals that are missing at the end of `seals.jsonl`: a kill came before a copy was made, or the
/// file was lost. `sealed` are the lines to copy that `walk` has read. A copy that is missing in the middle stays
/// missing, because a seal is good only after those before it.
fn copy_seals(dir: &Path, roots: &Roots, walk: &Walk, sealed: Vec<Proven>) -> Result<(), JournalError> {
    let copies = &walk.trust.seals;
    let first = sealed.first().and_then(|proven| proven.line.checkpoint()).map(Checkpoint::epoch_named);
    let has_those_before = match first.or(walk.epoch) {
        Some((root, epoch)) if epoch > 1 => {
            copies.iter().any(|copy| copy.is_seal && copy.epoch == (root, epoch - 1))
        }
        _ => true,
    };
    let sealed = if has_those_before { sealed } else { all_sealed(dir, roots)? };
    let last = copies.last().map_or(0, |copy| copy.seq);
    for proven in sealed.iter().filter(|proven| proven.line.seq > last) {
        seals::append(dir, &proven.text)?;
    }
    Ok(())
}

/// Every line of the journal that belongs into `seals.jsonl`.
fn all_sealed(dir: &Path, roots: &Roots) -> Result<Vec<Proven>, JournalError> {
    let mut walk = Walk::new(dir.into(), roots, None)?;
    let mut sealed = Vec::new();
    while let Some(found) = walk.next()? {
        if found.line.checkpoint().is_some_and(Checkpoint::is_copied) {
            sealed.push(found);
        }
    }
    Ok(sealed)
}

/// What is wrong with the end of a journal, if something is.
fn what_is_wrong(walk: &Walk, proven: Option<(u64, Chain)>, anchor: Option<&Anchor>) -> Option<String> {
    if let Some(fault) = walk.faults.first() {
        return Some(fault.fault.to_string());
    }
    if walk.unproven() > 0 {
        return Some(format!("the key for its last {} lines is missing", walk.unproven()));
    }
    let anchor = anchor?;
    let signed = walk.next_number.unwrap_or(1) - 1;
    let (last, chain) = proven.unwrap_or((0, Chain::START));
    if anchor.number > signed + 1 || last < anchor.seq {
        return Some(format!("it ended with line {last}, but line {} had been signed", anchor.seq));
    }
    // The checkpoint was about to be written: nothing else may follow the line it was for.
    let is_due = anchor.number == signed + 1;
    (is_due && (chain, last) != (anchor.chain, anchor.seq))
        .then(|| format!("line {last} is not the one that was about to be signed"))
}

fn sync(segment: &Segment) -> bool {
    let synced = File::open(&segment.path).and_then(|file| file.sync_data());
    if let Err(error) = &synced {
        tracing::error!(%error, file = segment.name(), "cannot sync the audit journal: its last lines may be lost");
    }
    synced.is_ok()
}
