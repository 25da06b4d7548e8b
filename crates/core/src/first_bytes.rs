//! Tables whose keys are hashes already.

use std::hash::{BuildHasherDefault, Hasher};

/// For keys that are hashes or digests.
pub(crate) type ByFirstBytes = BuildHasherDefault<FirstBytes>;

/// The keys are SHA-256 hashes or digests under a secret key: their first bytes are as good as any hash of them.
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
