//! What a role may do.

use contactd_core::Role::{self, Admin, Auditor, Operator, Privacy};
use serde::Serialize;

/// Something that only some roles may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Permission {
    /// See how the service does: counts, no personal data.
    Overview,
    /// See, correct and erase what is held about a person.
    People,
    /// Add and withdraw opt-outs.
    OptOuts,
    /// Load files, and undo what they did.
    Imports,
    /// Export everything that is held.
    Export,
    /// See how long details are held.
    Retention,
    /// Remove what has expired or is too old.
    Sweep,
    /// Create, change and revoke the tokens of callers.
    Tokens,
    /// See how much was looked up.
    Usage,
    /// See the lines of the journal.
    Audit,
    /// Verify the journal, and take a proof of it away.
    AuditProof,
    /// See the nodes of a cluster, and what is wrong with this one.
    Nodes,
    /// Create, change and disable users.
    Users,
    /// Create and revoke admin tokens.
    AdminTokens,
}

impl Permission {
    /// All permissions.
    pub(crate) const ALL: [Self; 14] = [
        Self::Overview,
        Self::People,
        Self::OptOuts,
        Self::Imports,
        Self::Export,
        Self::Retention,
        Self::Sweep,
        Self::Tokens,
        Self::Usage,
        Self::Audit,
        Self::AuditProof,
        Self::Nodes,
        Self::Users,
        Self::AdminTokens,
    ];

    /// The roles that have it.
    pub(crate) const fn roles(self) -> &'static [Role] {
        match self {
            Self::Overview => &Role::ALL,
            Self::People | Self::OptOuts => &[Admin, Privacy],
            Self::Imports | Self::Sweep | Self::Tokens | Self::Nodes => &[Admin, Operator],
            Self::Retention => &[Admin, Operator, Privacy],
            Self::Usage => &[Admin, Operator, Auditor],
            Self::Audit => &[Admin, Privacy, Auditor],
            Self::AuditProof => &[Admin, Auditor],
            Self::Export | Self::Users | Self::AdminTokens => &[Admin],
        }
    }

    /// What a role may do.
    pub(crate) fn of(role: Role) -> Vec<Self> {
        Self::ALL.into_iter().filter(|permission| permission.roles().contains(&role)).collect()
    }
}

/// Who may use an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Anybody, without logging in.
    Nothing,
    /// Anybody who is logged in or has an admin token.
    Anyone,
    /// Somebody who is logged in. An admin token has no password, no second factor and no session.
    Session,
    /// A role that has this permission.
    May(Permission),
}

impl Needs {
    /// The roles that may use it.
    pub(crate) const fn roles(self) -> &'static [Role] {
        match self {
            Self::Nothing | Self::Anyone | Self::Session => &Role::ALL,
            Self::May(permission) => permission.roles(),
        }
    }
}
