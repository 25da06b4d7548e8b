//! Signing: checkpoints and seals, and the notes in `keys/` about what was signed and written.

use std::io;
use std::sync::Arc;

use contactd_core::{Chain, RootKey};

use super::Writer;
use crate::epoch::EpochKeys;
use crate::format::{self, CheckpointAt};
use crate::key_dir::{Anchor, write_anchor, write_last};
use crate::rotation::EndedEpoch;

impl Writer {
    /// Writes a checkpoint if there are lines to sign. With the keys of the next epoch, it seals this one.
    pub(super) fn sign(&mut self, next: Option<EpochKeys>) -> io::Result<()> {
        if self.unsigned == 0 && next.is_none() {
            self.sign_at = None;
            return Ok(());
        }
        let signed = self.write_checkpoint(next.as_ref().map(EpochKeys::public));
        match (signed, next) {
            (Ok(seal), Some(next)) => {
                let Some(file) = self.open.as_ref().map(|open| Arc::clone(&open.file)) else { return Ok(()) };
                let epoch = std::mem::replace(&mut self.keys, next).epoch;
                self.key = self.keys.interval(self.number);
                let current = self.keys.clone();
                self.shared.rotation.note_sealed(EndedEpoch { file, seal, epoch, current });
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(error), next) => {
                if let Some(next) = next {
                    self.shared.rotation.state.lock().next = Some(next);
                }
                Err(error)
            }
        }
    }

    /// Writes a checkpoint; returns its line.
    pub(super) fn write_checkpoint(&mut self, next: Option<RootKey>) -> io::Result<Vec<u8>> {
        // Noted first: from now on the key may be known, and no other line may follow under it.
        self.note_anchor(self.number, self.last, self.chain);
        self.must_sign = true;
        let mut text = std::mem::take(&mut self.buffer);
        text.clear();
        let (chain, line) = self.add_checkpoint(&mut text, self.last, self.chain, next);
        self.buffer = text;
        let seq = self.last + 1;
        match self.write_buffer(seq, chain) {
            // It is in the file and may survive, so it counts. The next segment says that a sync failed.
            Err(error) if self.last == seq => {
                tracing::error!(%error, "cannot sync a checkpoint of the audit journal");
            }
            written => written?,
        }
        self.note_signed();
        Ok(line)
    }

    /// Adds the next checkpoint to `text`, after line `last` with its chain value. Returns its chain value, and its
    /// line without the newline.
    pub(super) fn add_checkpoint(
        &self,
        text: &mut Vec<u8>,
        last: u64,
        previous: Chain,
        next: Option<RootKey>,
    ) -> (Chain, Vec<u8>) {
        let place = CheckpointAt {
            node: &self.settings.node,
            at: self.clock.now(),
            seq: last + 1,
            previous,
            number: self.number,
        };
        let start = text.len();
        let chain = format::checkpoint(text, &self.keys, &place, next);
        (chain, text[start..].trim_ascii_end().to_vec())
    }

    /// The lines so far are signed.
    pub(super) fn note_signed(&mut self) {
        self.number += 1;
        self.key = self.keys.interval(self.number);
        (self.unsigned, self.sign_at, self.must_sign) = (0, None, false);
    }

    pub(super) fn note_anchor(&self, number: u64, seq: u64, chain: Chain) {
        if let Err(error) = write_anchor(&self.anchor, &Anchor { root: self.keys.root, number, seq, chain }) {
            tracing::error!(%error, "cannot note in keys/ what the audit journal has signed");
        }
    }

    /// Notes the last line, so that it is missed if somebody removes it before it is signed.
    pub(super) fn note_last(&mut self) {
        if self.noted != self.last {
            self.noted = self.last;
            if let Err(error) = write_last(&self.anchor, self.last, self.chain) {
                tracing::error!(%error, "cannot note in keys/ what the audit journal contains");
            }
        }
    }
}
