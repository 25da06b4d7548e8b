//! The end of a journal: lines that no checkpoint has signed yet.

use crate::JournalError;

use super::Walk;
use crate::faults::CHANGED;

/// How often the end of a file is read again before its last lines count as unproven.
const READ_AGAIN: u32 = 5;

impl Walk {
    /// Checks lines that are not signed yet with the secret of the epoch. Returns whether there is something new.
    pub(super) fn prove_tail(&mut self) -> Result<bool, JournalError> {
        let (Some(keys), Some((root, epoch))) = (&self.keys, self.epoch) else { return Ok(false) };
        if self.pending.is_empty() {
            return Ok(false);
        }
        let epochs = keys.epochs()?;
        let Some(secret) = epochs.iter().find(|keys| (keys.root, keys.epoch) == (root, epoch)) else {
            return Ok(self.read_again());
        };
        let anchor = keys.noted().of(root).anchor;
        // Once a checkpoint was signed, or is about to be, its key proves nothing but the lines it signs.
        if let (Some(number), Some(anchor)) = (self.next_number, anchor)
            && (number < anchor.number
                || (number == anchor.number && self.last != Some((anchor.seq, anchor.chain))))
        {
            return Ok(self.read_again());
        }
        // The number is not known after a start in the middle; the last anchor is near it.
        let mut numbers = match (self.next_number, anchor) {
            (Some(number), _) => number..=number,
            (None, Some(anchor)) => anchor.number..=anchor.number + 2,
            (None, None) => 1..=1,
        };
        let fits = |number: &u64| {
            let key = secret.interval(*number);
            self.pending.iter().any(|pending| pending.is_linked(&key))
        };
        let Some(number) = numbers.find(fits) else {
            if self.next_number.is_some() {
                for pending in std::mem::take(&mut self.pending) {
                    self.fault_in(&pending, CHANGED.to_owned());
                }
            }
            return Ok(false);
        };
        let key = secret.interval(number);
        let mut waiting = std::mem::take(&mut self.pending);
        let count = waiting.len();
        for pending in waiting.drain(..) {
            if pending.is_linked(&key) {
                self.ready.push_back(pending.proven(false));
            } else if pending.before.is_some() {
                self.fault_in(&pending, CHANGED.to_owned());
            }
        }
        self.keep_memory(waiting, count);
        Ok(!self.ready.is_empty())
    }

    /// The server may have gone on since the end of the file was read: whether to read on from there.
    fn read_again(&mut self) -> bool {
        let waiting = self.pending.len();
        if self.read_again != (waiting, READ_AGAIN) {
            let tries = if self.read_again.0 == waiting { self.read_again.1 + 1 } else { 1 };
            self.read_again = (waiting, tries);
            std::thread::sleep(std::time::Duration::from_millis(2));
            return true;
        }
        false
    }
}
