//! Tokens: the secret that a caller presents, and what is stored about it.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Lifetime, Quota, Rate, ScopeFault, Scopes, Timestamp};

const PREFIX: &str = "ctd_";
/// As long as the other one.
const ADMIN_PREFIX: &str = "cta_";
const SANDBOX_PREFIX: &str = "ctd_test_";
const RANDOM_CHARS: usize = 32;
const CHECK_CHARS: usize = 6;
const TOKEN_CHARS: usize = PREFIX.len() + RANDOM_CHARS + CHECK_CHARS;
const SANDBOX_TOKEN_CHARS: usize = SANDBOX_PREFIX.len() + RANDOM_CHARS + CHECK_CHARS;
const ID_CHARS: usize = 12;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The secret of a token. It is shown once, when it is created, and never stored.
///
/// It consists of `ctd_`, 32 random characters (190 bits), and 6 check characters: a CRC-32 of the preceding text.
/// So secret scanners can recognise it, and a typo is refused without searching for the token. The secret of a token of
/// the admin API begins with `cta_`, and that of the sandbox with `ctd_test_`, so that none is taken for another.
pub struct TokenSecret(String);

impl TokenSecret {
    /// Creates a token from the operating system's random numbers.
    pub fn generate() -> Result<Self, getrandom::Error> {
        Self::with_prefix(PREFIX)
    }

    /// As [`generate`](Self::generate), but a token of the sandbox.
    pub fn generate_sandbox() -> Result<Self, getrandom::Error> {
        Self::with_prefix(SANDBOX_PREFIX)
    }

    /// As [`generate`](Self::generate), but a token of the admin API.
    pub fn generate_admin() -> Result<Self, getrandom::Error> {
        Self::with_prefix(ADMIN_PREFIX)
    }

    fn with_prefix(prefix: &str) -> Result<Self, getrandom::Error> {
        let mut token = prefix.to_owned();
        push_random(&mut token, RANDOM_CHARS)?;
        token.extend(check_characters(token.as_bytes()).map(char::from));
        Ok(Self(token))
    }

    /// The token in clear.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash to store.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of_checked(self.0.as_bytes())
    }
}

impl fmt::Debug for TokenSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSecret(<redacted>)")
    }
}

/// SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// The hash of a presented token; `None` if it does not have the form of a token.
    pub fn of(presented: impl AsRef<[u8]>) -> Option<Self> {
        Self::with_prefix::<TOKEN_CHARS>(presented.as_ref(), PREFIX)
    }

    /// As [`of`](Self::of), but of a token of the sandbox.
    pub fn of_sandbox(presented: impl AsRef<[u8]>) -> Option<Self> {
        Self::with_prefix::<SANDBOX_TOKEN_CHARS>(presented.as_ref(), SANDBOX_PREFIX)
    }

    /// As [`of`](Self::of), but of a token of the admin API.
    pub fn of_admin(presented: impl AsRef<[u8]>) -> Option<Self> {
        Self::with_prefix::<TOKEN_CHARS>(presented.as_ref(), ADMIN_PREFIX)
    }

    /// The length is known to the compiler, so that it can vectorise the checks.
    fn with_prefix<const CHARS: usize>(presented: &[u8], prefix: &str) -> Option<Self> {
        let presented: &[u8; CHARS] = presented.try_into().ok()?;
        let (checked, check) = presented.split_at(CHARS - CHECK_CHARS);
        // No early exit, so that the compiler can vectorise the loop.
        let is_base62 = checked
            .strip_prefix(prefix.as_bytes())?
            .iter()
            .fold(true, |good, b| good & b.is_ascii_alphanumeric());
        (is_base62 && check_characters(checked) == check).then(|| Self::of_checked(presented))
    }

    fn of_checked(token: &[u8]) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Wraps a hash from an engine.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(<redacted>)")
    }
}

/// CRC-32 in six base62 digits.
fn check_characters(checked: &[u8]) -> [u8; CHECK_CHARS] {
    let mut rest = crc32fast::hash(checked);
    let mut check = [b'0'; CHECK_CHARS];
    for digit in check.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    check
}

/// A prefix and random characters that make an id.
pub(crate) fn random_id(prefix: &str) -> Result<String, getrandom::Error> {
    let mut id = prefix.to_owned();
    push_random(&mut id, ID_CHARS)?;
    Ok(id)
}

/// Appends random base62 characters, each equally likely.
fn push_random(text: &mut String, count: usize) -> Result<(), getrandom::Error> {
    push_random_of(text, BASE62, count)
}

/// Appends random characters of an alphabet, each equally likely.
pub(crate) fn push_random_of(
    text: &mut String,
    alphabet: &[u8],
    mut count: usize,
) -> Result<(), getrandom::Error> {
    // The largest multiple of the number of characters in a byte. Bytes from there on would make some more likely.
    let end = 256 - 256 % alphabet.len();
    let mut bytes = [0; 64];
    while count > 0 {
        getrandom::fill(&mut bytes)?;
        for byte in bytes.iter().map(|&byte| usize::from(byte)).filter(|&byte| byte < end).take(count) {
            text.push(char::from(alphabet[byte % alphabet.len()]));
            count -= 1;
        }
    }
    Ok(())
}

