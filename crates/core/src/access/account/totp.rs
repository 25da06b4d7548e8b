//! Codes of authenticator apps: time-based one-time passwords (RFC 6238), with SHA-1, six digits and 30 seconds, which is
//! what all apps can do.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::{Timestamp, hex};

const STEP_SECONDS: i64 = 30;
/// The clock of a phone may differ by this many steps, either way.
const TOLERATED_STEPS: i64 = 1;
const DIGITS: usize = 6;
const SECRET_BYTES: usize = 20;
const SALT_BYTES: usize = 16;

/// The key from which the secrets of all second factors are derived. It is neither in the store nor in a backup, so that neither
/// tells a secret. It has no `Debug`.
pub struct SecondFactorKey {
    id: String,
    key: [u8; 32],
}

impl SecondFactorKey {
    /// Creates a key from 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let derived = |what: &str| blake3::derive_key(&format!("contactd second factors: {what}"), bytes);
        Self { id: hex::encode(&derived("id")[..8]), key: derived("secrets") }
    }

    /// Whether this seed was made with it.
    pub fn is_of(&self, seed: &TotpSeed) -> bool {
        self.id == seed.key
    }
}

/// What is stored about the second factor of a user. The secret itself is derived from it with the [`SecondFactorKey`].
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TotpSeed {
    /// The id of that key.
    pub key: String,
    /// Random, as hexadecimal digits.
    pub salt: String,
    /// The step of the last code that was accepted. Codes up to this one are refused, so that each counts once.
    pub last_step: i64,
}

impl TotpSeed {
    /// A new seed.
    pub fn new(key: &SecondFactorKey) -> Result<Self, getrandom::Error> {
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt)?;
        Ok(Self { key: key.id.clone(), salt: hex::encode(&salt), last_step: 0 })
    }
}

impl fmt::Debug for TotpSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TotpSeed({}, <redacted>)", self.key)
    }
}

/// Why the secret of a second factor cannot be derived. Nobody logs in without it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TotpKeyError {
    /// Another key is in `keys/`, or none.
    #[error(
        "the second factor of {0} was made with a key that is not in keys/second-factor.key: put that key back there, or reset it \
         with `contactd user reset-totp {0}`"
    )]
    Missing(String),
    /// The file cannot be used.
    #[error("the key of second factors cannot be used: {0}")]
    Unusable(String),
}

/// A secret that a user's app and this service share. It has no `Debug`.
pub struct TotpSecret([u8; SECRET_BYTES]);

/// The secret of a user's second factor.
pub fn secret_of(
    key: Option<&SecondFactorKey>,
    user: &str,
    seed: &TotpSeed,
) -> Result<TotpSecret, TotpKeyError> {
    let key = key.filter(|key| key.is_of(seed)).ok_or_else(|| TotpKeyError::Missing(user.to_owned()))?;
    let derived = blake3::keyed_hash(&key.key, format!("{user} {}", seed.salt).as_bytes());
    let mut secret = [0; SECRET_BYTES];
    secret.copy_from_slice(&derived.as_bytes()[..SECRET_BYTES]);
    Ok(TotpSecret(secret))
}

/// The step of a code, if it is one of now and later than `last_step`. Every step is compared, whichever fits.
pub fn accepted_step(secret: &TotpSecret, code: &str, now: Timestamp, last_step: i64) -> Option<i64> {
    let given = parse(code)?;
    let current = now.seconds().div_euclid(STEP_SECONDS);
    (current - TOLERATED_STEPS..=current + TOLERATED_STEPS).fold(None, |found, step| {
        let differs = code_at(secret, step) ^ given;
        if differs == 0 && step > last_step { Some(step) } else { found }
    })
}

/// A code as people write it: six digits, with spaces anywhere.
fn parse(code: &str) -> Option<u32> {
    let digits: String = code.chars().filter(|c| *c != ' ').collect();
    let is_code = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_code.then(|| digits.parse().ok()).flatten()
}

