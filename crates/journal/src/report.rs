//! The result of checking a journal, in words.

use std::fmt;

use crate::{Outage, RootSource, Verification};

/// How many faults are listed.
const LISTED_FAULTS: usize = 20;

impl Verification {
    /// The result in words, line by line.
    pub fn words(&self) -> Vec<String> {
        let mut words: Vec<String> = self.remarks().iter().map(|note| format!("note: {note}")).collect();
        words.extend(self.faults.iter().take(LISTED_FAULTS).map(|fault| format!("WRONG {fault}")));
        if self.faults.len() > LISTED_FAULTS {
            words.push(format!("and {} more; --json lists all of them", self.faults.len() - LISTED_FAULTS));
        }
        words.push(match (self.is_whole(), &self.head) {
            (true, Some(head)) => {
                format!("whole: {}, to line {} of {}", Lines(self.lines), head.seq, head.at)
            }
            (true, None) => "whole: the journal is empty".to_owned(),
            (false, _) => format!("NOT whole: {} checked", Lines(self.lines)),
        });
        self.signature(&mut words);
        words
    }

    /// Remarks about things that are not wrong, and the times in which no server was running.
    pub fn remarks(&self) -> Vec<String> {
        let outage = |outage: &Outage| {
            let how = match outage.was_stopped {
                true => "the server was stopped",
                false => "the server was not stopped in order",
            };
            format!("no service from {} to {}: {how}", outage.from, outage.until)
        };
        self.notes.iter().cloned().chain(self.outages.iter().map(outage)).collect()
    }

    /// Up to where the journal is signed, and who says that the signer is the right one.
    fn signature(&self, words: &mut Vec<String>) {
        if let Some(signed) = &self.signed {
            words.push(format!("signed: to line {} of {}", signed.seq, signed.at));
        }
        if self.unsigned > 0 {
            let how = match self.unsigned == self.confirmed {
                true => "the key in keys/ confirms them",
                false => "nothing here confirms them",
            };
            words.push(format!("not signed yet: {} after that; {how}", Lines(self.unsigned)));
        }
        for root in &self.roots {
            let source = match self.root_source {
                RootSource::Given => "given with --root",
                RootSource::Remembered => "remembered by the store; give the one you noted down with --root",
                RootSource::Journal => {
                    "taken from the journal itself, which proves little: give the one you noted down with --root"
                }
            };
            words.push(format!("root: {root} ({source})"));
        }
    }
}

/// A count of lines.
struct Lines(u64);

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("1 line"),
            count => write!(f, "{count} lines"),
        }
    }
}
