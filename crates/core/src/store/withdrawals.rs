//! Opt-outs and revocations of one store, to be applied to another one made from an older backup.

use crate::store::Stored;
use crate::store::entities::{Entity, EntityRow, EntityTable, from_rows, to_row};
use crate::{AdminToken, SubjectDigest, Timestamp, Token, TokenHash, User};

/// Suppressions, tokens and ended accounts of one store, to be applied to another one that was restored from an older backup.
#[derive(Debug, Default)]
pub struct Withdrawals {
    /// All suppressions, and since when.
    pub suppressions: Vec<(SubjectDigest, Timestamp)>,
    /// All tokens, revoked or not.
    pub tokens: Vec<(TokenHash, Token)>,
    /// The names of disabled users, and since when.
    pub disabled_users: Vec<(String, Timestamp)>,
    /// The ids of revoked admin tokens, and since when.
    pub revoked_admin_tokens: Vec<(String, Timestamp)>,
}

/// How much of [`Withdrawals`] was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenOver {
    /// Suppressions that were added.
    pub suppressions: u64,
    /// Tokens that are revoked now or have ended, and were not before.
    pub revocations: u64,
    /// Other tokens that end earlier now, or have fewer scopes.
    pub restrictions: u64,
    /// Users that are disabled now and admin tokens that are revoked now, and were not before.
    pub accounts: u64,
}

impl Withdrawals {
    /// What the rows of another store withdraw.
    pub fn from_rows(
        suppressions: Vec<(SubjectDigest, Timestamp)>,
        [tokens, users, admin_tokens]: [Vec<EntityRow>; 3],
    ) -> Stored<Self> {
        let users = from_rows::<User>(&users)?.into_iter();
        let admin_tokens = from_rows::<(TokenHash, AdminToken)>(&admin_tokens)?.into_iter();
        Ok(Self {
            suppressions,
            tokens: from_rows(&tokens)?,
            disabled_users: users.filter_map(|user| Some((user.name, user.disabled_at?))).collect(),
            revoked_admin_tokens: admin_tokens
                .filter_map(|(_, token)| Some((token.id, token.revoked_at?)))
                .collect(),
        })
    }

    /// The rows of a table to store, given those that it has. Counts what is new.
    pub fn decide(
        &self,
        table: EntityTable,
        rows: &[EntityRow],
        now: Timestamp,
        taken: &mut TakenOver,
    ) -> Stored<Vec<EntityRow>> {
        let ended = match table {
            EntityTable::Tokens => {
                return to_rows(&self.decide_tokens(&from_rows(rows)?, now, taken));
            }
            EntityTable::Users => ended(rows, &self.disabled_users, |user: &mut User| &mut user.disabled_at),
            EntityTable::AdminTokens => {
                ended(rows, &self.revoked_admin_tokens, |(_, token): &mut (TokenHash, AdminToken)| {
                    &mut token.revoked_at
                })
            }
        }?;
        taken.accounts += ended.len() as u64;
        Ok(ended)
    }

    fn decide_tokens(
        &self,
        known: &[(TokenHash, Token)],
        now: Timestamp,
        taken: &mut TakenOver,
    ) -> Vec<(TokenHash, Token)> {
        let mut stored = Vec::new();
        for (hash, there) in &self.tokens {
            let Some((hash, here)) = known.iter().find(|(_, token)| token.id == there.id) else {
                stored.push((*hash, there.revoked(now)));
                continue;
            };
            if here.revoked_at.is_some() {
                continue;
            }
            let restricted = match there.revoked_at {
                Some(at) => Token { revoked_at: Some(at), ..here.clone() },
                None => Token {
                    expires_at: here.expires_at.into_iter().chain(there.expires_at).min(),
                    scopes: here.scopes.and(there.scopes),
                    ..here.clone()
                },
            };
            if restricted != *here {
                *(if there.is_live(now) { &mut taken.restrictions } else { &mut taken.revocations }) += 1;
                stored.push((*hash, restricted));
            }
        }
        stored
    }
}

/// The rows of accounts that end now, each with its time.
fn ended<E: Entity>(
    rows: &[EntityRow],
    withdrawn: &[(String, Timestamp)],
    ended_at: impl Fn(&mut E) -> &mut Option<Timestamp>,
) -> Stored<Vec<EntityRow>> {
    let mut accounts = from_rows::<E>(rows)?;
    accounts.retain_mut(|account| {
        let end = withdrawn.iter().find(|(id, _)| id == account.id()).map(|(_, at)| *at);
        let ended_at = ended_at(account);
        let ends_now = end.is_some() && ended_at.is_none();
        *ended_at = ended_at.or(end);
        ends_now
    });
    to_rows(&accounts)
}

fn to_rows<E: Entity>(entities: &[E]) -> Stored<Vec<EntityRow>> {
    entities.iter().map(to_row).collect()
}
