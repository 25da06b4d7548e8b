//! The keyed hash that links each line to the one before.

use std::fmt;

use contactd_core::{Chain, hex};

/// The secret key of a chain. Nobody can change a line unnoticed without it.
#[derive(Clone)]
pub struct ChainKey {
    id: String,
    bytes: [u8; 32],
}

impl ChainKey {
    /// The key made of these 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let fingerprint = blake3::derive_key("contactd audit key fingerprint", bytes);
        Self { id: hex::encode(&fingerprint[..8]), bytes: *bytes }
    }

    /// A fingerprint that distinguishes keys without revealing anything about them.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The chain value of a line: keyed BLAKE3 of the previous value and the line's text up to its chain field,
    /// truncated to 128 bits. `scratch` is a buffer for this input.
    pub(crate) fn link(&self, before: Chain, text: &[u8], scratch: &mut Vec<u8>) -> Chain {
        scratch.clear();
        scratch.extend_from_slice(&before.0);
        scratch.extend_from_slice(text);
        let hash = blake3::keyed_hash(&self.bytes, scratch);
        let mut cut = [0; 16];
        cut.copy_from_slice(&hash.as_bytes()[..16]);
        Chain(cut)
    }
}

impl fmt::Debug for ChainKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChainKey({})", self.id)
    }
}