fn code_at(secret: &TotpSecret, step: i64) -> u32 {
    // HMAC accepts keys of any length, so this cannot fail.
    let mut mac = Hmac::<Sha1>::new_from_slice(&secret.0).unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(&step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let at = usize::from(digest[19] & 15);
    let number = u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]]);
    (number & 0x7fff_ffff) % 10_u32.pow(6)
}

/// The secret as apps read it: base32, without padding.
pub fn to_base32(secret: &TotpSecret) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    // 20 bytes are 32 groups of five bits.
    let bit = |at: usize| usize::from(secret.0[at / 8] >> (7 - at % 8) & 1);
    let group = |first: usize| (first..first + 5).fold(0, |value, at| value << 1 | bit(at));
    (0..SECRET_BYTES * 8).step_by(5).map(|first| char::from(ALPHABET[group(first)])).collect()
}

/// What the QR code for an app contains. Names of users need no escapes.
pub fn setup_uri(user: &str, secret_base32: &str) -> String {
    format!(
        "otpauth://totp/contactd:{user}?secret={secret_base32}&issuer=contactd&algorithm=SHA1&digits=6&period=30"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret() -> TotpSecret {
        TotpSecret(*b"12345678901234567890")
    }

    /// The code of a step, as an app shows it.
    fn shown(step: i64) -> String {
        format!("{:06}", code_at(&secret(), step))
    }

    #[test]
    fn codes_are_those_of_the_standard() {
        // RFC 6238, appendix B, the last six digits.
        for (seconds, code) in [
            (59, 287_082),
            (1_111_111_109, 81_804),
            (1_111_111_111, 50_471),
            (1_234_567_890, 5_924),
            (2_000_000_000, 279_037),
            (20_000_000_000, 353_130),
        ] {
            assert_eq!(code_at(&secret(), seconds / STEP_SECONDS), code, "{seconds}");
        }
        assert_eq!(to_base32(&secret()), "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ");
    }

    #[test]
    fn a_code_is_accepted_once_and_one_step_early_or_late() {
        let now = Timestamp::from_seconds(1_000 * STEP_SECONDS + 29);
        let accepted = |code: &str, last_step| accepted_step(&secret(), code, now, last_step);
        for step in 999..=1_001 {
            assert_eq!(accepted(&shown(step), 0), Some(step));
            assert_eq!(accepted(&shown(step), step - 1), Some(step));
            assert_eq!(accepted(&shown(step), step), None, "it was used");
            assert_eq!(accepted(&shown(step), step + 1), None, "a later one was used");
        }
        assert_eq!(accepted(&shown(998), 0), None, "too early");
        assert_eq!(accepted(&shown(1_002), 0), None, "too late");
        let spaced = format!(" {} {} ", &shown(1_000)[..3], &shown(1_000)[3..]);
        assert_eq!(accepted(&spaced, 0), Some(1_000));
        for wrong in ["", "12345", "1234567", "12345x", "+12345", "é1234", &shown(1_000)[1..]] {
            assert_eq!(accepted(wrong, 0), None, "{wrong}");
        }
    }

    #[test]
    fn a_secret_needs_the_key_and_belongs_to_one_user() {
        let [key, other] = [1, 2].map(|byte| SecondFactorKey::new(&[byte; 32]));
        let seed = TotpSeed::new(&key).expect("randomness");
        assert_eq!((seed.key.as_str(), seed.last_step, seed.salt.len()), (key.id.as_str(), 0, 32));
        let shown = |key: Option<&SecondFactorKey>, user: &str| {
            secret_of(key, user, &seed).map(|secret| to_base32(&secret))
        };
        assert_eq!(shown(Some(&key), "olga"), shown(Some(&key), "olga"));
        assert_ne!(shown(Some(&key), "olga"), shown(Some(&key), "pavel"));
        for missing in [Some(&other), None] {
            assert_eq!(shown(missing, "olga"), Err(TotpKeyError::Missing("olga".to_owned())));
        }
        assert!(!format!("{seed:?}").contains(&seed.salt));
        let uri = setup_uri(&"a".repeat(64), &shown(Some(&key), "olga").expect("known"));
        assert!(uri.len() <= 287, "{}", uri.len());
    }
}
