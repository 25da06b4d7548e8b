//! A hasher for tables whose keys are already hashes.

use std::hash::{BuildHasherDefault, Hasher};

/// For tables whose keys are hashes or digests.
pub(crate) type ByFirstBytes = BuildHasherDefault<FirstBytes>;

/// Uses the first bytes of a key as its hash. The keys are SHA-256 hashes or digests under a secret key, so
/// hashing them again would not help.
#[derive(Default)]
pub(crate) struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}
