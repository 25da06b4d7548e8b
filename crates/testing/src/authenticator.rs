//! What an authenticator app shows, without our own code.

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

/// The code of a secret, which is in base 32, in a step of 30 seconds.
pub fn authenticator_code(secret_base32: &str, step: i64) -> String {
    let bits: String = secret_base32
        .bytes()
        .map(|c| if c.is_ascii_digit() { c - b'2' + 26 } else { c - b'A' })
        .map(|value| format!("{value:05b}"))
        .collect();
    let byte = |at: usize| u8::from_str_radix(&bits[at..at + 8], 2).expect("bits");
    let secret: Vec<u8> = (0..bits.len()).step_by(8).map(byte).collect();
    let mut mac = Hmac::<Sha1>::new_from_slice(&secret).expect("any length");
    mac.update(&step.to_be_bytes());
    let digest = mac.finalize().into_bytes();
    let at = usize::from(digest[19] & 15);
    let number = u32::from_be_bytes(digest[at..at + 4].try_into().expect("four bytes")) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}
