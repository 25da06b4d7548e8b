//! Numbers that follow from a seed.

/// The same seed gives the same numbers (SplitMix64).
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// A sequence of numbers.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    /// Whether the one case of this many happens.
    pub const fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// An index of a list of this length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len.max(1) as u64)).expect("below a length")
    }

    /// An item of a list, which is not empty.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }
}
