//! The encoding of a text file: what a mark or zero bytes show, what the caller names, or a guess if bytes are not UTF-8.

use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::Arc;

use encoding_rs::{DecoderResult, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use parking_lot::Mutex;

/// How the bytes of a file stand for text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding(&'static encoding_rs::Encoding);

impl Encoding {
    /// UTF-8.
    pub const UTF8: Self = Self(UTF_8);

    /// The encoding with this name, as in web pages: `windows-1252`, `latin1`, `utf-16le`, `macintosh`, `shift_jis`.
    pub fn named(name: &str) -> Option<Self> {
        encoding_rs::Encoding::for_label_no_replacement(name.as_bytes()).map(Self)
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        if self.0 == WINDOWS_1252 { "Windows-1252" } else { self.0.name() }
    }

    /// A text in this encoding; none if it has characters that the encoding does not.
    pub fn encoded(self, text: &str) -> Option<Vec<u8>> {
        match self.0 {
            encoding if encoding == UTF_16LE => {
                Some(text.encode_utf16().flat_map(u16::to_le_bytes).collect())
            }
            encoding if encoding == UTF_16BE => {
                Some(text.encode_utf16().flat_map(u16::to_be_bytes).collect())
            }
            encoding => match encoding.encode(text) {
                (bytes, _, false) => Some(bytes.into_owned()),
                (_, _, true) => None,
            },
        }
    }

    /// The encoding of a file that starts like this, if its start shows it: by a byte-order mark, or in UTF-16 by the zero bytes
    /// of its ASCII characters.
    fn shown_by(start: &[u8]) -> Option<Self> {
        match start {
            [0xFF, 0xFE, ..] => return Some(Self(UTF_16LE)),
            [0xFE, 0xFF, ..] => return Some(Self(UTF_16BE)),
            [0xEF, 0xBB, 0xBF, ..] => return Some(Self::UTF8),
            _ => {}
        }
        let pairs = start.len() / 2;
        let zeros = |first: usize| start.iter().skip(first).step_by(2).filter(|&&byte| byte == 0).count();
        let is_ascii = |high: usize, low: usize| pairs >= 4 && high * 2 >= pairs && low * 8 <= pairs;
        match (zeros(0), zeros(1)) {
            (low, high) if is_ascii(high, low) => Some(Self(UTF_16LE)),
            (high, low) if is_ascii(high, low) => Some(Self(UTF_16BE)),
            _ => None,
        }
    }
}

/// The encoding of a file that is being read. It is final when the file is read to its end: what begins like UTF-8 may not be.
#[derive(Clone, Debug)]
pub(crate) struct FoundEncoding(Arc<Mutex<Encoding>>);

impl FoundEncoding {
    pub(crate) fn get(&self) -> Encoding {
        *self.0.lock()
    }
}

/// A file that starts like this in UTF-8. Bytes that are not valid in its encoding become bytes that are not valid UTF-8, so that
/// their row is rejected. A text that is not UTF-8 is taken for Windows-1252 if no encoding was chosen.
pub(crate) fn decoded(
    start: &[u8],
    chosen: Option<Encoding>,
    input: Box<dyn Read>,
) -> (Box<dyn Read>, FoundEncoding) {
    let known = Encoding::shown_by(start).or(chosen);
    let found = FoundEncoding(Arc::new(Mutex::new(known.unwrap_or(Encoding::UTF8))));
    let how = match known {
        Some(Encoding(encoding)) if encoding == UTF_8 => return (input, found),
        Some(Encoding(encoding)) => How::Decoded(encoding.new_decoder_without_bom_handling()),
        None => How::Undecided { found: found.clone(), cut: Vec::new() },
    };
    (
        Box::new(Decoding {
            input,
            how,
            buffer: vec![0; PART],
            decoded: Vec::new(),
            given: 0,
            is_over: false,
        }),
        found,
    )
}

/// How many bytes are decoded at a time.
const PART: usize = 64 * 1024;

/// Not valid in UTF-8.
const INVALID: u8 = 0xFF;

/// An input that is read as UTF-8.
struct Decoding {
    input: Box<dyn Read>,
    how: How,
    /// What is read at a time.
    buffer: Vec<u8>,
    decoded: Vec<u8>,
    given: usize,
    is_over: bool,
}

enum How {
    /// So far everything was ASCII. `cut` is the start of a character of which the rest is not read yet.
    Undecided {
        found: FoundEncoding,
        cut: Vec<u8>,
    },
    /// As it is: UTF-8, or what is wrong with it.
    Unchanged,
    Guessed,
    Decoded(encoding_rs::Decoder),
}

impl Decoding {
    /// Decodes the next part.
    fn decode_next(&mut self) -> io::Result<()> {
        let mut part = match &mut self.how {
            How::Undecided { cut, .. } => std::mem::take(cut),
            _ => Vec::new(),
        };
        // What a pipe has given so far is handed on, although more may come.
        let read = self.input.read(&mut self.buffer)?;
        part.extend_from_slice(&self.buffer[..read]);
        self.is_over = read == 0;
        self.decoded.clear();
        self.given = 0;
        if let How::Undecided { found, cut } = &mut self.how {
            match judge(&part, self.is_over) {
                Judged::Ascii { end } => *cut = part.split_off(end),
                Judged::Utf8 => self.how = How::Unchanged,
                Judged::Other => {
                    *found.0.lock() = Encoding(WINDOWS_1252);
                    self.how = How::Guessed;
                }
            }
        }
        match &mut self.how {
            How::Undecided { .. } | How::Unchanged => self.decoded = part,
            How::Guessed => guess(&part, &mut self.decoded),
            How::Decoded(decoder) => decode(decoder, &part, self.is_over, &mut self.decoded),
        }
        Ok(())
    }
}

impl Read for Decoding {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.decoded.len() {
            if self.is_over {
                return Ok(0);
            }
            self.decode_next()?;
        }
        let count = buffer.len().min(self.decoded.len() - self.given);
        buffer[..count].copy_from_slice(&self.decoded[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

enum Judged {
    /// ASCII up to here, and then perhaps the start of a character.
    Ascii {
        end: usize,
    },
    Utf8,
    Other,
}

/// What a part is, if everything before it is ASCII. A few invalid bytes among valid characters are damage to a UTF-8 file.
fn judge(part: &[u8], is_last: bool) -> Judged {
    let (mut valid, mut invalid, mut cut) = (0_usize, 0_usize, 0);
    for chunk in part.utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        invalid += usize::from(!chunk.invalid().is_empty());
        cut = chunk.invalid().len();
    }
    let is_cut = cut > 0
        && !is_last
        && std::str::from_utf8(&part[part.len() - cut..]).is_err_and(|error| error.error_len().is_none());
    let invalid = invalid - usize::from(is_cut);
    match (valid, invalid) {
        (0, 0) => Judged::Ascii { end: part.len() - if is_cut { cut } else { 0 } },
        (valid, invalid) if valid >= invalid => Judged::Utf8,
        _ => Judged::Other,
    }
}

/// Reads Windows-1252. Five bytes have no character in it; a file with them is something else.
fn guess(part: &[u8], decoded: &mut Vec<u8>) {
    let is_undefined = |byte: &u8| matches!(byte, 0x81 | 0x8D | 0x8F | 0x90 | 0x9D);
    for (number, text) in part.split(is_undefined).enumerate() {
        if number > 0 {
            decoded.push(INVALID);
        }
        let (text, _) = WINDOWS_1252.decode_without_bom_handling(text);
        decoded.extend_from_slice(text.as_bytes());
    }
}

fn decode(decoder: &mut encoding_rs::Decoder, mut part: &[u8], is_last: bool, decoded: &mut Vec<u8>) {
    loop {
        let room = decoder.max_utf8_buffer_length_without_replacement(part.len()).unwrap_or(4 * PART);
        let before = decoded.len();
        decoded.resize(before + room, 0);
        let (result, read, written) =
            decoder.decode_to_utf8_without_replacement(part, &mut decoded[before..], is_last);
        decoded.truncate(before + written);
        part = &part[read..];
        match result {
            DecoderResult::InputEmpty => return,
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => decoded.push(INVALID),
        }
    }
}

/// Writes text that is given in UTF-8 in another encoding.
pub(crate) struct EncodedWriter<W> {
    out: W,
    encoding: Encoding,
    /// The start of a character of which the rest is not written yet.
    cut: Vec<u8>,
}

impl<W: Write> EncodedWriter<W> {
    pub(crate) fn new(out: W, encoding: Encoding) -> Self {
        Self { out, encoding, cut: Vec::new() }
    }

    /// Writes whole characters. What is not valid becomes a question mark.
    fn encode(&mut self, bytes: &[u8], is_last: bool) -> io::Result<()> {
        let mut at = 0;
        for chunk in bytes.utf8_chunks() {
            let encoded = self.encoding.encoded(chunk.valid()).ok_or_else(|| {
                io::Error::other(format!(
                    "what was found has a character that {} does not have; write a file that ends in .xlsx or .jsonl instead",
                    self.encoding.name()
                ))
            })?;
            self.out.write_all(&encoded)?;
            at += chunk.valid().len() + chunk.invalid().len();
            if at == bytes.len() && !is_last && !chunk.invalid().is_empty() {
                chunk.invalid().clone_into(&mut self.cut);
            } else if !chunk.invalid().is_empty() {
                self.out.write_all(&self.encoding.encoded("?").unwrap_or_default())?;
            }
        }
        Ok(())
    }

    /// Writes the rest. Gives what is below.
    pub(crate) fn into_inner(mut self) -> io::Result<W> {
        let cut = std::mem::take(&mut self.cut);
        self.encode(&cut, true)?;
        Ok(self.out)
    }
}

impl EncodedWriter<io::BufWriter<File>> {
    /// Writes the rest. Gives the complete file.
    pub(crate) fn finish(self) -> io::Result<File> {
        self.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for EncodedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.encoding == Encoding::UTF8 {
            return self.out.write(bytes);
        }
        let cut = std::mem::take(&mut self.cut);
        self.encode(&[cut.as_slice(), bytes].concat(), false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
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

    /// The name of the encoding that is found, and the text.
    fn read(chosen: Option<&str>, bytes: &[u8]) -> (&'static str, Vec<u8>) {
        let chosen = chosen.map(|name| Encoding::named(name).expect("an encoding"));
        let read = |input: Box<dyn Read>| {
            let start = &bytes[..bytes.len().min(1024)];
            let (mut input, found) = decoded(start, chosen, input);
            let mut text = Vec::new();
            input.read_to_end(&mut text).expect("reads");
            (found.get().name(), text)
        };
        let fast = read(Box::new(io::Cursor::new(bytes.to_vec())));
        assert_eq!(fast, read(Box::new(Slow(io::Cursor::new(bytes.to_vec())))));
        fast
    }

    #[test]
    fn utf_16_is_recognised_with_and_without_a_mark_and_read_as_utf_8() {
        for text in ["profileUrl,note\nß,😀\n", "\u{FEFF}profileUrl,note\nß,😀\n"] {
            for name in ["UTF-16LE", "UTF-16BE"] {
                let bytes = Encoding::named(name).expect("an encoding").encoded(text).expect("it has all");
                assert_eq!(read(None, &bytes), (name, text.as_bytes().to_vec()));
            }
        }
        for text in [&b"profileUrl,phone\n"[..], b"", b"a\0b\0", b"a\0bcdefgh", b"PAR1\0\0\0\0\0\0"] {
            assert_eq!(read(None, text), ("UTF-8", text.to_vec()));
        }
    }

    #[test]
    fn what_is_not_utf_8_is_guessed_and_what_is_damaged_is_not() {
        assert_eq!(read(None, b"K\xF6the \x80\n"), ("Windows-1252", "Köthe €\n".as_bytes().to_vec()));
        assert_eq!(read(None, b"K\x90the \xF6\n"), ("Windows-1252", b"K\xFFthe \xC3\xB6\n".to_vec()));
        let damaged = ["Köthe, Müller, ".as_bytes(), b"K\xF6the"].concat();
        assert_eq!(read(None, &damaged), ("UTF-8", damaged.clone()));
        // Whatever stands at the end of a part.
        let long = [vec![b'a'; PART - 1], b"\xE4\xF6".to_vec()].concat();
        assert_eq!(read(None, &long).0, "Windows-1252");
        let long = [vec![b'a'; PART - 1], "öö\n".as_bytes().to_vec()].concat();
        assert_eq!(read(None, &long), ("UTF-8", long));
    }

    #[test]
    fn a_chosen_encoding_is_used_unless_a_mark_shows_another() {
        assert_eq!(read(Some("windows-1250"), b"\xF9\n"), ("windows-1250", "ů\n".as_bytes().to_vec()));
        assert_eq!(read(Some("utf-8"), b"\xF9\n"), ("UTF-8", b"\xF9\n".to_vec()));
        assert_eq!(read(Some("latin1"), b"\xEF\xBB\xBF\xC3\xB6").0, "UTF-8");
        assert_eq!(Encoding::named("klingon"), None);
        assert_eq!(Encoding::named("windows-1252").and_then(|latin| latin.encoded("ő")), None);
    }

    #[test]
    fn what_is_written_is_read_as_the_same_text() {
        for (name, text) in
            [("UTF-16LE", "\u{FEFF}Köthe,😀\n"), ("UTF-8", "Köthe"), ("Windows-1252", "Köthe €")]
        {
            let mut writer = EncodedWriter::new(Vec::new(), Encoding::named(name).expect("an encoding"));
            for byte in text.as_bytes() {
                writer.write_all(&[*byte]).expect("writes");
            }
            let bytes = writer.into_inner().expect("writes");
            assert_eq!(read(None, &bytes), (name, text.as_bytes().to_vec()));
        }
        let mut writer = EncodedWriter::new(Vec::new(), Encoding(WINDOWS_1252));
        let error = writer.write_all("ő".as_bytes()).expect_err("it has no ő").to_string();
        assert!(error.contains("Windows-1252") && error.contains(".xlsx"), "{error}");
    }

    #[test]
    fn half_a_character_becomes_a_byte_that_is_not_valid() {
        let units = |units: &[u16]| units.iter().flat_map(|unit| unit.to_le_bytes()).collect::<Vec<u8>>();
        let read = |bytes: &[u8]| read(Some("utf-16le"), bytes).1;
        assert_eq!(read(&units(&[0x61, 0xD83D, 0x62])), b"a\xFFb");
        assert_eq!(read(&units(&[0xDE00, 0x62])), b"\xFFb");
        assert_eq!(read(&units(&[0xD83D])), b"\xFF");
        assert_eq!(read(&units(&[0xD83D, 0xD83D, 0xDE00])), [b"\xFF", "😀".as_bytes()].concat());
        assert_eq!(read(&[0x61, 0, 0x62]), b"a\xFF");
    }
}
