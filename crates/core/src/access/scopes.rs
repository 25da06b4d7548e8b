//! What a token may do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Kind;

/// One thing that a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "ScopeName")]
#[expect(missing_docs, reason = "the names say it, and doc comments would be descriptions on the wire")]
pub enum Scope {
    Phone,
    Email,
    Mcp,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Phone, Self::Email, Self::Mcp];

    /// The name that commands and the admin API use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Phone => "phone",
            Self::Email => "email",
            Self::Mcp => "mcp",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// What a token may look up, and how else than by the operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scopes {
    /// Phone numbers.
    pub phone: bool,
    /// E-mail addresses.
    pub email: bool,
    /// Also through the Model Context Protocol. A token without it is stored as it was before there was this scope.
    #[serde(default, skip_serializing_if = "is_not")]
    pub mcp: bool,
}

/// Why a token cannot have its scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeFault {
    /// An agent decides by itself how often it asks, so something has to end that.
    #[error("the scope mcp needs a quota")]
    McpWithoutQuota,
    /// Then there is nothing that an agent could ask for.
    #[error("the scope mcp needs the scope phone or email beside it")]
    McpAlone,
}

impl Scopes {
    /// Details of every kind, and nothing else.
    pub const ALL: Self = Self { phone: true, email: true, mcp: false };

    /// Those that were named.
    pub fn of(named: &[Scope]) -> Self {
        let has = |scope| named.contains(&scope);
        Self { phone: has(Scope::Phone), email: has(Scope::Email), mcp: has(Scope::Mcp) }
    }

    /// Whether it is one of them.
    pub const fn has(self, scope: Scope) -> bool {
        match scope {
            Scope::Phone => self.phone,
            Scope::Email => self.email,
            Scope::Mcp => self.mcp,
        }
    }

    /// Whether `kind` may be looked up.
    pub const fn allow(self, kind: Kind) -> bool {
        match kind {
            Kind::Phone => self.phone,
            Kind::Email => self.email,
        }
    }

    /// What both allow.
    pub const fn and(self, other: Self) -> Self {
        Self {
            phone: self.phone && other.phone,
            email: self.email && other.email,
            mcp: self.mcp && other.mcp,
        }
    }

    /// Whether a token can have them. One that is `bounded` has a quota, or is of the sandbox, which discloses nothing.
    pub fn check(self, bounded: bool) -> Result<(), ScopeFault> {
        if self.mcp && !bounded {
            return Err(ScopeFault::McpWithoutQuota);
        }
        if self.mcp && !Kind::ALL.into_iter().any(|kind| self.allow(kind)) {
            return Err(ScopeFault::McpAlone);
        }
        Ok(())
    }

    /// The names of those that there are.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Scope::ALL.into_iter().filter(move |&scope| self.has(scope)).map(Scope::name)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_not(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_is_not_for_agents_is_stored_as_it_always_was() {
        let stored = "{\"phone\":true,\"email\":false}";
        let scopes: Scopes = serde_json::from_str(stored).expect("reads");
        assert_eq!(scopes, Scopes { phone: true, ..Scopes::default() });
        assert_eq!(serde_json::to_string(&scopes).expect("writes"), stored);
        let with = Scopes { mcp: true, ..scopes };
        let stored = serde_json::to_string(&with).expect("writes");
        assert_eq!(serde_json::from_str::<Scopes>(&stored).expect("reads"), with);
    }

    #[test]
    fn agents_need_a_quota_and_something_to_ask_for() {
        let phone = Scopes::of(&[Scope::Mcp, Scope::Phone]);
        assert_eq!((phone.check(true), phone.check(false)), (Ok(()), Err(ScopeFault::McpWithoutQuota)));
        assert_eq!(Scopes::of(&[Scope::Mcp]).check(true), Err(ScopeFault::McpAlone));
        assert_eq!((Scopes::ALL.check(false), Scopes::default().check(false)), (Ok(()), Ok(())));
    }
}
