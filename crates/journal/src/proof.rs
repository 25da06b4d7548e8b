//! Proofs: the lines of a period with everything that is needed to verify them, in one file.
//!
//! The first line of the file is a header with the seals that lead from the root to the first epoch in it. The rest
//! are lines of the journal as they are, from one checkpoint to another.

use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;

use contactd_core::{Chain, RootKey, Timestamp};
use serde::{Deserialize, Serialize};

use crate::ChainKey;
use crate::faults::{CHANGED, NOT_A_LINE, expected, wrong_number};
use crate::file::failed;
use crate::line::{Epoch, FIRST_CHECKPOINT, Line, NotDue, is_linked};
use crate::seals::Trust;
use crate::source::Source;
use crate::verify::Verifier;
use crate::{JournalError, JournalFault, JournalHead, ProofMade, Roots, Verification};

/// What the header calls itself.
const KIND: &str = "contactd audit proof";

#[derive(Serialize, Deserialize)]
struct Header {
    kind: String,
    version: u32,
    root: String,
    since: Timestamp,
    until: Timestamp,
    /// The lines of `seals.jsonl` before the first line of the proof.
    seals: Vec<String>,
}

/// Writes the proof of the lines of a period.
pub(crate) fn make(
    source: &Source,
    verifier: &Verifier,
    since: Timestamp,
    until: Timestamp,
    out: &mut dyn Write,
) -> Result<ProofMade, JournalError> {
    let unwritable = |error| JournalError::File { what: "cannot write", file: "the proof".to_owned(), error };
    // First find the lines, then copy them: a journal does not fit into memory.
    let Some(Found { first, begins, last, signed_to, root }) = find(source, verifier, since, until)? else {
        return Err(JournalError::Key("the journal has no signed line of this period".to_owned()));
    };
    let seals = source.seals()?;
    let seals = String::from_utf8_lossy(&seals);
    let seals = seals
        .lines()
        .filter(|line| Line::parse(line.as_bytes()).is_some_and(|line| line.seq <= first))
        .map(str::to_owned)
        .collect();
    let is_complete = signed_to >= until;
    // What is before the first line or after the last signature is not proven.
    let (since, until) = (since.max(begins), until.min(signed_to));
    let header = Header { kind: KIND.to_owned(), version: 1, root: root.to_string(), since, until, seals };
    let header = serde_json::to_string(&header).map_err(|error| unwritable(error.into()))?;
    writeln!(out, "{header}").map_err(unwritable)?;
    let mut walk = verifier.walk(source)?;
    while let Some(proven) = walk.next()? {
        if proven.line.seq > last {
            break;
        }
        if proven.line.seq >= first {
            out.write_all(&proven.text).and_then(|()| out.write_all(b"\n")).map_err(unwritable)?;
        }
    }
    out.flush().map_err(unwritable)?;
    Ok(ProofMade { first, last, is_complete })
}

/// Where a proof begins and ends.
struct Found {
    first: u64,
    /// When the first line was written; the beginning of time if nothing came before it.
    begins: Timestamp,
    last: u64,
    signed_to: Timestamp,
    root: RootKey,
}

/// Finds the lines of a proof.
fn find(
    source: &Source,
    verifier: &Verifier,
    since: Timestamp,
    until: Timestamp,
) -> Result<Option<Found>, JournalError> {
    let mut walk = verifier.walk(source)?;
    // The last checkpoint, and the one before the first line of the period.
    let (mut checkpoint, mut first) = (None, None);
    let (mut in_period, mut last, mut is_over) = (false, None, false);
    while let Some(proven) = walk.next()? {
        let line = &proven.line;
        let is_in = line.at >= since && line.at < until;
        if is_in && first.is_none() {
            first = checkpoint;
        }
        in_period |= is_in;
        if let Some(signed) = line.checkpoint().filter(|_| proven.is_signed) {
            if line.at < since || checkpoint.is_none() {
                let is_first = line.seq == FIRST_CHECKPOINT;
                let begins = if is_first { Timestamp::from_millis(i64::MIN) } else { line.at };
                checkpoint = Some((line.seq, begins, signed.root));
            }
            // Up to the first checkpoint after the period, and after the last line of the period.
            if in_period || !is_over {
                last = Some((line.seq, line.at));
                in_period = false;
            }
            is_over |= line.at >= until;
        }
    }
    let first = first.or(checkpoint);
    Ok(first.zip(last).map(|((first, begins, root), (last, signed_to))| Found {
        first,
        begins,
        last: last.max(first),
        signed_to,
        root,
    }))
}

