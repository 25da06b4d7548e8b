//! A usage error that is found only after the flags are parsed.

use std::fmt;

/// What is wrong with the flags. The program exits with 2, as for other usage errors.
#[derive(Debug)]
pub(crate) struct Misuse(pub(crate) String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}
