//! The encoding of a text file: UTF-8, or UTF-16 as spreadsheets write it.

use std::io::{self, Read};

/// How the bytes of a file stand for text. Windows-1252 and its like are not recognised: any bytes are valid in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

impl Encoding {
    /// The encoding of a file that starts like this. UTF-16 is recognised by its byte-order mark, or by the zero bytes of its
    /// ASCII characters, which a UTF-8 text does not have.
    pub(crate) fn of(start: &[u8]) -> Self {
        match start {
            [0xFF, 0xFE, ..] => return Self::Utf16Le,
            [0xFE, 0xFF, ..] => return Self::Utf16Be,
            _ => {}
        }
        let pairs = start.len() / 2;
        let zeros = |first: usize| start.iter().skip(first).step_by(2).filter(|&&byte| byte == 0).count();
        let is_ascii = |high: usize, low: usize| pairs >= 4 && high * 2 >= pairs && low * 8 <= pairs;
        match (zeros(0), zeros(1)) {
            (low, high) if is_ascii(high, low) => Self::Utf16Le,
            (high, low) if is_ascii(high, low) => Self::Utf16Be,
            _ => Self::Utf8,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
        }
    }

    /// The input in UTF-8. What is not valid UTF-16 becomes bytes that are not valid UTF-8, so that its row is rejected.
    pub(crate) fn decoded(self, input: Box<dyn Read>) -> Box<dyn Read> {
        match self {
            Self::Utf8 => input,
            Self::Utf16Le => Box::new(Utf16::new(input, u16::from_le_bytes)),
            Self::Utf16Be => Box::new(Utf16::new(input, u16::from_be_bytes)),
        }
    }
}

/// How many bytes are decoded at a time.
const PART: usize = 64 * 1024;

/// Not valid in UTF-8.
const INVALID: u8 = 0xFF;

/// An input in UTF-16 that is read as UTF-8.
struct Utf16 {
    input: Box<dyn Read>,
    unit: fn([u8; 2]) -> u16,
    /// An odd byte at the end of what was read.
    odd: Option<u8>,
    /// The first half of a surrogate pair.
    high: Option<u16>,
    decoded: Vec<u8>,
    given: usize,
}

impl Utf16 {
    fn new(input: Box<dyn Read>, unit: fn([u8; 2]) -> u16) -> Self {
        Self { input, unit, odd: None, high: None, decoded: Vec::new(), given: 0 }
    }

    /// Decodes the next part; false at the end.
    fn decode_next(&mut self) -> io::Result<bool> {
        let mut part = vec![0; PART];
        let read = self.input.read(&mut part)?;
        self.decoded.clear();
        self.given = 0;
        if read == 0 {
            if self.odd.take().is_some() | self.high.take().is_some() {
                self.decoded.push(INVALID);
            }
            return Ok(!self.decoded.is_empty());
        }
        let bytes: Vec<u8> = self.odd.take().into_iter().chain(part.into_iter().take(read)).collect();
        let (units, odd) = bytes.as_chunks();
        self.odd = odd.first().copied();
        for unit in units {
            self.push((self.unit)(*unit));
        }
        Ok(true)
    }

    fn push(&mut self, unit: u16) {
        let high = self.high.take();
        if (0xD800..0xDC00).contains(&unit) {
            self.high = Some(unit);
            if high.is_some() {
                self.decoded.push(INVALID);
            }
            return;
        }
        for decoded in char::decode_utf16(high.into_iter().chain([unit])) {
            match decoded {
                Ok(c) => self.decoded.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(_) => self.decoded.push(INVALID),
            }
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.decoded.len() {
            if !self.decode_next()? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.decoded.len() - self.given);
        buffer[..count].copy_from_slice(&self.decoded[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow(io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let end = buffer.len().min(1);
            self.0.read(&mut buffer[..end])
        }
    }

    fn decoded(encoding: Encoding, bytes: Vec<u8>) -> Vec<u8> {
        let mut fast = Vec::new();
        encoding.decoded(Box::new(io::Cursor::new(bytes.clone()))).read_to_end(&mut fast).expect("reads");
        let mut slow = Vec::new();
        encoding.decoded(Box::new(Slow(io::Cursor::new(bytes)))).read_to_end(&mut slow).expect("reads");
        assert_eq!(fast, slow);
        fast
    }

    #[test]
    fn utf_16_is_recognised_with_and_without_a_mark_and_read_as_utf_8() {
        let text = "profileUrl,note\nß,😀\n";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        for (encoding, bytes) in [(Encoding::Utf16Le, little), (Encoding::Utf16Be, big)] {
            assert_eq!(Encoding::of(&bytes), encoding);
            assert_eq!(decoded(encoding, bytes), text.as_bytes());
        }
        assert_eq!(Encoding::of(b"\xFF\xFEp\0"), Encoding::Utf16Le);
        assert_eq!(Encoding::of(b"\xFE\xFF\0p"), Encoding::Utf16Be);
        for text in [&b"profileUrl,phone\n"[..], b"", b"a\0b\0", b"a\0bcdefgh", b"PAR1\0\0\0\0\0\0"] {
            assert_eq!(Encoding::of(text), Encoding::Utf8, "{text:?}");
        }
    }

    #[test]
    fn half_a_character_becomes_a_byte_that_is_not_valid() {
        let units = |units: &[u16]| units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(decoded(Encoding::Utf16Le, units(&[0x61, 0xD83D, 0x62])), b"a\xFFb");
        assert_eq!(decoded(Encoding::Utf16Le, units(&[0xDE00, 0x62])), b"\xFFb");
        assert_eq!(decoded(Encoding::Utf16Le, units(&[0xD83D])), b"\xFF");
        let twice = units(&[0xD83D, 0xD83D, 0xDE00]);
        assert_eq!(decoded(Encoding::Utf16Le, twice), [b"\xFF", "😀".as_bytes()].concat());
        assert_eq!(decoded(Encoding::Utf16Le, vec![0x61, 0, 0x62]), b"a\xFF");
    }
}
