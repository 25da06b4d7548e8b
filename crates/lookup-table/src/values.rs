//! The personal values of a profile and kind, in order of preference, as they are in a slot.
//!
//! Each value: its length (1 to 254), whether it expires (0 or 1), if so when (8 bytes: seconds since 1970, little-endian), and its
//! UTF-8 text. Then 0, or 255 if the store has more values than the table.

use contactd_core::Timestamp;

use crate::slot::MOST_CONTENT;

const END: u8 = 0;
const CUT: u8 = 255;

/// What is held for a profile and kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content(Vec<u8>);

impl Content {
    /// Adds the next value. What does not fit, and all after it, is only in the store.
    pub fn add(&mut self, text: &str, expires_at: Option<Timestamp>) {
        if self.0.last() == Some(&CUT) && self.is_cut() {
            return;
        }
        let needed = 2 + text.len() + if expires_at.is_some() { 8 } else { 0 };
        let length = u8::try_from(text.len()).ok().filter(|length| !matches!(*length, END | CUT));
        // One byte is kept for the end.
        let Some(length) = length.filter(|_| self.0.len() + needed < MOST_CONTENT) else {
            self.0.push(CUT);
            return;
        };
        self.0.push(length);
        self.0.push(u8::from(expires_at.is_some()));
        if let Some(at) = expires_at {
            self.0.extend(at.seconds().to_le_bytes());
        }
        self.0.extend(text.as_bytes());
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets what is held.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The values.
    pub fn values(&self) -> Values<'_> {
        Values { left: &self.0, is_cut: false }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn is_cut(&self) -> bool {
        let mut values = self.values();
        while values.next().is_some() {}
        values.is_cut()
    }
}

/// A value that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value<'a> {
    /// What may be given out.
    pub text: &'a str,
    /// When it is not given out any more.
    pub expires_at: Option<Timestamp>,
}

/// The values of a profile and kind, in order of preference.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    left: &'a [u8],
    is_cut: bool,
}

impl<'a> Values<'a> {
    pub(crate) fn of(content: &'a [u8]) -> Self {
        Self { left: content, is_cut: false }
    }

    /// After the last value: whether the store has more than these.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        let (&length, rest) = self.left.split_first()?;
        match length {
            END => {
                self.left = &[];
                return None;
            }
            CUT => {
                (self.left, self.is_cut) = (&[], true);
                return None;
            }
            _ => {}
        }
        // Content with another form was not written by this crate: ask the store.
        let next = split(length, rest);
        let Some((value, left)) = next else {
            (self.left, self.is_cut) = (&[], true);
            return None;
        };
        self.left = left;
        Some(value)
    }
}

fn split(length: u8, rest: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let (&expires, rest) = rest.split_first()?;
    let (expires_at, rest) = match expires {
        0 => (None, rest),
        _ => {
            let (seconds, rest) = rest.split_first_chunk()?;
            (Some(Timestamp::from_seconds(i64::from_le_bytes(*seconds))), rest)
        }
    };
    let (text, rest) = rest.split_at_checked(usize::from(length))?;
    Some((Value { text: std::str::from_utf8(text).ok()?, expires_at }, rest))
}