/// Verifies a proof with roots that were noted down.
pub fn verify_proof(file: &Path, roots: &Roots) -> Result<Verification, JournalError> {
    let open = fs::File::open(file).map_err(failed("cannot open", file))?;
    let mut lines = std::io::BufReader::new(open).split(b'\n');
    let header = match lines.next() {
        Some(header) => header.map_err(failed("cannot read", file))?,
        None => Vec::new(),
    };
    let header: Header = serde_json::from_slice(&header)
        .ok()
        .filter(|header: &Header| header.kind == KIND && header.version == 1)
        .ok_or_else(|| {
            JournalError::Key(format!("{} is not a proof of `contactd audit proof`", file.display()))
        })?;
    let seals: String = header.seals.iter().map(|line| format!("{line}\n")).collect();
    let mut check = ProofCheck {
        trust: Trust::of_text(seals.as_bytes(), roots),
        file: file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        result: Verification { root_source: roots.source, ..Verification::default() },
        pending: Vec::new(),
        last: None,
        epoch: None,
        next_number: None,
        begins: None,
    };
    check.result.roots.extend(header.root.parse::<RootKey>().ok());
    let mut number = 1;
    for text in lines {
        number += 1;
        let text = text.map_err(failed("cannot read", file))?;
        check.line(number, text);
    }
    if let Some((number, line, ..)) = check.pending.first() {
        let (number, seq) = (*number, line.seq);
        check.wrong(number, Some(seq), "nothing signs the lines from here".to_owned());
    }
    match (check.begins, check.result.signed) {
        (Some((begins, is_first)), Some(signed)) => {
            if begins > header.since && !is_first {
                let what =
                    format!("it begins at {begins}, after the time that was asked for, {}", header.since);
                check.wrong(2, None, what);
            }
            if signed.at < header.until {
                let what =
                    format!("it ends at {}, before the time that was asked for, {}", signed.at, header.until);
                check.wrong(0, None, what);
            }
            let from = if is_first { "the beginning of the journal".to_owned() } else { begins.to_string() };
            check.result.notes.push(format!("these are all lines from {from} to {}", signed.at));
        }
        _ => check.wrong(0, None, "it contains no signed line".to_owned()),
    }
    Ok(check.result)
}

type PendingLine = (u64, Line, Vec<u8>, Chain);

struct ProofCheck {
    trust: Trust,
    file: String,
    result: Verification,
    pending: Vec<PendingLine>,
    last: Option<(u64, Chain)>,
    epoch: Option<Epoch>,
    next_number: Option<u64>,
    /// When the first line was written, and whether nothing came before it.
    begins: Option<(Timestamp, bool)>,
}

impl ProofCheck {
    fn line(&mut self, number: u64, text: Vec<u8>) {
        let Some(line) = Line::parse(&text) else {
            return self.wrong(number, None, NOT_A_LINE.to_owned());
        };
        let before = match self.last {
            Some((last, chain)) if last.checked_add(1) == Some(line.seq) => chain,
            Some((last, _)) => {
                return self.wrong(number, Some(line.seq), expected(line.seq, last.saturating_add(1)));
            }
            // It begins with a checkpoint, which says what comes before it.
            None => match line.checkpoint() {
                Some(signed) => {
                    self.begins = Some((line.at, line.seq == FIRST_CHECKPOINT));
                    self.epoch = Some(signed.epoch_named());
                    signed.previous
                }
                None => {
                    return self.wrong(
                        number,
                        Some(line.seq),
                        "it does not begin with a checkpoint".to_owned(),
                    );
                }
            },
        };
        self.result.first.get_or_insert(line.seq);
        self.result.lines += 1;
        self.last = Some((line.seq, line.chain));
        let head = JournalHead { seq: line.seq, chain: line.chain, at: line.at };
        self.result.head = Some(head);
        let signed = line.checkpoint().cloned();
        self.pending.push((number, line, text, before));
        let Some(signed) = signed else { return };
        let waiting = std::mem::take(&mut self.pending);
        let Some((_, _, text, before)) = waiting.last() else { return };
        let is_due =
            signed.check_due((self.epoch, self.next_number), waiting.iter().map(|(_, line, ..)| line));
        if is_due == Err(NotDue::Epoch) || !self.trust.signs(text, &signed) || *before != signed.previous {
            let what = "the signature of this checkpoint is wrong, or its root is not trusted".to_owned();
            return self.wrong(number, Some(head.seq), what);
        }
        let key = ChainKey::new(&signed.key);
        if let Some((number, line, ..)) =
            waiting.iter().find(|(_, line, text, before)| !is_linked(&key, *before, text, line.chain))
        {
            self.wrong(*number, Some(line.seq), CHANGED.to_owned());
        } else if let Err(NotDue::Number(due)) = is_due {
            self.wrong(number, Some(head.seq), wrong_number(signed.number, due));
        }
        self.trust.follow(&signed);
        self.epoch = Some(signed.epoch_after());
        self.next_number = Some(signed.number.saturating_add(1));
        self.result.signed = Some(head);
    }

    fn wrong(&mut self, line: u64, seq: Option<u64>, what: String) {
        self.result.faults.push(JournalFault { file: self.file.clone(), line, seq, what });
    }
}
