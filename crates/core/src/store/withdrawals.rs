//! What happened in one store since a backup of it was made, to be applied to another one made from that backup: opt-outs,
//! ended tokens, and the state of all accounts.

use crate::store::Stored;
use crate::store::entities::{Entity, EntityRow, EntityTable, from_rows, to_row};
use crate::{AdminToken, SubjectDigest, Timestamp, Token, TokenHash, User};

/// Suppressions, tokens and accounts of one store, to be applied to another one that was restored from an older backup.
#[derive(Debug, Default)]
pub struct Withdrawals {
    /// All suppressions, and since when.
    pub suppressions: Vec<(SubjectDigest, Timestamp)>,
    /// All tokens, revoked or not.
    pub tokens: Vec<(TokenHash, Token)>,
    /// All users. Each counts as a whole: role, password, second factor, and whether it is disabled.
    pub users: Vec<User>,
    /// All admin tokens, revoked or not.
    pub admin_tokens: Vec<(TokenHash, AdminToken)>,
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
    pub ended_accounts: u64,
    /// Users and admin tokens that were not there before, and disabled users that are enabled now.
    pub new_accounts: u64,
    /// Users with another role.
    pub roles: u64,
    /// Users with another password.
    pub passwords: u64,
    /// Users whose second factor was set up, replaced or removed.
    pub second_factors: u64,
}

impl TakenOver {
    fn count_user(&mut self, before: Option<&User>, after: &User) {
        let Some(before) = before else { return self.count_account(None, after.is_enabled()) };
        self.count_account(Some(before.is_enabled()), after.is_enabled());
        let seed = |user: &User| user.totp.as_ref().map(|seed| (seed.key.clone(), seed.salt.clone()));
        self.roles += u64::from(before.role != after.role);
        self.passwords += u64::from(before.password != after.password);
        self.second_factors += u64::from(seed(before) != seed(after));
    }

    /// Counts an account by whether it was usable before, if it was there, and is usable now.
    fn count_account(&mut self, before: Option<bool>, after: bool) {
        self.ended_accounts += u64::from(before == Some(true) && !after);
        self.new_accounts += u64::from(before.is_none() || before == Some(false) && after);
    }
}

impl Withdrawals {
    /// What the rows of another store hold.
    pub fn from_rows(
        suppressions: Vec<(SubjectDigest, Timestamp)>,
        [tokens, users, admin_tokens]: [Vec<EntityRow>; 3],
    ) -> Stored<Self> {
        Ok(Self {
            suppressions,
            tokens: from_rows(&tokens)?,
            users: from_rows(&users)?,
            admin_tokens: from_rows(&admin_tokens)?,
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
        match table {
            EntityTable::Tokens => to_rows(&self.decide_tokens(&from_rows(rows)?, now, taken)),
            EntityTable::Users => {
                replaced(rows, &self.users, |before, after| taken.count_user(before, after))
            }
            EntityTable::AdminTokens => replaced(rows, &self.admin_tokens, |before, (_, after)| {
                let is_usable = |token: &AdminToken| token.revoked_at.is_none();
                taken.count_account(before.map(|(_, before)| is_usable(before)), is_usable(after));
            }),
        }
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

/// The rows of accounts that are different elsewhere, as they are there.
fn replaced<E: Entity + PartialEq>(
    rows: &[EntityRow],
    elsewhere: &[E],
    mut count: impl FnMut(Option<&E>, &E),
) -> Stored<Vec<EntityRow>> {
    let here = from_rows::<E>(rows)?;
    let mut stored = Vec::new();
    for there in elsewhere {
        let before = here.iter().find(|here| here.id() == there.id());
        if before != Some(there) {
            count(before, there);
            stored.push(to_row(there)?);
        }
    }
    Ok(stored)
}

fn to_rows<E: Entity>(entities: &[E]) -> Stored<Vec<EntityRow>> {
    entities.iter().map(to_row).collect()
}
