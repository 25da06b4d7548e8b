//! Finds the slug that identifies a person in a checked path.

use crate::Reason;
use crate::network::Network;
use crate::path::{Path, Segment};

/// The parts of the path that the slug is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route<'a> {
    /// One segment of the path.
    Slug(Segment<'a>),
    /// The old public form: a name and three groups of hex digits.
    Legacy { name: Segment<'a>, groups: [HexGroup; 3] },
}

/// Finds the route to a person in a path, or returns the reason why the page is not a profile.
pub(crate) fn find<'a>(network: &Network, path: Path<'a>) -> Result<Route<'a>, Reason> {
    let path = unwrapped(network, path);
    let first = path.first().ok_or(Reason::NoSlug)?;
    for words in &network.routes {
        if let Some(behind) = path.strip_words(words) {
            return behind.first().map(Route::Slug).ok_or(Reason::NoSlug);
        }
    }
    if network.legacy_pub && first.is_word("pub") {
        return legacy(path.behind());
    }
    if network.internal.iter().any(|pattern| matches_pattern(path, pattern)) {
        return Err(Reason::InternalId);
    }
    Err(Reason::NotPerson)
}

fn unwrapped<'a>(network: &Network, mut path: Path<'a>) -> Path<'a> {
    while let Some(inner) = network.wrappers.iter().find_map(|words| path.strip_words(words)) {
        path = inner;
    }
    path
}

fn matches_pattern(path: Path<'_>, pattern: &[String]) -> bool {
    match pattern {
        [] => true,
        [star, word] if star == "*" => path.segments().any(|segment| segment.is_word(word)),
        [word, rest @ ..] => {
            path.first().is_some_and(|first| first.is_word(word)) && matches_pattern(path.behind(), rest)
        }
    }
}

fn legacy(path: Path<'_>) -> Result<Route<'_>, Reason> {
    let mut segments = path.segments();
    let name = segments.next().ok_or(Reason::BadLegacy)?;
    if name.is_word("dir") {
        return Err(Reason::NotPerson);
    }
    let mut group = || segments.next().and_then(HexGroup::parse).ok_or(Reason::BadLegacy);
    Ok(Route::Legacy { name, groups: [group()?, group()?, group()?] })
}

/// One to three hex digits, lower-cased.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HexGroup {
    digits: [char; 3],
    len: usize,
}

impl HexGroup {
    fn parse(segment: Segment<'_>) -> Option<Self> {
        let mut group = Self { digits: ['0'; 3], len: 0 };
        for c in segment.chars() {
            *group.digits.get_mut(group.len)? = c.is_ascii_hexdigit().then(|| c.to_ascii_lowercase())?;
            group.len += 1;
        }
        Some(group)
    }

    /// The digits, padded with leading zeros to three.
    pub(crate) fn padded(self) -> impl Iterator<Item = char> {
        std::iter::repeat_n('0', 3 - self.len).chain(self.digits.into_iter().take(self.len))
    }

    /// The digits as written, or nothing if the group is a single zero.
    pub(crate) fn unless_zero(self) -> impl Iterator<Item = char> {
        let len = if self.len == 1 && self.digits[0] == '0' { 0 } else { self.len };
        self.digits.into_iter().take(len)
    }
}
