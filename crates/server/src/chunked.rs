//! Decodes bodies with `Transfer-Encoding: chunked`.
//!
//! The grammar is that of RFC 9112, section 7.1, without the whitespace that it allows before and after the `;`
//! and `=` of an extension. Extensions and trailers are checked and ignored.

use crate::head::is_token;

/// Maximum length of a line with a chunk's size and extensions.
const MAX_LINE: usize = 256;
/// Maximum number of digits of a chunk's size. With more, other parsers may overflow, even if the first are zeros.
const MAX_DIGITS: usize = 16;
/// Maximum length of all trailers together.
const MAX_TRAILERS: usize = 4 * 1024;
/// Maximum number of trailers. Other parsers have a limit too, and refuse what they would have to ignore.
const MAX_TRAILER_LINES: usize = 64;
/// Fields that decide how a request is framed, where it goes and what it means. A parser that adds trailers to the
/// headers would read another request, so they are refused in trailers.
const NEVER_TRAILERS: [&[u8]; 11] = [
    b"host",
    b"te",
    b"expect",
    b"trailer",
    b"connection",
    b"content-type",
    b"authorization",
    b"content-range",
    b"content-length",
    b"content-encoding",
    b"transfer-encoding",
];
/// The longest of them.
const LONGEST_NAME: usize = 17;

/// Decodes a chunked body incrementally, reading each byte once.
#[derive(Debug)]
pub(crate) struct Chunks {
    at: At,
    /// How many bytes of the chunk's data are still to come, or the part of its size read so far.
    size: u64,
    /// How many bytes of the line, or of the trailers, were read so far.
    line: usize,
    /// The begin of the trailer's name, and its length so far.
    name: [u8; LONGEST_NAME],
    name_len: usize,
    /// How many trailers have begun.
    trailers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    SizeBegin,
    Size,
    /// After the `;` of an extension.
    ExtensionBegin,
    ExtensionName,
    /// After its `=`.
    ValueBegin,
    Value,
    Quoted,
    /// After a `\` in quotes.
    QuotedPair,
    QuotedEnd,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    /// At the start of a trailer line.
    TrailerBegin,
    TrailerName,
    TrailerValue,
    TrailerLineFeed,
    LastLineFeed,
    End,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChunkFault {
    /// The body is not valid chunked encoding.
    Broken,
    /// The body exceeds the limit, or a chunk announces a size that would exceed it.
    TooLarge,
}

impl Chunks {
    pub(crate) fn new() -> Self {
        Self { at: At::SizeBegin, size: 0, line: 0, name: [0; LONGEST_NAME], name_len: 0, trailers: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at == At::End
    }

    /// Decodes `bytes` and appends the data to `out`, up to `limit` bytes in total. Returns how many of the
    /// input bytes belong to the body.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
    ) -> Result<usize, ChunkFault> {
        let mut used = 0;
        while used < bytes.len() && !self.is_done() {
            if self.at == At::Data {
                if self.size > limit.saturating_sub(out.len()) as u64 {
                    return Err(ChunkFault::TooLarge);
                }
                let left = usize::try_from(self.size).unwrap_or(usize::MAX);
                let data = &bytes[used..bytes.len().min(used.saturating_add(left))];
                out.extend_from_slice(data);
                self.size -= data.len() as u64;
                used += data.len();
                if self.size == 0 {
                    self.at = At::DataReturn;
                }
            } else {
                self.at = self.step(bytes[used])?;
                used += 1;
            }
        }
        Ok(used)
    }

