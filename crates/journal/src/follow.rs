//! Where following a journal begins. What is followed is signed: no other line is returned.

use contactd_core::{Chain, Timestamp, blocking};

use crate::files::JournalReader;
use crate::walk::Walk;
use crate::{JournalError, Lines, Roots, Verifier};

/// The lines after one that was read before.
pub enum Resumed {
    /// That line is there, and these come after it.
    After(Lines),
    /// That line was removed after its retention period, and so were those up to this one.
    Removed {
        /// The number of the first line that is left.
        first: u64,
        /// The lines from there on.
        lines: Lines,
    },
    /// There is no such line, or another one has its number.
    Changed {
        /// The number of the first line of the file in which it would be.
        first: u64,
        /// The lines from there on.
        lines: Lines,
    },
}

impl JournalReader {
    /// The lines that are signed from now on.
    pub fn signed_from_now(&self, roots: &Roots) -> Result<Lines, JournalError> {
        blocking(|| {
            let mut walk = self.signed(roots)?;
            walk.enter_last(u64::MAX)?;
            let mut lines = self.lines(walk, roots);
            while lines.read()?.is_some() {}
            Ok(lines)
        })
    }

    /// The signed lines from this time on, and some that are older.
    pub fn signed_since(&self, since: Timestamp, roots: &Roots) -> Result<Lines, JournalError> {
        blocking(|| {
            let mut walk = self.signed(roots)?;
            walk.enter_begun_by(since)?;
            Ok(self.lines(walk, roots))
        })
    }

    /// The signed lines after the one with this number. `is_it` says whether the line with this chain value is that one.
    pub fn signed_after_line(
        &self,
        seq: u64,
        is_it: impl Fn(Chain) -> bool,
        roots: &Roots,
    ) -> Result<Resumed, JournalError> {
        blocking(|| {
            let mut walk = self.signed(roots)?;
            if walk.enter_last(seq)? {
                let first = walk.end().map_or(0, |(segment, _)| segment.first);
                let mut lines = self.lines(walk, roots);
                while let Some(line) = lines.read()? {
                    if line.seq == seq && is_it(line.chain) {
                        return Ok(Resumed::After(lines));
                    }
                    if line.seq >= seq {
                        break;
                    }
                }
                let mut walk = self.signed(roots)?;
                walk.enter_last(seq)?;
                return Ok(Resumed::Changed { first, lines: self.lines(walk, roots) });
            }
            let lines = self.lines(self.signed(roots)?, roots);
            Ok(match self.first_line()? {
                Some(first) if first == seq.saturating_add(1) => Resumed::After(lines),
                Some(first) if first > seq => Resumed::Removed { first, lines },
                Some(first) => Resumed::Changed { first, lines },
                // Its directory was moved, and may be back.
                None => return Err(self.source.gone()),
            })
        })
    }

    /// Without the keys of the epoch, only what is signed is read.
    fn signed(&self, roots: &Roots) -> Result<Walk, JournalError> {
        Walk::new(self.source.clone(), roots, None)
    }

    fn lines(&self, walk: Walk, roots: &Roots) -> Lines {
        Lines::of_walk(self.source.clone(), walk, Verifier { roots: roots.clone(), keys: None })
    }
}
