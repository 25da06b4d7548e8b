//! Profile URL in, canonical form or one reason out.
//!
//! A profile URL is the address of one *person's* page on a professional network.
//! [`Networks::canonicalize`] turns every accepted spelling of it into one canonical
//! form, which is the identity of a profile everywhere in contactd, or says in one
//! [`Reason`] why it cannot. Canonicalising a canonical form returns it unchanged.
//!
//! The function is pure: no I/O, no clock, no panic, work bounded by the length of its
//! input. A refusal allocates nothing; an accepted URL allocates its result, and once
//! more only where letters outside ASCII have to be lower-cased.
//!
//! Which networks there are is data ([`Network`]), not code: LinkedIn and XING are built
//! in, an operator's own come from the configuration.
//!
//! No general URL parser is involved, on purpose: those repair what has to be refused
//! here (tabs inside a slug, backslashes, `..`, look-alike hosts), and a repaired URL
//! can be another person.

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

/// Longest accepted URL, in characters, after trimming, unless set otherwise.
pub const MAX_CHARS: usize = 2_048;
