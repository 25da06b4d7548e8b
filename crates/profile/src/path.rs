//! The path of a URL: its segments, each percent-decoded exactly once.

use crate::Reason;
use crate::text::end_before;

/// A fully checked path: no segment is empty, none is `.` or `..`, and all can be decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    /// Empty only if there is no segment.
    first: &'a str,
    /// The segments after the first.
    rest: &'a str,
    /// Whether anything in it is percent-encoded.
    is_encoded: bool,
}

impl<'a> Path<'a> {
    /// Checks every segment, including those that no later rule uses.
    pub(crate) fn check(path: &'a str) -> Result<Self, Reason> {
        let path = path.trim_end_matches('/');
        let is_encoded = path.bytes().fold(false, |found, b| found | (b == b'%'));
        let whole = Self::split(path.strip_prefix('/').unwrap_or(path), is_encoded);
        if path.is_empty() {
            return Ok(whole);
        }
        let mut left = whole;
        loop {
            check_segment(left.first, is_encoded)?;
            if left.rest.is_empty() {
                return Ok(whole);
            }
            left = left.behind();
        }
    }

    fn split(path: &'a str, is_encoded: bool) -> Self {
        let (first, rest) = path.split_at(end_before(path, |b| b == b'/'));
        Self { first, rest: rest.strip_prefix('/').unwrap_or_default(), is_encoded }
    }

    pub(crate) fn first(self) -> Option<Segment<'a>> {
        let Self { first, is_encoded, .. } = self;
        (!first.is_empty()).then_some(Segment { text: first, is_encoded })
    }

    /// The path without its first segment.
    pub(crate) fn behind(self) -> Self {
        Self::split(self.rest, self.is_encoded)
    }

    /// The rest of the path after `words`, if the path starts with them.
    pub(crate) fn strip_words(self, words: &[String]) -> Option<Self> {
        words.iter().try_fold(self, |path, word| path.first()?.is_word(word).then(|| path.behind()))
    }

    pub(crate) fn segments(self) -> impl Iterator<Item = Segment<'a>> {
        std::iter::successors(Some(self), |path| Some(path.behind())).map_while(Self::first)
    }
}

/// One checked segment, still encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    text: &'a str,
    /// Whether anything in its path is percent-encoded.
    is_encoded: bool,
}

impl Segment<'_> {
    /// Whether this is the route word `word`, in any letter case, encoded or not.
    pub(crate) fn is_word(self, word: &str) -> bool {
        if !self.is_encoded {
            return self.text.eq_ignore_ascii_case(word);
        }
        let mut expected = word.chars();
        self.chars().all(|c| expected.next().is_some_and(|e| e.eq_ignore_ascii_case(&c)))
            && expected.next().is_none()
    }

    /// The decoded characters.
    pub(crate) fn chars(self) -> impl Iterator<Item = char> {
        // The segment was checked, so decoding cannot fail.
        Decoded(self.text).map_while(Result::ok)
    }

    /// The segment as written, if it is ASCII and decoding does not change it.
    pub(crate) fn plain_ascii(&self) -> Option<&str> {
        let is_plain = !self.is_encoded || !self.text.contains('%');
        (is_plain && self.text.is_ascii()).then_some(self.text)
    }
}

fn check_segment(segment: &str, is_encoded: bool) -> Result<(), Reason> {
    if segment.is_empty() {
        return Err(Reason::EmptySegment);
    }
    if !is_encoded || !segment.contains('%') {
        // Control characters and backslashes were already refused.
        return match segment {
            "." | ".." => Err(Reason::PathTraversal),
            _ => Ok(()),
        };
    }
    let mut dots = 0;
    let mut others = 0;
    let mut breaks_out = false;
    for c in Decoded(segment) {
        match c? {
            '%' => return Err(Reason::BadEncoding),
            '.' => dots += 1,
            c => {
                others += 1;
                breaks_out |= matches!(c, '/' | '\\') || c.is_control();
            }
        }
    }
    if others == 0 && dots <= 2 {
        return Err(Reason::PathTraversal);
    }
    if breaks_out {
        return Err(Reason::BadSlug);
    }
    Ok(())
}

/// Iterates over the characters of percent-encoded text. Decodes strictly, and once.
struct Decoded<'a>(&'a str);

impl Iterator for Decoded<'_> {
    type Item = Result<char, Reason>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.0.chars().next()?;
        if first != '%' {
            self.0 = &self.0[first.len_utf8()..];
            return Some(Ok(first));
        }
        Some(self.escaped_char().ok_or(Reason::BadEncoding))
    }
}

impl Decoded<'_> {
    fn escaped_char(&mut self) -> Option<char> {
        let mut bytes = [self.escaped_byte()?, 0, 0, 0];
        let width = match bytes[0] {
            0x00..=0x7F => 1,
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return None,
        };
        for byte in &mut bytes[1..width] {
            *byte = self.escaped_byte()?;
        }
        std::str::from_utf8(&bytes[..width]).ok()?.chars().next()
    }

    fn escaped_byte(&mut self) -> Option<u8> {
        let [b'%', high, low, ..] = *self.0.as_bytes() else {
            return None;
        };
        let byte = hex(high)? << 4 | hex(low)?;
        self.0 = &self.0[3..];
        Some(byte)
    }
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
