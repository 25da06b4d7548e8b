//! Settings that are given by a flag or by the file, and parsed the same way.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use contactd_core::{Lifetime, Span};
use contactd_store_postgres::{StoreUrl, UrlError};

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("`{text}` is not an address to listen on: write it like 127.0.0.1:8080");
        text.parse().map(Self).map_err(wrong)
    }
}

/// How long something is kept: for a time above zero, or for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keep(pub(crate) Lifetime);

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Lifetime::For(Duration::ZERO) => {
                Err(format!("`{text}` would keep nothing; use never to keep everything"))
            }
            keep => Ok(Self(keep)),
        }
    }
}

/// A time between two runs, above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval(pub(crate) Duration);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Span(Duration::ZERO) => {
                Err(format!("`{text}` is too short; use one second or more, such as 60s"))
            }
            Span(pause) => Ok(Self(pause)),
        }
    }
}

/// Where the store is.
#[derive(Clone, Debug)]
pub(crate) enum StoreAt {
    /// In files of the data directory.
    DataDir,
    /// In a database that the nodes of a cluster share.
    Database(StoreUrl),
}

impl FromStr for StoreAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "sqlite" | "sqlite:" => Ok(Self::DataDir),
            url if url.starts_with("postgres") => {
                url.parse().map(Self::Database).map_err(|error: UrlError| error.to_string())
            }
            _ => Err(
                "use sqlite, which keeps its files in the data directory, or postgres://USER@HOST/DATABASE"
                    .to_owned(),
            ),
        }
    }
}

/// Where the store is, as it was given: not parsed yet, because an error of the parser of flags would show the password in it.
#[derive(Clone)]
pub(crate) struct StoreText(pub(crate) String);

impl std::fmt::Debug for StoreText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreText(<redacted>)")
    }
}

/// How long a node may serve without the database: one second to ten minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTime(pub(crate) Duration);

impl FromStr for LeaseTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            Span(time) if (Duration::from_secs(1)..=Duration::from_secs(600)).contains(&time) => {
                Ok(Self(time))
            }
            _ => Err(format!("`{text}` is not possible; use one second to ten minutes, such as 60s")),
        }
    }
}

/// The name of a node in lists: 1 to 64 characters, none of them a control character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeName(pub(crate) String);

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
            return Ok(Self(text.to_owned()));
        }
        Err("the name of a node has 1 to 64 characters, such as \"node-1\"".to_owned())
    }
}

/// When a lookup counts as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditSync {
    /// Once the operating system has its line.
    #[default]
    Os,
    /// Once its line is on disk.
    Disk,
    /// Never: nothing is recorded. Only for measuring what recording costs.
    Off,
}

/// How much is logged. No level logs personal data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogLevel {
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Human on a terminal, JSON elsewhere.
    #[default]
    Auto,
    Human,
    Json,
}

/// A value that is written as text and parsed by its `FromStr`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromText<T>(pub(crate) T);

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for FromText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A number that must be at least `MIN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AtLeast<const MIN: usize>(pub(crate) usize);

impl<'de, const MIN: usize> Deserialize<'de> for AtLeast<MIN> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::deserialize(deserializer)? {
            number if number >= MIN => Ok(Self(number)),
            number => Err(de::Error::custom(format!("{number} is too small; it must be at least {MIN}"))),
        }
    }
}
