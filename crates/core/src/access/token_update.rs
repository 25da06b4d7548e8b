//! Changing a token: only what is named changes.

use crate::{Lifetime, OrNone, Quota, Rate, Scopes, Timestamp, Token};

/// What to change about a token. `None` leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUpdate {
    /// What it may do.
    pub scopes: Option<Scopes>,
    /// How long it is valid from now on.
    pub lifetime: Option<Lifetime>,
    /// How often it may send requests.
    pub rate: Option<OrNone<Rate>>,
    /// How many requests it may send at once. Without a rate there is nothing to change.
    pub burst: Option<u32>,
    /// How many hits it may have. It applies to all live tokens of the family, because they share the quota.
    pub quota: Option<OrNone<Quota>>,
}

impl TokenUpdate {
    /// The token as it is after the update.
    pub fn apply(&self, token: &Token, now: Timestamp) -> Token {
        let rate = self.rate.map_or(token.rate, |rate| rate.0);
        let rate = rate.or(token.sandbox.then_some(Rate::OF_SANDBOX));
        Token {
            scopes: self.scopes.unwrap_or(token.scopes),
            lifetime: self.lifetime.unwrap_or(token.lifetime),
            expires_at: self.lifetime.map_or(token.expires_at, |lifetime| lifetime.end(now)),
            rate: rate.map(|rate| Rate { burst: self.burst.unwrap_or(rate.burst), ..rate }),
            quota: self.quota.map_or(token.quota, |quota| quota.0),
            ..token.clone()
        }
    }
}

/// A token that was updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdatedToken {
    /// As it was.
    pub before: Token,
    /// As it is now.
    pub after: Token,
    /// The ids of the other tokens that got the new quota, oldest first.
    pub sharing: Vec<String>,
}
