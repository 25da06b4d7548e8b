//! What holds unless something else is asked for, with a command or through the admin API. As people write it.

/// How long a token of a caller or of the admin API is valid.
pub const TOKEN_LIFETIME: &str = "90d";

/// How long a token stays valid after it was rotated.
pub const ROTATION_OVERLAP: &str = "24h";

/// How many rows with a rejected value an import may have.
pub const MAX_REJECTS: &str = "10%";

/// How many details a source that is replaced may lose.
pub const MAX_WITHDRAWN: &str = "20%";

/// The source of details that are stored by hand.
pub const SOURCE_BY_HAND: &str = "manual";

/// The confidence of details that are stored by hand.
pub const CONFIDENCE_BY_HAND: u8 = 100;
