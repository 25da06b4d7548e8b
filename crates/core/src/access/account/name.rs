//! Names of users.

use crate::access::names_nobody;

/// The name of a user: 1 to 64 lower-case letters, digits, dots, dashes and underscores, beginning with a letter or a
/// digit. So it can stand in a path, a log line and a table as it is. It is no number that could be that of a phone: it stays in the
/// journal for good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserName(String);

/// A text is not the name of a user. The text itself is left out: it may be a password in the wrong field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the name of a user has 1 to 64 lower-case letters, digits, dots, dashes or underscores, begins with a letter or a digit, and is \
     no number of 7 digits or more"
)]
pub struct UserNameError;

impl UserName {
    const MOST_CHARS: usize = 64;

    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, UserNameError> {
        let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let fits = text.bytes().next().is_some_and(is_word)
            && text.len() <= Self::MOST_CHARS
            && text.bytes().all(|byte| is_word(byte) || b"._-".contains(&byte))
            && names_nobody(text);
        fits.then(|| Self(text.to_owned())).ok_or(UserNameError)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_words() {
        for good in ["olga", "o", "0lga", "olga.k-2_x", "svc-20261117", "123456", &"a".repeat(64)] {
            assert_eq!(UserName::parse(good).as_ref().map(UserName::as_str), Ok(good));
        }
        let bad = "|Olga|.olga|-olga|_o|ol ga|ol/ga|olga\n|ölga|415-555-0101|4155550101";
        for bad in bad.split('|').chain([&*"a".repeat(65)]) {
            assert_eq!(UserName::parse(bad), Err(UserNameError), "{bad}");
        }
    }
}
