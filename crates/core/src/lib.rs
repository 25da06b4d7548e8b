//! What contactd means, apart from how it is stored and how HTTP reaches it.
//!
//! # Glossary
//!
//! One word per concept, the same in types, columns, JSON, flags, log fields and docs.
//!
//! - **profile**: one person's page on a professional network, identified by its canonical
//!   URL ([`Profile`]).
//! - **detail**: one way to reach the person of a profile ([`Detail`]): a **kind** (phone or
//!   email), a **label** (personal or work), a **value**, and where it came from.
//! - **source**: who a detail came from. The same value from two sources is two details.
//! - **import**: one load of details, all or nothing.
//! - **lookup**: a caller asks for the best personal detail of one kind ([`Lookups`]).
//! - **hit**, **miss**: a lookup that found a detail, or did not.
//! - **token**: what a caller presents ([`TokenSecret`]), kept only as a hash ([`Token`]).
//! - **caller**: who is asking, once the token has been recognised ([`Caller`]).
//! - **scope**: what a token may look up.
//! - **rate**, **quota**: how often a token may ask, and how many hits it may have.
//! - **suppression**: a person, a number or an address that is never disclosed, kept as a
//!   keyed **digest** ([`SubjectDigest`]).
//! - **journal**: what was asked and answered, an **audit line** for each request of a recognised token
//!   ([`AuditEvent`]), in files called **segments**. A **mark** is a line about the journal itself.
//! - **sealed**: a lookup's result that opens only once its audit line is written ([`Sealed`]); a **ticket** tells when
//!   ([`Ticket`]).
//! - **erase**: suppress a person and remove everything about them. **sweep**: remove what has expired or is too old.
//! - **actor**: who carries out an administrative action, through a **service** ([`services`]).
//! - **in force**: no lookup that starts after a change has returned sees the state before it ([`InForce`]).
//! - **engine**: what keeps all this ([`store`]). Every engine passes the same conformance suite, in the crate
//!   `contactd-conformance`.

mod actor;
mod audit;
mod caller;
mod clock;
mod detail;
mod email;
mod first_bytes;
pub mod hex;
mod in_force;
mod journal_files;
mod limit;
mod live;
mod lookup;
pub mod metrics;
pub mod panics;
mod phone;
mod progress;
mod record;
pub mod services;
mod span;
pub mod store;
mod subject_name;
mod suppression;
mod token;

pub use actor::{Actor, Via};
pub use audit::{
    Audit, AuditEvent, AuditHealth, AuditOutcome, AuditPosition, AuditRecord, Batch, Fate, NOT_RECORDED,
    NoAudit, ProfileDigest, Ticket,
};
pub use caller::{Caller, Callers, UnknownCaller, UsageDelta};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use contactd_profile::{Case, Network, NetworkError, Networks, Profile, Reason};
pub use detail::{ContactValue, Detail, Kind, Label};
pub use email::EmailError;
pub use in_force::{Announcing, Changed, InForce, NotConfirmed};
pub use journal_files::{
    Chain, Head, JournalError, JournalFault, JournalFiles, JournalLine, JournalLines, KnownLine, Verification,
};
pub use limit::{Allowance, Allowances, LimitExceeded, LimitSyntax, Period, Quota, Rate};
pub use live::{Live, RefreshError};
pub use lookup::{LookupError, Lookups, Request, Sealed};
pub use phone::{PhoneError, is_phone_region};
pub use progress::{Cancel, Observer, Progress, unobserved};
pub use record::{RawRecord, Record, RecordError};
pub use span::{Lifetime, Span};
pub use subject_name::{SubjectName, SubjectNameError, subject_lines};
pub use suppression::{
    DigestKey, DigestKeys, PersonCheck, Subject, SubjectDigest, SuppressionList, UnknownKey,
};
pub use token::{Scopes, Token, TokenHash, TokenSecret};
