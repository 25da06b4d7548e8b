//! The key of second factors: a file of its own, which no backup contains and every node of a cluster has to be given.
//!
//! It is read whenever it is needed, so that one that is put back is used at once. If it is missing or another one, whoever has
//! a second factor does not log in.

use contactd_core::store::StoreError;
use contactd_core::{Finding, SecondFactorKey, TotpKeyError, TotpSecret, TotpSeed, User, secret_of};

use super::UserError;
use crate::Parts;

/// Reads the key of second factors; `None` if there is none. With `true`, one is made then.
pub type ReadSecondFactorKey =
    Box<dyn Fn(bool) -> Result<Option<SecondFactorKey>, TotpKeyError> + Send + Sync>;

impl Parts {
    /// The secret of a user's second factor.
    pub(super) fn totp_secret(&self, user: &str, seed: &TotpSeed) -> Result<TotpSecret, TotpKeyError> {
        secret_of((self.second_factor_key)(false)?.as_ref(), user, seed)
    }

    /// A seed under the key that all other second factors have. If there is none yet, the key is made. A second key is not made:
    /// the users of the other one could not log in here, and these not on other nodes.
    pub(super) async fn new_totp_seed(&self) -> Result<TotpSeed, UserError> {
        let has_current_kind =
            |user: &User| user.totp.as_ref().is_some_and(|seed| !self.is_of_digest_key(seed));
        let others: Vec<User> = self.store.list_users().await?.into_iter().filter(has_current_kind).collect();
        let key = (self.second_factor_key)(others.is_empty())?;
        let without = |user: &User| is_without(key.as_ref(), user);
        match (&key, others.into_iter().find(without)) {
            (Some(key), None) => Ok(TotpSeed::new(key)?),
            (_, user) => Err(TotpKeyError::Missing(user.map(|user| user.name).unwrap_or_default()).into()),
        }
    }

    /// Whether a seed is of the time when second factors were made with the digest key, and cannot be used any more.
    fn is_of_digest_key(&self, seed: &TotpSeed) -> bool {
        self.keys.hold(&seed.key)
    }

    /// The users who cannot log in because of the key, and what to do.
    pub(crate) async fn locked_out(&self) -> Result<Option<Finding>, StoreError> {
        let users = self.store.list_users().await?;
        // A machine without a node checks no codes.
        if self.machine.is_none() || users.iter().all(|user| user.totp.is_none()) {
            return Ok(None);
        }
        let key = match (self.second_factor_key)(false) {
            Ok(key) => key,
            Err(error) => {
                let advice = "restore keys/second-factor.key, or the permissions of keys/";
                return Ok(Some(Finding::fail("accounts", error.to_string(), advice)));
            }
        };
        let locked_out: Vec<&str> = users
            .iter()
            .filter(|user| is_without(key.as_ref(), user))
            .map(|user| user.name.as_str())
            .collect();
        Ok((!locked_out.is_empty()).then(|| {
            let message = format!(
                "these users cannot log in, because the key of their second factor is not the one in keys/second-factor.key: {}",
                locked_out.join(", ")
            );
            let advice = "copy the file of another node, or of the data directory before a restore, to there; if it is lost, run \
                          `contactd user reset-totp NAME` for each";
            Finding::fail("accounts", message, advice)
        }))
    }
}

/// Whether a user has a second factor that was not made with this key.
fn is_without(key: Option<&SecondFactorKey>, user: &User) -> bool {
    user.totp.as_ref().is_some_and(|seed| key.is_none_or(|key| !key.is_of(seed)))
}
