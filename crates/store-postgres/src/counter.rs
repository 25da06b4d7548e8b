//! The counters that number changes.

use std::time::Duration;

use contactd_core::store::EntityTable;

/// Which counter a change increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Tokens and suppressions.
    Access,
    /// Details.
    Details,
    /// Users and admin tokens. Nodes do not follow them.
    Accounts,
    /// Usage that is added up. Nodes do not follow it.
    Usage,
}

impl Counter {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Access => "access",
            Self::Details => "details",
            Self::Accounts => "accounts",
            Self::Usage => "usage",
        }
    }

    /// The counter of a table.
    pub(crate) const fn of(table: EntityTable) -> Self {
        match table {
            EntityTable::Tokens => Self::Access,
            EntityTable::Users | EntityTable::AdminTokens => Self::Accounts,
        }
    }

    /// Whether its changes are sealed.
    pub(crate) const fn is_sealed(self) -> bool {
        matches!(self, Self::Access | Self::Accounts)
    }

    /// What it counts the changes of.
    pub(crate) const fn rows(self) -> &'static str {
        match self {
            Self::Access => "tokens and opt-outs",
            Self::Details => "details",
            Self::Accounts => "users and admin tokens",
            Self::Usage => "usage",
        }
    }

    /// How long to wait for another change of the same counter. An import holds the one of details for long.
    pub(crate) const fn lock_timeout(self) -> Duration {
        match self {
            Self::Access | Self::Accounts | Self::Usage => Duration::from_secs(2),
            Self::Details => Duration::from_millis(500),
        }
    }
}
