//! Finding people by parts of the slugs of their profiles, as somebody types a name.

use icu_normalizer::DecomposingNormalizerBorrowed;

/// More parts than these are not compared.
const MOST_PARTS: usize = 8;

/// The accents that letters can be written with. They are ignored.
const ACCENTS: std::ops::RangeInclusive<char> = '\u{300}'..='\u{36F}';

/// Parts of a slug, such as `ada quell`. All of them have to be in it, in any order. Case and accents are ignored, and `ä`, `ö`, `ü` and
/// `ß` are also found as `ae`, `oe`, `ue` and `ss`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlugParts(Vec<Vec<String>>);

impl SlugParts {
    /// Reads what somebody typed; `None` if there are fewer than two letters and digits, with which too many would be found.
    pub fn read(text: &str) -> Option<Self> {
        let words = text.split(|c: char| !c.is_alphanumeric() && !ACCENTS.contains(&c));
        let parts: Vec<_> = words.filter(|word| !word.is_empty()).take(MOST_PARTS).map(spellings).collect();
        let length: usize =
            parts.iter().filter_map(|part| part.first()).map(|part| part.chars().count()).sum();
        (length >= 2).then_some(Self(parts))
    }

    /// The spellings of each part: one of them has to be in the slug. An engine can look for them in lower-case keys without `%`.
    pub fn spellings(&self) -> &[Vec<String>] {
        &self.0
    }

    /// Whether the slug of the profile with this key has all parts.
    pub fn are_in(&self, key: &str) -> bool {
        let slug = key.rsplit('/').next().unwrap_or_default();
        let slug = if is_plain(slug) { slug.to_owned() } else { folded(&decoded(slug)) };
        self.0.iter().all(|part| part.iter().any(|spelling| slug.contains(spelling.as_str())))
    }
}

/// As most slugs are: without escapes and in lower case.
fn is_plain(slug: &str) -> bool {
    slug.bytes().all(|byte| byte.is_ascii() && byte != b'%' && !byte.is_ascii_uppercase())
}

fn spellings(word: &str) -> Vec<String> {
    let folded_word = folded(word);
    let composed = icu_normalizer::ComposingNormalizerBorrowed::new_nfc().normalize(word).to_lowercase();
    let long = [("ä", "ae"), ("ö", "oe"), ("ü", "ue"), ("ß", "ss")];
    let spelled = folded(&long.iter().fold(composed, |word, (short, long)| word.replace(short, long)));
    if spelled == folded_word { vec![folded_word] } else { vec![folded_word, spelled] }
}

/// In lower case, without accents.
fn folded(text: &str) -> String {
    let apart = DecomposingNormalizerBorrowed::new_nfd().normalize(text);
    apart.chars().filter(|c| !ACCENTS.contains(c)).flat_map(char::to_lowercase).collect()
}

/// A slug without its percent-escapes, which are those of UTF-8.
fn decoded(slug: &str) -> String {
    let mut pieces = slug.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let escape = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.extend(escape);
        bytes.extend_from_slice(piece.get(2..).unwrap_or_default().as_bytes());
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_the_slugs_it_is_written_in() {
        let found = |name: &str, slug: &str| {
            SlugParts::read(name).is_some_and(|parts| parts.are_in(&format!("linkedin.com/in/{slug}")))
        };
        for (name, slug) in [
            ("ada quell", "ada-quell-1a2b3c"),
            ("Quell, Ada", "ada-quell-1a2b3c"),
            ("uell", "ada-quell-1a2b3c"),
            ("Käthe", "k%C3%A4the-m%C3%BCller"),
            ("kathe muller", "k%C3%A4the-m%C3%BCller"),
            ("Käthe Müller", "kaethe-mueller-7"),
            ("Ka\u{308}the", "k%C3%A4the"),
            ("GROẞ", "gro%C3%9F"),
            ("Groß", "gross-1"),
            ("Мира", "%D0%BC%D0%B8%D1%80%D0%B0"),
            ("mira", "Mira_Quellbach2"),
        ] {
            assert!(found(name, slug), "{name} in {slug}");
        }
        for (name, slug) in
            [("ada quell", "ada-nuvel"), ("linkedin", "ada-quell"), ("c3 a4", "k%C3%A4the"), ("in", "ada")]
        {
            assert!(!found(name, slug), "{name} in {slug}");
        }
        for too_short in ["", " - ", "q", "é!"] {
            assert_eq!(SlugParts::read(too_short), None, "{too_short}");
        }
    }
}