/// The record of a token, without its secret. Its JSON is what an engine stores.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// The id that commands use.
    pub id: String,
    /// The name that people use: who it was issued to.
    pub name: String,
    /// The id of the first token of its family: of the tokens that were made from each other by rotation. They share
    /// one quota.
    pub family: String,
    /// The id of the token that it was made from by rotation.
    pub rotated_from: Option<String>,
    /// What it may do.
    pub scopes: Scopes,
    /// It is answered by the sandbox, which makes answers up: it discloses nothing, has no quota and is not counted. All tokens of
    /// a family are of the sandbox, or none is.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sandbox: bool,
    /// When it was created.
    pub created_at: Timestamp,
    /// How long it was asked to be valid. A rotation of it asks for the same.
    pub lifetime: Lifetime,
    /// When it expires: it is refused from then on. A rotation can make this earlier.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// How often it may send requests.
    pub rate: Option<Rate>,
    /// How many hits it may have.
    pub quota: Option<Quota>,
    /// When it was last accepted. An engine stores it with what was used.
    #[serde(skip)]
    pub last_used_at: Option<Timestamp>,
    /// How many details it has received. An engine stores it by day.
    #[serde(skip)]
    pub hits: u64,
}

impl Token {
    /// Creates the record of a new token: for details of every kind, no expiry, no limits.
    pub fn new(name: &str, created_at: Timestamp) -> Result<Self, getrandom::Error> {
        let id = random_id("tok_")?;
        Ok(Self {
            family: id.clone(),
            id,
            name: name.to_owned(),
            rotated_from: None,
            scopes: Scopes::ALL,
            sandbox: false,
            created_at,
            lifetime: Lifetime::Forever,
            expires_at: None,
            revoked_at: None,
            rate: None,
            quota: None,
            last_used_at: None,
            hits: 0,
        })
    }

    /// The token as it is stored where it must not be accepted: its id in the journal has a name, and it can be rotated.
    pub(crate) fn revoked(&self, at: Timestamp) -> Self {
        Self { revoked_at: Some(at), ..self.clone() }
    }

    /// The token, which expires at `end` or earlier. One that is revoked stays as it is.
    pub fn ending(&self, end: Timestamp) -> Self {
        let expires_at = Some(self.expires_at.map_or(end, |own| own.min(end)));
        Self {
            expires_at: if self.revoked_at.is_none() { expires_at } else { self.expires_at },
            ..self.clone()
        }
    }

    /// Whether it can have its scopes.
    pub fn check_scopes(&self) -> Result<(), ScopeFault> {
        self.scopes.check(self.quota.is_some() || self.sandbox)
    }

    /// Whether the token is accepted at `now`.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// The state at `now`, in a word or two.
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.revoked_at.is_some() {
            "revoked"
        } else if !self.is_live(now) {
            "expired"
        } else if self.ends_soon(now) {
            "ends soon"
        } else {
            "live"
        }
    }

    /// Whether it is accepted at `now` and expires within 14 days.
    pub fn ends_soon(&self, now: Timestamp) -> bool {
        const WARNING_MILLIS: i64 = 14 * 86_400_000;
        let soon = Timestamp::from_millis(now.millis() + WARNING_MILLIS);
        self.is_live(now) && self.expires_at.is_some_and(|end| end <= soon)
    }
}

/// Tokens of other kinds are stored as they were before there was a sandbox.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_token_is_recognised_by_its_stored_hash() {
        let secret = TokenSecret::generate().expect("randomness");
        assert_eq!(secret.expose().len(), 42);
        assert!(TokenHash::of(secret.expose()) == Some(secret.hash()));
    }

    #[test]
    fn no_kind_of_token_is_taken_for_another() {
        let kinds = [TokenSecret::generate, TokenSecret::generate_admin, TokenSecret::generate_sandbox];
        let hashes: [fn(&str) -> Option<TokenHash>; 3] = [
            |text| TokenHash::of(text),
            |text| TokenHash::of_admin(text),
            |text| TokenHash::of_sandbox(text),
        ];
        for (at, generate) in kinds.into_iter().enumerate() {
            let secret = generate().expect("randomness");
            for (other, hash) in hashes.into_iter().enumerate() {
                assert!(hash(secret.expose()) == (at == other).then(|| secret.hash()), "{at} as {other}");
            }
        }
    }

    #[test]
    fn a_token_is_stored_as_before_there_was_a_sandbox_unless_it_is_of_it() {
        let token = Token::new("crm", Timestamp::from_millis(0)).expect("randomness");
        let stored = serde_json::to_string(&token).expect("JSON");
        assert!(!stored.contains("sandbox"), "{stored}");
        assert_eq!(serde_json::from_str::<Token>(&stored).expect("a token"), token);
        let sandbox = Token { sandbox: true, ..token };
        let stored = serde_json::to_string(&sandbox).expect("JSON");
        assert_eq!(serde_json::from_str::<Token>(&stored).expect("a token"), sandbox);
    }

    #[test]
    fn a_token_with_a_typo_has_no_hash() {
        let secret = TokenSecret::generate().expect("randomness");
        for at in 0..secret.expose().len() {
            let mut typo = secret.expose().as_bytes().to_vec();
            typo[at] = if typo[at] == b'x' { b'y' } else { b'x' };
            let typo = String::from_utf8(typo).expect("ASCII");
            assert!(TokenHash::of(&typo).is_none(), "typo at {at}");
        }
    }

    #[test]
    fn the_check_characters_are_the_crc_of_the_preceding_text() {
        let checked = format!("ctd_{}", "0".repeat(32));
        let mut rest = u64::from(crc32fast::hash(checked.as_bytes()));
        let mut digits = Vec::new();
        for _ in 0..6 {
            digits.insert(0, char::from(BASE62[usize::try_from(rest % 62).expect("small")]));
            rest /= 62;
        }
        assert_eq!(
            String::from_iter(check_characters(checked.as_bytes()).map(char::from)),
            String::from_iter(digits)
        );
    }

    #[test]
    fn text_that_is_not_a_token_is_refused() {
        for text in ["", "ctd_", "é", &"é".repeat(21), &"ctd_é".repeat(7), &"x".repeat(1_000_000)] {
            assert!(TokenHash::of(text).is_none());
        }
    }
}
