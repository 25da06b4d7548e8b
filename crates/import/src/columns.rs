//! The columns of the import format.

/// Their names, in the order in which they are exported.
pub const COLUMNS: [&str; 11] = [
    "profileUrl",
    "phone",
    "email",
    "phoneLabel",
    "emailLabel",
    "confidence",
    "observedAt",
    "basis",
    "expiresAt",
    "region",
    "source",
];
