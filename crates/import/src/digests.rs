//! The digests of the profiles of files, by which the journal names them.

use std::io;

use crate::sort::Sorted;

/// Digests in order, of any number of profiles.
pub(crate) struct Digests(Sorted);

impl Digests {
    /// From digests that are sorted by their [`key`](Self::key).
    pub(crate) fn new(sorted: Sorted) -> Self {
        Self(sorted)
    }

    /// The beginning of a digest, as a number.
    pub(crate) fn key(digest: &[u8; 16]) -> u64 {
        digest[..8].iter().fold(0, |key, &byte| key << 8 | u64::from(byte))
    }

    /// Visits every digest once, in order.
    pub(crate) fn each(&mut self, mut visit: impl FnMut(&[u8; 16]) -> io::Result<()>) -> io::Result<()> {
        self.0.rewind()?;
        // Those with the same key, in order. Nearly always there is only one.
        let mut same: Vec<[u8; 16]> = Vec::new();
        while let Some((key, bytes)) = self.0.next()? {
            let digest = bytes.try_into().map_err(io::Error::other)?;
            if same.first().is_some_and(|first| Self::key(first) != key) {
                same.iter().try_for_each(&mut visit)?;
                same.clear();
            }
            if let Err(at) = same.binary_search(&digest) {
                same.insert(at, digest);
            }
        }
        same.iter().try_for_each(visit)
    }
}

#[cfg(test)]
mod tests {
    use contactd_core::DiskBudget;

    use super::*;
    use crate::sort::Sorter;

    #[test]
    fn every_digest_comes_once_and_in_order_also_if_they_begin_alike() {
        let mut sorter = Sorter::new(DiskBudget::new(std::env::temp_dir()), 100);
        let of = |begin: u8, end: u8| [[begin; 8], [end; 8]].concat();
        for (begin, end) in [(3, 1), (1, 2), (1, 1), (3, 1), (1, 2), (0, 9), (3, 0)] {
            let digest: [u8; 16] = of(begin, end).try_into().expect("16 bytes");
            sorter.push(Digests::key(&digest), &digest).expect("pushes");
        }
        let mut digests = Digests::new(sorter.finish().expect("sorts"));
        for _ in 0..2 {
            let mut found = Vec::new();
            let add = |digest: &[u8; 16]| {
                found.push(digest.to_vec());
                Ok(())
            };
            digests.each(add).expect("reads");
            assert_eq!(found, [of(0, 9), of(1, 1), of(1, 2), of(3, 0), of(3, 1)]);
        }
    }
}
