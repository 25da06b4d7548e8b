//! A command used wrongly in a way that only shows later than its flags are read.

use std::fmt;

/// What is wrong with the flags. The program ends with 2, as for any other.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}
