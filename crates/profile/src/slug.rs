//! The slug: its allowed characters, its case, and its encoded form.

use std::borrow::Cow;
use std::fmt::{self, Write};

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointMapData;
use icu_properties::props::GeneralCategory;

use crate::Reason;
use crate::network::{Case, Network};
use crate::route::Route;

const MIN_CHARS: usize = 3;
const MAX_CHARS: usize = 100;

/// Maximum length of decoded text that can still compose to [`MAX_CHARS`]: a character
/// decomposes into at most four.
const MAX_DECODED_CHARS: usize = 4 * MAX_CHARS;

/// Appends the canonical, percent-encoded slug of `route` to the network's prefix.
pub(crate) fn canonical(network: &Network, route: Route<'_>) -> Result<String, Reason> {
    if let Route::Slug(segment) = route
        && let Some(plain) = segment.plain_ascii()
    {
        return ascii(network, plain, classes(plain));
    }
    let decoded = decode(route)?;
    let decoded = decoded.as_str();
    if decoded.is_ascii() {
        return ascii(network, decoded, classes(decoded));
    }
    let composed = compose(decoded)?;
    let composed = composed.as_ref().map_or(decoded, Buffer::as_str);
    if composed.is_ascii() {
        return ascii(network, composed, classes(composed));
    }
    check_characters(composed)?;
    let folded = fold(network.case, composed);
    if !(MIN_CHARS..=MAX_CHARS).contains(&folded.chars().count()) {
        return Err(Reason::BadSlug);
    }
    if network.member_ids && begins_like_member_id(&folded) {
        return Err(Reason::InternalId);
    }
    Ok(encoded(&network.prefix, &folded))
}

/// As [`canonical`], for text that only has characters that a slug in ASCII may have. `None` for any other.
pub(crate) fn plain(network: &Network, text: &str) -> Option<Result<String, Reason>> {
    let classes = classes(text);
    (classes & REFUSED == 0).then(|| ascii(network, text, classes))
}

/// The usual case: a slug in ASCII, with the classes of its bytes.
fn ascii(network: &Network, slug: &str, classes: u8) -> Result<String, Reason> {
    if network.reserved.iter().any(|word| word.eq_ignore_ascii_case(slug)) {
        return Err(Reason::ReservedSlug);
    }
    let is_allowed = classes & REFUSED == 0 && classes & WORD != 0;
    if !is_allowed || !(MIN_CHARS..=MAX_CHARS).contains(&slug.len()) {
        return Err(Reason::BadSlug);
    }
    let is_member_id = network.member_ids && slug.len() == MEMBER_ID_CHARS && {
        let is_exact = slug.starts_with("ACoAA") || slug.starts_with("ACwAA");
        if !is_exact && begins_like_member_id(slug) {
            return Err(Reason::InternalId);
        }
        is_exact
    };
    let mut url = String::with_capacity(network.prefix.len() + slug.len());
    url.push_str(&network.prefix);
    url.push_str(slug);
    if network.case == Case::Lower && !is_member_id {
        url[network.prefix.len()..].make_ascii_lowercase();
    }
    Ok(url)
}

/// The classes that bytes of this text have.
fn classes(text: &str) -> u8 {
    text.bytes().fold(0, |found, b| found | BYTE_CLASSES[usize::from(b)])
}

/// The bits of [`BYTE_CLASSES`]. `-` and `_` have none: they are allowed, but a slug cannot consist only of them.
const WORD: u8 = 1;
const REFUSED: u8 = 2;

/// What a byte of a slug in ASCII is, as a table: this is looked up for every byte of every URL.
static BYTE_CLASSES: [u8; 256] = {
    let mut classes = [REFUSED; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        if byte.is_ascii_alphanumeric() {
            classes[byte as usize] = WORD;
        }
        byte += 1;
    }
    classes[b'-' as usize] = 0;
    classes[b'_' as usize] = 0;
    classes
};

const MEMBER_ID_CHARS: usize = 39;

/// Whether this looks like a member id whose case was lost, or like an id that was never public:
/// 39 characters with the prefix of such an id, in any case.
fn begins_like_member_id(slug: &str) -> bool {
    slug.chars().count() == MEMBER_ID_CHARS
        && slug
            .get(..5)
            .is_some_and(|start| ["aemaa", "acoaa", "acwaa"].iter().any(|id| start.eq_ignore_ascii_case(id)))
}

