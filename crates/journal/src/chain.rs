//! The keyed hash that links each line to the one before.

use std::fmt;

/// What a line's chain value is: keyed BLAKE3 of the value before and the line itself, cut to 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain(pub(crate) [u8; 16]);

impl Chain {
    /// What stands before the first line of all.
    pub const START: Self = Self([0; 16]);

    /// The value made of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads 32 hex digits, in the one spelling that is written.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The secret key of a chain. Without it a line cannot be changed unnoticed.
#[derive(Clone)]
pub struct ChainKey {
    id: String,
    bytes: [u8; 32],
}

impl ChainKey {
    /// The key made of these 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let fingerprint = blake3::derive_key("contactd audit key fingerprint", bytes);
        let id = fingerprint[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        Self { id, bytes: *bytes }
    }

    /// A fingerprint: it tells keys apart and tells nothing about them.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The value of a line: `text` is all of it that stands before its chain. `scratch` is for putting them together.
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
