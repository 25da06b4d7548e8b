//! Turns a profile URL into its canonical form, or gives one reason why it cannot.
//!
//! A profile URL is the address of one *person's* page on a professional network.
//! [`Networks::canonicalize`] turns every accepted spelling of it into one canonical form,
//! or returns one [`Reason`]. The canonical form identifies a profile everywhere in contactd.
//! Canonicalising a canonical form returns it unchanged.
//!
//! The function is pure: no I/O, no clock, no panic, and its work is bounded by the length
//! of the input. A refused URL allocates nothing. An accepted URL allocates its result, and
//! allocates again only when letters outside ASCII must be lower-cased.
//!
//! Networks are data ([`Network`]), not code. LinkedIn and XING are built in; operators add
//! their own in the configuration.
//!
//! This crate deliberately does not use a general URL parser. Such parsers repair input that
//! must be refused here (tabs inside a slug, backslashes, `..`, look-alike hosts), and a
//! repaired URL can belong to another person.

mod authority;
mod canonical;
mod network;
mod path;
mod reason;
mod route;
mod slug;
mod text;

pub use canonical::Profile;
pub use network::{Case, Network, NetworkError, Networks};
pub use reason::Reason;

/// Default maximum length of a URL, in characters, after trimming.
pub const MAX_CHARS: usize = 2_048;
