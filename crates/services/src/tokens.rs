//! Creating, listing, updating, revoking and rotating tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::store::{AuditUsage, Machine, StoreError};
use contactd_core::{
    Actor, AdminEntry, Affected, Lifetime, NameError, Quota, Rate, ScopeFault, Scopes, Timestamp, Token,
    TokenSecret, TokenUpdate, UpdatedToken, new_name,
};

use crate::Parts;
use crate::{Changed, Committed};

/// Issues and revokes tokens.
pub struct TokenIssuer {
    pub(crate) parts: Arc<Parts>,
}

/// The properties of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Who it is for.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// Whether the sandbox answers it. It then has a rate in any case, and no quota.
    pub sandbox: bool,
    /// How long it is valid.
    pub lifetime: Lifetime,
    /// How often it may send requests.
    pub rate: Option<Rate>,
    /// How many hits it may have.
    pub quota: Option<Quota>,
}

/// A newly created token. This is the only time that its secret is known.
#[derive(Debug)]
pub struct IssuedToken {
    /// The secret.
    pub secret: TokenSecret,
    /// The record that is stored.
    pub token: Token,
    /// The token that it was made from by rotation, with its new end.
    pub rotated: Option<Token>,
}

/// Why a token was not created, changed or found.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Another token has that name, or had it.
    #[error(
        "{0} has this name, or had it, and its lookups are on record under it; `contactd token rotate {0}` makes a new token that \
         continues it, also after it has ended; for another recipient choose another name"
    )]
    Taken(String),
    /// It would have expired already.
    #[error("the token would have expired already; give it a longer time, such as --expires 90d")]
    NoLifetime,
    /// There is no such token.
    #[error("there is no token with the id or name {0}; `contactd token list` shows them")]
    Unknown(String),
    /// Several live tokens have that name; or several that have ended, of more than one family.
    #[error(
        "nothing was changed: {} tokens have the name {name}: {}; give the id of the one you mean",
        .ids.len(),
        .ids.join(", ")
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The ids of the tokens, oldest first.
        ids: Vec<String>,
    },
    /// It is revoked or has expired, so it cannot be updated.
    #[error("{0} has ended; `contactd token rotate {0}` makes a new one that continues it")]
    Ended(String),
    /// A burst without a rate.
    #[error("nothing was changed: {0} has no rate of its own, so a burst needs --rate too")]
    NoRate(String),
    /// A quota of a token of the sandbox.
    #[error(
        "nothing was changed: a token of the sandbox has no quota, because nothing that it receives counts; leave out --quota"
    )]
    QuotaInSandbox,
    /// It cannot have these scopes.
    #[error(transparent)]
    Scopes(#[from] ScopeFault),
    /// The system provides no random numbers.
    #[error("no randomness from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TokenIssuer {
    /// Creates a token, with a name that no other family of tokens has or had: whoever reads the journal, or the report for a person,
    /// knows recipients by their names.
    pub async fn create(&self, actor: &Actor, new: NewToken) -> Result<Committed<IssuedToken>, TokenError> {
        let entry = self.parts.entry(actor, "token create");
        let name = new_name(&new.name)?;
        if new.lifetime.is_empty() {
            return Err(TokenError::NoLifetime);
        }
        if new.sandbox && new.quota.is_some() {
            return Err(TokenError::QuotaInSandbox);
        }
        let now = self.parts.clock.now();
        let token = Token {
            scopes: new.scopes,
            sandbox: new.sandbox,
            lifetime: new.lifetime,
            expires_at: new.lifetime.end(now),
            rate: new.rate.or(new.sandbox.then_some(Rate::OF_SANDBOX)),
            quota: new.quota,
            ..Token::new(name, now)?
        };
        token.check_scopes()?;
        let secret = secret_of(&token)?;
        let about = entry.clone().about(&token.id);
        if let Some(namesake) = self.parts.store.create_token(&secret.hash(), &token, Some(&about)).await? {
            self.parts.note_failure(&entry.about(&namesake.id)).await;
            return Err(TokenError::Taken(namesake.id));
        }
        let issued = IssuedToken { secret, token, rotated: None };
        Ok(Committed::new(issued, Arc::clone(&self.parts), about.entry))
    }

    /// All tokens, oldest first, including expired and revoked ones.
    pub async fn list(&self, actor: &Actor) -> Result<Vec<Token>, TokenError> {
        actor.note("token list");
        let tokens = self.parts.store.list_tokens().await?;
        Ok(tokens.into_iter().map(|(_, token)| token).collect())
    }

    /// Revokes a token now, by id or by name. Revoking it again changes nothing.
    pub async fn revoke(&self, actor: &Actor, id_or_name: &str) -> Result<Changed<Token>, TokenError> {
        let (token, entry) = self.find(self.parts.entry(actor, "token revoke"), id_or_name).await?;
        let (store, now) = (&self.parts.store, self.parts.clock.now());
        let revoked = match store.revoke_token(&token.id, now, Some(&entry)).await {
            Err(StoreError::NotNoted) => store.revoke_token(&token.id, now, None).await?,
            revoked => revoked?,
        };
        let token = revoked.ok_or(TokenError::Unknown(token.id))?;
        Ok(self.parts.announce(token, Affected::Access, &[&entry.entry]).await)
    }

    /// Updates a live token, by id or by name.
    pub async fn update(
        &self,
        actor: &Actor,
        id_or_name: &str,
        update: &TokenUpdate,
    ) -> Result<Changed<UpdatedToken>, TokenError> {
        let (token, entry) = self.find(self.parts.entry(actor, "token update"), id_or_name).await?;
        let now = self.parts.clock.now();
        if !token.is_live(now) {
            self.parts.note_failure(&entry).await;
            return Err(TokenError::Ended(token.id));
        }
        if let Err(fault) = self.check_scopes(&token, update, now).await? {
            self.parts.note_failure(&entry).await;
            return Err(fault.into());
        }
        if update.burst.is_some() && update.apply(&token, now).rate.is_none() {
            self.parts.note_failure(&entry).await;
            return Err(TokenError::NoRate(token.id));
        }
        if token.sandbox && update.quota.is_some_and(|quota| quota.0.is_some()) {
            self.parts.note_failure(&entry).await;
            return Err(TokenError::QuotaInSandbox);
        }
        let updated = self.parts.store.update_token(&token.id, update, now, Some(&entry)).await?;
        let updated = updated.ok_or(TokenError::Ended(token.id))?;
        Ok(self.parts.announce(updated, Affected::Access, &[&entry.entry]).await)
    }

    /// Whether the token, and those that share its quota, can have their scopes after an update.
    async fn check_scopes(
        &self,
        token: &Token,
        update: &TokenUpdate,
        now: Timestamp,
    ) -> Result<Result<(), ScopeFault>, StoreError> {
        let after = update.apply(token, now);
        let mut checked = after.check_scopes();
        if update.quota.is_some() {
            let is_sharing = |other: &Token| other.family == token.family && other.id != token.id;
            for (_, other) in self.parts.store.list_tokens().await? {
                if other.is_live(now) && is_sharing(&other) {
                    checked = checked.and(Token { quota: after.quota, ..other }.check_scopes());
                }
            }
        }
        Ok(checked)
    }

    /// Creates a token in place of another one, which stays valid for `overlap` at most, or has ended already. They are one family:
    /// one recipient, with one quota. Unless `lifetime` is given, the new token gets the one that was asked for with the old token.
    pub async fn rotate(
        &self,
        actor: &Actor,
        id_or_name: &str,
        overlap: Duration,
        lifetime: Option<Lifetime>,
    ) -> Result<Committed<IssuedToken>, TokenError> {
        let (old, entry) = self.find(self.parts.entry(actor, "token rotate"), id_or_name).await?;
        let now = self.parts.clock.now();
        let lifetime = lifetime.unwrap_or(old.lifetime);
        if lifetime.is_empty() {
            self.parts.note_failure(&entry).await;
            return Err(TokenError::NoLifetime);
        }
        let token = Token {
            family: old.family.clone(),
            rotated_from: Some(old.id.clone()),
            scopes: old.scopes,
            sandbox: old.sandbox,
            rate: old.rate,
            quota: old.quota,
            lifetime,
            expires_at: lifetime.end(now),
            ..Token::new(&old.name, now)?
        };
        let secret = secret_of(&token)?;
        let ends = now.plus(overlap);
        if !self.parts.store.rotate_token(&old.id, ends, &secret.hash(), &token, Some(&entry)).await? {
            return Err(TokenError::Unknown(old.id));
        }
        let issued = IssuedToken { secret, token, rotated: Some(old.ending(ends)) };
        Ok(Committed::new(issued, Arc::clone(&self.parts), entry.entry))
    }

    /// The token with this id; or else the only live one with this name, or the newest if all have ended and are of one family. The
    /// entry of the action then names its id. If there is none, the failure is noted.
    async fn find(&self, entry: AdminEntry, id_or_name: &str) -> Result<(Token, AdminEntry), TokenError> {
        loop {
            let server = self.parts.store.server();
            let tokens = self.parts.store.list_tokens().await?;
            let tokens = tokens.into_iter().map(|(_, token)| token).collect();
            match choose(tokens, id_or_name, self.parts.clock.now()) {
                Ok(token) => {
                    let entry = entry.about(&token.id);
                    return Ok((token, entry));
                }
                Err(error) if self.parts.is_missing_for_certain(server).await? => {
                    self.parts.note_failure(&entry.about(id_or_name)).await;
                    return Err(error);
                }
                Err(_) => {}
            }
        }
    }
}

