//! TLS for the listeners.
//!
//! [`Pair`] is a certificate and its key, read from two files and checked: what can be wrong with them is found here, before
//! anything uses them. [`Tls`] holds the pair in use and does handshakes with it. The pair can be replaced at any time: new
//! connections get the new one, open connections go on. [`Watch`] replaces it when the files change, and warns before the
//! certificate ends.

mod ends;
mod expiry;
mod handshake;
mod pair;
#[cfg(test)]
mod testing;
mod tls;
mod watch;

pub use expiry::findings;
pub use handshake::HandshakeQueue;
pub use pair::{Pair, PairError, PairFiles, Part};
pub use tls::{Handshake, Tls};
pub use tokio_rustls::server::TlsStream;
pub use watch::Watch;
