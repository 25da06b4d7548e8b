//! The columns of the import format.

/// The names of the columns, in the order of an export.
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
