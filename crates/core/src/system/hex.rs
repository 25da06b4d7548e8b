//! Bytes as hexadecimal digits, in lower case.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The two digits of every byte.
const PAIRS: [[u8; 2]; 256] = {
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 15]];
        byte += 1;
    }
    pairs
};

/// Encodes bytes.
pub fn encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Appends the digits of 16 bytes, without a separate allocation.
pub fn push(out: &mut Vec<u8>, bytes: &[u8; 16]) {
    let mut text = [[0; 2]; 16];
    for (digits, byte) in text.iter_mut().zip(bytes) {
        *digits = PAIRS[usize::from(*byte)];
    }
    out.extend_from_slice(text.as_flattened());
}

/// Decodes exactly `2 * N` digits, upper or lower case; `None` for any other text.
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (value(pair[0])? << 4) | value(pair[1])?;
    }
    Some(bytes)
}

/// For serde: the digits of a field.
pub fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&encode(bytes))
}

/// For serde: a field with exactly `2 * N` digits in lower case.
pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(deserializer: D) -> Result<[u8; N], D::Error> {
    let text = Cow::<'de, str>::deserialize(deserializer)?;
    let is_lower = !text.bytes().any(|digit| digit.is_ascii_uppercase());
    decode(&text).filter(|_| is_lower).ok_or_else(|| D::Error::custom("not hexadecimal digits in lower case"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        let bytes: [u8; 16] = std::array::from_fn(|at| u8::try_from(at * 16 + 15 - at).unwrap_or(0));
        let text = encode(&bytes);
        assert_eq!(decode(&text), Some(bytes));
        let mut pushed = Vec::new();
        push(&mut pushed, &bytes);
        assert_eq!(pushed, text.as_bytes());
        for wrong in [&text[1..], &format!("{text}00"), &text.replace('0', "g"), &"é".repeat(16)] {
            assert_eq!(decode::<16>(wrong), None, "{wrong}");
        }
    }
}