fn decode(route: Route<'_>) -> Result<Buffer, Reason> {
    let mut decoded = Buffer::new();
    let fits = match route {
        Route::Slug(segment) => decoded.extend(segment.chars()),
        Route::Legacy { name, groups: [a, b, c] } => decoded
            .extend(name.chars().chain(['-']).chain(c.padded()).chain(b.padded()).chain(a.unless_zero())),
    };
    fits.map_err(|fmt::Error| Reason::BadSlug)?;
    Ok(decoded)
}

/// The NFC form, or `None` if the text already is in NFC.
fn compose(text: &str) -> Result<Option<Buffer>, Reason> {
    const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizerBorrowed::new_nfc();
    if NFC.is_normalized(text) {
        return Ok(None);
    }
    let mut composed = Buffer::new();
    NFC.normalize_to(text, &mut composed).map_err(|fmt::Error| Reason::BadSlug)?;
    Ok(Some(composed))
}

fn fold(case: Case, text: &str) -> Cow<'_, str> {
    let is_lower = |c: char| {
        let mut lower = c.to_lowercase();
        lower.next() == Some(c) && lower.next().is_none()
    };
    if case == Case::Keep || text.chars().all(is_lower) {
        return Cow::Borrowed(text);
    }
    let lower = text.to_lowercase();
    match compose(&lower) {
        Ok(Some(composed)) => Cow::Owned(composed.as_str().to_owned()),
        // Text that is too long to compose is too long for a slug, and the length check refuses it.
        Ok(None) | Err(_) => Cow::Owned(lower),
    }
}

fn check_characters(slug: &str) -> Result<(), Reason> {
    let mut names_someone = false;
    let mut joins = false;
    for c in slug.chars() {
        match Class::of(c) {
            Class::Word { joins: next_may_join } => {
                names_someone = true;
                joins = next_may_join;
            }
            Class::Mark => joins = true,
            Class::Filler => joins = false,
            Class::Joiner if joins => joins = false,
            Class::Joiner | Class::Refused => return Err(Reason::BadSlug),
        }
    }
    if names_someone { Ok(()) } else { Err(Reason::BadSlug) }
}

enum Class {
    /// A letter, a number or a symbol. `joins` if a joiner may follow.
    Word {
        joins: bool,
    },
    Mark,
    /// Allowed, but a slug cannot consist only of these.
    Filler,
    /// ZWJ or ZWNJ.
    Joiner,
    Refused,
}

impl Class {
    fn of(c: char) -> Self {
        use GeneralCategory as G;
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => return Self::Word { joins: false },
            '-' | '_' => return Self::Filler,
            '\0'..='\x7F' => return Self::Refused,
            '\u{200C}' | '\u{200D}' => return Self::Joiner,
            '\u{1F3FB}'..='\u{1F3FF}' => return Self::Word { joins: true },
            _ => {}
        }
        match CodePointMapData::<GeneralCategory>::new().get(c) {
            G::UppercaseLetter
            | G::LowercaseLetter
            | G::TitlecaseLetter
            | G::ModifierLetter
            | G::OtherLetter
            | G::OtherSymbol => Self::Word { joins: true },
            G::DecimalNumber
            | G::LetterNumber
            | G::OtherNumber
            | G::MathSymbol
            | G::CurrencySymbol
            | G::ModifierSymbol => Self::Word { joins: false },
            G::NonspacingMark | G::SpacingMark | G::EnclosingMark => Self::Mark,
            G::InitialPunctuation | G::FinalPunctuation | G::PrivateUse => Self::Filler,
            _ => Self::Refused,
        }
    }
}

/// The prefix and the slug. In the slug, all but ASCII letters, digits, `-` and `_` is percent-encoded.
fn encoded(prefix: &str, slug: &str) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let escapes = slug.bytes().filter(|&b| !is_plain(b)).count();
    let mut url = String::with_capacity(prefix.len() + slug.len() + 2 * escapes);
    url.push_str(prefix);
    for b in slug.bytes() {
        if is_plain(b) {
            url.push(char::from(b));
        } else {
            url.push('%');
            url.push(char::from(HEX[usize::from(b >> 4)]));
            url.push(char::from(HEX[usize::from(b & 15)]));
        }
    }
    url
}

/// Text on the stack, so that refusing a URL allocates nothing.
struct Buffer {
    bytes: [u8; 4 * MAX_DECODED_CHARS],
    len: usize,
}

impl Buffer {
    fn new() -> Self {
        Self { bytes: [0; 4 * MAX_DECODED_CHARS], len: 0 }
    }

    fn extend(&mut self, mut chars: impl Iterator<Item = char>) -> fmt::Result {
        chars.try_for_each(|c| self.write_char(c))
    }

    fn as_str(&self) -> &str {
        // Only complete characters are written.
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
