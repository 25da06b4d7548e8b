//! Passwords, which are stored as Argon2id hashes.

use std::fmt;

use argon2::Argon2;
use argon2::password_hash::{Error, PasswordHasher, PasswordVerifier, phc};

use crate::access::token::push_random_of;
use crate::blocking;

/// A password that a user chooses has at least this many characters.
pub const SHORTEST_PASSWORD: usize = 12;
/// A longer password is refused before it is hashed.
pub const MOST_PASSWORD_BYTES: usize = 1_024;

const SALT_BYTES: usize = 16;

/// No digit or letter that looks like another one.
const CLEAR_CHARS: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";
const GROUPS: usize = 5;
const GROUP_CHARS: usize = 5;

/// A hash of nobody's password, at the same cost as all others.
const NOBODYS: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// The hash of a password: Argon2id, as a PHC string.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// Hashes a password. This takes some 20 ms and 19 MiB, on the thread that calls it.
    pub fn of(password: &str) -> Result<Self, HashError> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)?;
        // Its default is Argon2id at the cost that OWASP advises, as in `NOBODYS`.
        let argon2 = Argon2::default();
        let hash: phc::PasswordHash = blocking(|| argon2.hash_password_with_salt(password.as_bytes(), &salt))
            .map_err(|_: Error| HashError::Failed)?;
        Ok(Self(hash.to_string()))
    }

    /// The hash to check a password against if there is no such user: it costs the same, and no password fits.
    pub fn nobodys() -> Self {
        Self(NOBODYS.to_owned())
    }

    /// Whether this is the hash of a password. The cost does not depend on the result.
    pub fn is_of(&self, password: &str) -> bool {
        let is_short = password.len() <= MOST_PASSWORD_BYTES;
        let password = if is_short { password.as_bytes() } else { b"" };
        let checked = phc::PasswordHash::new(&self.0)
            .map_err(Error::from)
            .and_then(|hash| blocking(|| Argon2::default().verify_password(password, &hash)));
        if let Err(error) = &checked
            && *error != Error::PasswordInvalid
        {
            tracing::warn!(%error, "a password could not be checked, so it counts as wrong");
        }
        checked.is_ok() && is_short
    }

    /// Wraps a hash from an engine.
    pub const fn from_store(text: String) -> Self {
        Self(text)
    }

    /// The text to store.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(<redacted>)")
    }
}

/// Why a password could not be hashed.
#[derive(Debug, thiserror::Error)]
pub enum HashError {
    /// The system has no random bytes.
    #[error("no randomness from the system: {0}")]
    Random(#[from] getrandom::Error),
    /// The hash could not be computed.
    #[error("a password could not be hashed: 19 MiB of memory are needed for it")]
    Failed,
}

/// A new password that is used once, to choose another one: 25 characters (123 bits), in groups that can be read aloud.
pub fn one_time_password() -> Result<String, getrandom::Error> {
    let mut password = String::new();
    for group in 0..GROUPS {
        if group > 0 {
            password.push('-');
        }
        push_random_of(&mut password, CLEAR_CHARS, GROUP_CHARS)?;
    }
    Ok(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_fits_its_hash() {
        let password = one_time_password().expect("randomness");
        assert_eq!(password.len(), 29);
        let hash = PasswordHash::of(&password).expect("hashes");
        assert!(hash.as_str().starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{}", hash.as_str());
        assert!(hash.is_of(&password));
        for wrong in ["", &password[1..], &format!("{password} "), &"x".repeat(2_000)] {
            assert!(!hash.is_of(wrong));
        }
        assert_ne!(hash, PasswordHash::of(&password).expect("hashes"), "every hash has its own salt");
        assert_eq!(format!("{hash:?}"), "PasswordHash(<redacted>)");
    }

    #[test]
    fn no_password_fits_nobodys_hash_and_it_costs_the_same() {
        for password in ["", "correct horse battery staple", &"x".repeat(2_000)] {
            assert!(!PasswordHash::nobodys().is_of(password));
        }
        let cost = |hash: &PasswordHash| {
            let parsed = phc::PasswordHash::new(hash.as_str()).expect("a hash");
            (
                parsed.params.to_string(),
                parsed.salt.map(|salt| salt.len()),
                parsed.hash.map(|hash| hash.len()),
            )
        };
        let real = PasswordHash::of("correct horse battery staple").expect("hashes");
        assert_eq!(cost(&PasswordHash::nobodys()), cost(&real));
    }

    #[test]
    fn too_long_a_password_never_fits() {
        let long = "x".repeat(MOST_PASSWORD_BYTES + 1);
        assert!(!PasswordHash::of("").expect("hashes").is_of(&long));
        assert!(!PasswordHash::of(&long).expect("hashes").is_of(&long));
    }
}
