//! A usage error that is found only after the flags are parsed.

/// What is wrong with the flags. The program exits with 2, as for other usage errors.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misuse(pub(crate) String);
