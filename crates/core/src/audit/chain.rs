//! What identifies a journal and its lines.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hex;

/// The public key with which a journal began. Everything in it can be verified with this key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RootKey(#[serde(with = "hex")] pub [u8; 32]);

impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({self})")
    }
}

impl std::str::FromStr for RootKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        hex::decode(text.trim())
            .map(Self)
            .ok_or("a root key is 64 hex digits, as `contactd audit root` prints it")
    }
}

/// The chain value of a line: it links the line to the one before and identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chain(#[serde(with = "hex")] pub [u8; 16]);

impl Chain {
    /// The value before the first line.
    pub const START: Self = Self([0; 16]);

    /// Parses 32 lower-case hexadecimal digits, the form in which it is written.
    pub fn parse(text: &str) -> Option<Self> {
        hex::decode(text).filter(|_| !text.bytes().any(|b| b.is_ascii_uppercase())).map(Self)
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

/// A line of a journal that is signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedLine {
    /// Its number.
    pub seq: u64,
    /// Whether it is the first line of a segment.
    pub begins_segment: bool,
    /// Whether it signs the lines before it.
    pub is_checkpoint: bool,
    /// Whether `seals.jsonl` has a copy of it, which outlasts it.
    pub is_seal: bool,
    /// The list of people that it names, if it names one.
    pub list: Option<String>,
    /// If it says that lines are removed after their retention period: the last of them.
    pub retires: Option<u64>,
    /// Its text, without the newline.
    pub text: String,
}
