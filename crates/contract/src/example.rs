//! The invented person of the examples. She is in the demo, so that every example works there as it is.

pub(crate) const SUBMITTED: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";
pub(crate) const CANONICAL: &str = "https://linkedin.com/in/ada-quell-1a2b3c";
pub(crate) const PHONE: &str = "+14155550123";
pub(crate) const EMAIL: &str = "ada@example.com";
pub(crate) const REFUSED: &str = "https://www.linkedin.com/company/quellcorp";
