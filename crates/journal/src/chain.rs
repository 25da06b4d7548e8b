//! The keyed hash that links each line to the one before.

use std::cell::RefCell;
use std::fmt;

use contactd_core::Chain;

/// The key of some lines of a chain. It is secret until the checkpoint after these lines reveals it.
#[derive(Clone)]
pub(crate) struct ChainKey([u8; 32]);

impl ChainKey {
    /// The key made of these 32 bytes.
    pub(crate) const fn new(bytes: &[u8; 32]) -> Self {
        Self(*bytes)
    }

    pub(crate) const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The chain value of a line: keyed BLAKE3 of the previous value and the line's text up to its chain field,
    /// truncated to 128 bits.
    pub(crate) fn link(&self, before: Chain, text: &[u8]) -> Chain {
        thread_local! {
            static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        let hash = INPUT.with_borrow_mut(|input| {
            input.clear();
            input.extend_from_slice(&before.0);
            input.extend_from_slice(text);
            blake3::keyed_hash(&self.0, input)
        });
        let mut cut = [0; 16];
        cut.copy_from_slice(&hash.as_bytes()[..16]);
        Chain(cut)
    }
}

impl fmt::Debug for ChainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChainKey(<redacted>)")
    }
}
