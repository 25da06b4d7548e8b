//! The domain of contactd, independent of storage and HTTP.
//!
//! # Glossary
//!
//! Each concept has one word, the same in types, columns, JSON, flags, log fields and docs.
//!
//! ## Data
//!
//! - **profile**: one person's page on a professional network, identified by its canonical URL ([`Profile`]).
//! - **detail**: one way to contact the person of a profile ([`Detail`]). It has a **kind** (phone or email), a
//!   **label** (personal or work), a **value** and a source.
//! - **source**: where a detail came from. The same value from two sources is two details.
//! - **import**: one load of details, applied completely or not at all.
//! - **engine**: the storage behind all this ([`store`]). Every engine passes the same conformance suite, in the
//!   crate `contactd-testing`.
//!
//! ## Lookups
//!
//! - **token**: the secret that a client sends with a request ([`TokenSecret`]). The store keeps only its hash
//!   ([`TokenHash`]) and a record about it ([`Token`]).
//! - **caller**: the client, once its token has been recognised ([`Caller`]).
//! - **scope**: what a token may do: look up a kind of detail, or use the Model Context Protocol ([`Scopes`]).
//! - **rate**: how often a token may send requests ([`Rate`]). **quota**: how many hits it may have in a day or
//!   month ([`Quota`]).
//! - **family**: a token and those that were made from it by rotation. They share one quota.
//! - **lookup**: a caller's request for the best personal detail of one kind ([`Lookups`]).
//! - **hit**: a lookup that found a detail. **miss**: a lookup that found none.
//! - **sandbox**: what answers a lookup with a token that is for tests. It makes its answers up from the profile's URL.
//!
//! ## Privacy
//!
//! - **subject**: a person, a phone number or an e-mail address ([`Subject`]).
//! - **suppression**, or opt-out: a subject that must never be disclosed. It is stored as a keyed **digest**
//!   ([`SubjectDigest`]), not in clear.
//! - **erase**: suppress a person and remove everything about them.
//! - **sweep**: remove details that have expired or are too old.
//!
//! ## Audit
//!
//! - **journal**: the log of all requests with a recognised token, in files called **segments**.
//! - **audit line**: the entry for one request in the journal ([`AuditEvent`]). It says what was asked and with
//!   which outcome. A **mark** is a line about the journal itself.
//! - **checkpoint**: a line that signs the lines before it. **epoch**: the time for which one key signs. **seal**: the
//!   checkpoint that ends an epoch. **root**: the key of the first epoch ([`RootKey`]).
//! - **pending answer**: the result of a lookup, which can be opened only once its audit line is written ([`PendingAnswer`]). A
//!   **ticket** tells when that is ([`Ticket`]).
//!
//! ## Administration
//!
//! - **actor**: who performs an administrative action ([`Actor`]).
//! - **user**: somebody who logs in to the console ([`User`]). **admin token**: the secret that a program sends to the admin
//!   API ([`AdminToken`]). Both have a **role**, which says what they may do ([`Role`]).
//! - **one-time password**: one that was made for a user, who has to change it at the first log-in. **second factor**: codes of
//!   an authenticator app, or TOTP ([`TotpSeed`]).
//! - **session**: the time between a log-in and its end. It ends early when the user's **generation** changes.
//! - **service**: the code that carries out administrative actions (crate `services`).
//! - **on record**: an action is on record when its line is in the journal ([`OnRecord`]). The **outbox** keeps the
//!   entries of changes until then.
//! - **in force**: a change is in force when every lookup that starts from now on sees it ([`InForce`]).
//! - **node**: a server of a cluster, which answers from its own copy of the database. **lease**: how long it may do so
//!   without hearing from the database ([`Lease`]).

mod access;
mod audit;
mod lookup;
mod people;
pub mod store;
mod system;

pub use access::*;
pub use audit::*;
pub use contactd_profile::{Case, Network, NetworkError, Networks, Profile, Reason};
pub use lookup::*;
pub use people::*;
pub use system::*;
