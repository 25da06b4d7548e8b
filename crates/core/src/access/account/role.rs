//! What a user or an admin token may do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a user or an admin token may do. The admin API has the list of what each of them permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Everything, accounts included.
    Admin,
    /// Tokens, imports, nodes: no personal data, except in the files that the user uploads.
    Operator,
    /// People: access reports, corrections, opt-outs, erasure.
    Privacy,
    /// The journal and usage: no personal data, no change.
    Auditor,
}

/// A text is not the name of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("use admin, operator, privacy or auditor")]
pub struct UnknownRole;

impl Role {
    /// All roles.
    pub const ALL: [Self; 4] = [Self::Admin, Self::Operator, Self::Privacy, Self::Auditor];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Operator => "operator",
            Self::Privacy => "privacy",
            Self::Auditor => "auditor",
        }
    }
}

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or(UnknownRole)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
