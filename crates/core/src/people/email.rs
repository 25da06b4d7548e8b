//! E-mail addresses: only bare addresses are accepted. The domain is converted to ASCII, the local part is kept.

use crate::people::spreadsheet::is_notation;
use crate::people::suppression::comparable_email;

/// Why a text is not accepted as an e-mail address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.code())]
pub enum EmailError {
    /// It does not consist of a valid local part, one `@`, and a domain.
    Invalid,
    /// It has a display name, a `mailto:` prefix or a quoted local part.
    NotBare,
    /// It is longer than an address may be.
    TooLong,
    /// The domain is not valid: it has no dot, is an IP literal, or is not valid under IDNA.
    Domain,
    /// It is what a spreadsheet shows instead of the address, or has its text mark before it.
    Spreadsheet,
}

impl EmailError {
    /// The reason, as imports report it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid_email",
            Self::NotBare => "email_not_bare",
            Self::TooLong => "email_too_long",
            Self::Domain => "invalid_email_domain",
            Self::Spreadsheet => "spreadsheet_notation",
        }
    }
}

const MAX_LOCAL: usize = 64;
const MAX_DOMAIN: usize = 255;
const MAX_WHOLE: usize = 254;

/// Returns the address with its domain in lower-case ASCII.
pub(crate) fn normalize(text: &str) -> Result<String, EmailError> {
    let text = text.trim();
    // A local part may begin with an apostrophe; nobody's does.
    if text.starts_with('\'') {
        return Err(EmailError::Spreadsheet);
    }
    checked(text).map_err(|error| if is_notation(text) { EmailError::Spreadsheet } else { error })
}

/// Whether two addresses are the same: as a whole, ignoring case, as suppressions compare them. It is asked about every two
/// addresses of a person, so most answers need only the first bytes: where two ASCII characters differ, the addresses do.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let (a, b) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() {
        let (a, b) = (a[at], b[at]);
        if a != b && !a.eq_ignore_ascii_case(&b) {
            if a.is_ascii() && b.is_ascii() {
                return false;
            }
            break;
        }
        at += 1;
    }
    at == a.len() && at == b.len() || comparable_email(one) == comparable_email(other)
}

fn checked(text: &str) -> Result<String, EmailError> {
    let is_mailto = text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("mailto:"));
    if is_mailto || text.contains(['"', '<', '>', '(', ')', ',', ';']) {
        return Err(EmailError::NotBare);
    }
    let (local, domain) = text.split_once('@').ok_or(EmailError::Invalid)?;
    if local.len() > MAX_LOCAL {
        return Err(EmailError::TooLong);
    }
    if !is_local(local) {
        return Err(EmailError::Invalid);
    }
    let domain = ascii_domain(domain)?;
    if domain.len() > MAX_DOMAIN || local.len() + 1 + domain.len() > MAX_WHOLE {
        return Err(EmailError::TooLong);
    }
    Ok(format!("{local}@{domain}"))
}

/// Whether this is a dot-atom (RFC 5322), with letters of any script (RFC 6531).
fn is_local(local: &str) -> bool {
    let is_atom_char = |c: char| {
        c.is_ascii_alphanumeric()
            || "!#$%&'*+-/=?^_`{|}~".contains(c)
            || (!c.is_ascii() && !c.is_control() && !c.is_whitespace() && !is_invisible(c))
    };
    local.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{AD}' | '\u{E0000}'..='\u{E0FFF}')
}

fn ascii_domain(domain: &str) -> Result<String, EmailError> {
    if domain.contains('@') {
        return Err(EmailError::Invalid);
    }
    let ascii = idna::domain_to_ascii_strict(domain).map_err(|_| EmailError::Domain)?;
    let is_numeric = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    let labels_are_whole = ascii.split('.').all(|label| (1..=63).contains(&label.len()));
    match ascii.rsplit_once('.') {
        Some((_, last)) if labels_are_whole && !is_numeric(last) => Ok(ascii),
        _ => Err(EmailError::Domain),
    }
}