    fn step(&mut self, byte: u8) -> Result<At, ChunkFault> {
        let longest = match self.at {
            At::TrailerBegin
            | At::TrailerName
            | At::TrailerValue
            | At::TrailerLineFeed
            | At::LastLineFeed => MAX_TRAILERS,
            _ => MAX_LINE,
        };
        self.line += 1;
        if self.line > longest {
            return Err(ChunkFault::Broken);
        }
        Ok(match (self.at, byte) {
            (At::SizeBegin | At::Size, digit) if digit.is_ascii_hexdigit() => {
                let digit = char::from(digit).to_digit(16).unwrap_or_default();
                if self.line > MAX_DIGITS {
                    return Err(ChunkFault::Broken);
                }
                self.size = self.size << 4 | u64::from(digit);
                At::Size
            }
            (At::Size | At::ExtensionName | At::Value | At::QuotedEnd, b';') => At::ExtensionBegin,
            (At::Size | At::ExtensionName | At::Value | At::QuotedEnd, b'\r') => At::SizeLineFeed,
            (At::ExtensionName, b'=') => At::ValueBegin,
            (At::ExtensionBegin | At::ExtensionName, byte) if is_token(byte) => At::ExtensionName,
            (At::ValueBegin, b'"') => At::Quoted,
            (At::ValueBegin | At::Value, byte) if is_token(byte) => At::Value,
            (At::Quoted, b'"') => At::QuotedEnd,
            (At::Quoted, b'\\') => At::QuotedPair,
            (At::Quoted | At::QuotedPair, byte) if is_text(byte) => At::Quoted,
            (At::SizeLineFeed, b'\n') => {
                self.line = 0;
                if self.size == 0 { At::TrailerBegin } else { At::Data }
            }
            (At::DataReturn, b'\r') => At::DataLineFeed,
            (At::DataLineFeed, b'\n') => {
                self.line = 0;
                At::SizeBegin
            }
            (At::TrailerBegin, b'\r') => At::LastLineFeed,
            (At::TrailerName, b':') if self.may_be_trailer() => At::TrailerValue,
            (At::TrailerBegin, byte) if is_token(byte) && self.trailers < MAX_TRAILER_LINES => {
                self.trailers += 1;
                self.name_len = 0;
                self.add_to_name(byte)
            }
            (At::TrailerName, byte) if is_token(byte) => self.add_to_name(byte),
            (At::TrailerValue, b'\r') => At::TrailerLineFeed,
            (At::TrailerValue, byte) if is_text(byte) => At::TrailerValue,
            (At::TrailerLineFeed, b'\n') => At::TrailerBegin,
            (At::LastLineFeed, b'\n') => At::End,
            _ => return Err(ChunkFault::Broken),
        })
    }

    fn add_to_name(&mut self, byte: u8) -> At {
        if let Some(place) = self.name.get_mut(self.name_len) {
            *place = byte;
        }
        self.name_len += 1;
        At::TrailerName
    }

    fn may_be_trailer(&self) -> bool {
        // A name that does not fit is none of them.
        let name = self.name.get(..self.name_len).unwrap_or_default();
        !NEVER_TRAILERS.iter().any(|never| name.eq_ignore_ascii_case(never))
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7F)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(body: &str, limit: usize) -> Result<usize, ChunkFault> {
        Chunks::new().feed(body.as_bytes(), &mut Vec::new(), limit)
    }

    #[test]
    fn lines_and_trailers_have_a_largest_size() {
        assert!(NEVER_TRAILERS.iter().all(|name| name.len() <= LONGEST_NAME));
        assert_eq!(fed(&format!("1;{}\r\n", "x".repeat(MAX_LINE)), 10), Err(ChunkFault::Broken));
        let trailers = |count| fed(&format!("0\r\n{}\r\n", "a: b\r\n".repeat(count)), 10);
        assert!(trailers(MAX_TRAILER_LINES).is_ok());
        assert_eq!(trailers(MAX_TRAILER_LINES + 1), Err(ChunkFault::Broken));
        let long = format!("0\r\na: {}\r\n\r\n", "b".repeat(MAX_TRAILERS));
        assert_eq!(fed(&long, 10), Err(ChunkFault::Broken));
    }

    #[test]
    fn more_than_the_limit_is_too_large_as_soon_as_that_is_known() {
        for body in ["4\r\nabcd\r\n4\r\nabcd\r\n4\r\na", "b\r\na", "ffffff\r\na"] {
            assert_eq!(fed(body, 10), Err(ChunkFault::TooLarge), "{body:?}");
        }
        assert_eq!(fed("a\r\n0123456789\r\n0\r\n\r\n", 10), Ok(20));
    }
}