impl TokenIssuer {
    /// The hits that count against the tokens' own quotas in the current day or month, each of all tokens of its family, by the
    /// id of the token. Tokens without a quota of their own are left out. Hits of the last seconds may be missing.
    pub async fn quotas_used(&self, tokens: &[Token]) -> Result<HashMap<String, u64>, TokenError> {
        let (store, now) = (&self.parts.store, self.parts.clock.now());
        let here = self.parts.machine.as_ref().map_or(&**store, Machine::files);
        let first_day = |token: &Token| token.quota.map(|quota| quota.period.days(now).0);
        let mut used = HashMap::new();
        let Some(since) = tokens.iter().filter_map(first_day).min() else { return Ok(used) };
        let families: HashMap<String, String> =
            store.list_tokens().await?.into_iter().map(|(_, token)| (token.id, token.family)).collect();
        let mut on_all_nodes: HashMap<&str, Vec<(i64, u64)>> = HashMap::new();
        for AuditUsage { token, day, hits, .. } in store.audit_usage(since).await? {
            if let Some(family) = families.get(&token) {
                on_all_nodes.entry(family).or_default().push((day, hits));
            }
        }
        for token in tokens {
            let Some(first) = first_day(token) else { continue };
            let days = on_all_nodes.get(&*token.family).into_iter().flatten();
            let on_all_nodes: u64 = days.filter(|(day, _)| *day >= first).map(|(_, hits)| hits).sum();
            // The index has no lines if the journal is off; the count of this node has no other nodes.
            let here = here.hits_since(&token.family, first).await?;
            used.insert(token.id.clone(), here.max(on_all_nodes));
        }
        Ok(used)
    }
}

/// A new secret for a token. Its form says whether the token is of the sandbox.
fn secret_of(token: &Token) -> Result<TokenSecret, getrandom::Error> {
    if token.sandbox { TokenSecret::generate_sandbox() } else { TokenSecret::generate() }
}

fn choose(mut tokens: Vec<Token>, id_or_name: &str, now: Timestamp) -> Result<Token, TokenError> {
    if let Some(at) = tokens.iter().position(|token| token.id == id_or_name) {
        return Ok(tokens.swap_remove(at));
    }
    tokens.retain(|token| token.name == id_or_name);
    if tokens.iter().any(|token| token.is_live(now)) {
        tokens.retain(|token| token.is_live(now));
    } else if tokens.iter().all(|token| token.family == tokens[0].family) {
        // Oldest first: what goes on is the newest.
        tokens.drain(..tokens.len().saturating_sub(1));
    }
    let name = id_or_name.to_owned();
    match tokens.len() {
        0 => Err(TokenError::Unknown(name)),
        1 => Ok(tokens.swap_remove(0)),
        _ => Err(TokenError::Ambiguous { name, ids: tokens.into_iter().map(|token| token.id).collect() }),
    }
}
