//! Names of tokens, admin tokens and users. They stay in the journal for good, so they must name nobody, and each is given once.

use crate::is_printable;

/// The longest name of a source or a token.
pub const MOST_NAME_CHARS: usize = 100;

/// So many digits could be a phone number.
const PHONE_DIGITS: usize = 7;

/// What looks like the character after it, in other alphabets.
const LOOKALIKES: &str = "аaαaеeεeоoοoрpρpсcуyυyхxχxіiιiıiјjкkκkѕsԁdһhԛqԝwвbνvтtτtмmнh";

/// A text cannot be the name of a token. The text itself is left out: it may be personal, or a secret in the wrong field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty, too long, or has characters that cannot be seen.
    #[error("a name has 1 to {MOST_NAME_CHARS} printable characters")]
    Form,
    /// It could name a person, or be a secret.
    #[error(
        "a name stays in the journal for good, so it is no e-mail address, URL or token, and has no number of {PHONE_DIGITS} digits or \
         more, except in a word with letters, such as svc-20261117"
    )]
    Personal,
}

/// The name of a new token or admin token, without spaces around it.
pub fn new_name(text: &str) -> Result<&str, NameError> {
    let name = text.trim();
    if !is_name(name) || name.chars().any(is_invisible) {
        return Err(NameError::Form);
    }
    if names_nobody(name) { Ok(name) } else { Err(NameError::Personal) }
}

/// Whether a text has the form of a name of a source or a token.
pub fn is_name(text: &str) -> bool {
    (1..=MOST_NAME_CHARS).contains(&text.chars().count()) && text.chars().all(is_printable)
}

/// Whether people would take one name for the other: case, spaces and letters of other alphabets that look the same do not count.
pub fn looks_like(one: &str, other: &str) -> bool {
    let seen = |name: &str| -> String {
        let words: Vec<&str> = name.split_whitespace().collect();
        words.join(" ").to_lowercase().chars().filter(|c| !is_invisible(*c)).map(shape).collect()
    };
    seen(one) == seen(other)
}

/// Whether a name may be put on record as it is: it is no e-mail address, URL or token, and has no number that could be that of a phone,
/// which a word with letters, such as `svc-20261117`, is not.
pub(crate) fn names_nobody(name: &str) -> bool {
    let numbers = name.split_whitespace().filter(|word| !word.chars().any(char::is_alphabetic));
    let digits = numbers.flat_map(str::chars).filter(|c| c.is_numeric()).count();
    digits < PHONE_DIGITS
        && !["@", "://", "ctd_", "cta_", "tok_", "adm_"].iter().any(|part| name.contains(part))
}

fn shape(c: char) -> char {
    let at = LOOKALIKES.chars().step_by(2).position(|like| like == c);
    at.and_then(|at| LOOKALIKES.chars().nth(2 * at + 1)).unwrap_or(c)
}

/// Whether a character is not shown at all: those that Unicode calls default ignorable.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{AD}' | '\u{34F}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}'
            | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_visible_and_names_nobody() {
        for good in ["crm", " svc-20261117 ", "<b>crm</b>", "списки 2026-11", "crm/prod", "4155"] {
            assert_eq!(new_name(good), Ok(good.trim()));
        }
        for bad in ["", " ", "a\u{7}", "c\u{200B}rm", "c\u{AD}rm", "\u{2066}crm", &"x".repeat(101)] {
            assert_eq!(new_name(bad), Err(NameError::Form), "{bad:?}");
        }
        let bad = "ada@example.com|4155550101|Ada +1 (415) 555-0101|٤١٥٥٥٥٠١٠١|https://www.linkedin.com/in/ada-quell|crm (adm_12345)|ctd_0";
        for bad in bad.split('|') {
            assert_eq!(new_name(bad), Err(NameError::Personal), "{bad}");
        }
    }

    #[test]
    fn names_that_look_alike_are_one() {
        for like in ["CRM-Sync", " crm-sync ", "сrm-ѕynс", "c\u{200B}rm-sync"] {
            assert!(looks_like("crm-sync", like), "{like}");
        }
        assert!(looks_like("crm  sync", "CRM\u{A0}sync"));
        for other in ["crm", "crm-sync2", "crm sync", "crn-sync"] {
            assert!(!looks_like("crm-sync", other), "{other}");
        }
    }
}
