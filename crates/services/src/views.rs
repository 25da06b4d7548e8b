//! What tokens, accounts, lines of the journal, imports and people look like as JSON: one form of each, for `--json` of commands
//! and for the admin API.
//!
//! Doc comments are the descriptions in the admin API's OpenAPI document, and names in `schemars(rename)` are the names of
//! its schemas. `schemars(skip)` marks what only commands show.

#![expect(
    missing_docs,
    reason = "they have the words of the glossary, and a doc comment would be a description on the wire"
)]

mod account;
mod erasure;
mod followed;
mod import;
mod journal;
mod node;
mod report;
mod retention;
mod stats;
mod token;
mod usage;

pub use account::{AdminTokenView, UserView};
pub use erasure::{ErasedProfileView, ErasedView, HolderView, SharedView};
pub use followed::{CorrectionView, FollowedLine, FollowedView};
pub use import::ImportView;
pub use journal::{ActionView, EventView, RequestView};
pub use node::NodeView;
pub use report::{
    AccessReport, Disclosure, DisclosuresOf, HeldDetail, ReceivedBy, ReceivedDetail, SuppressionState,
};
pub use retention::{NextView, SourceView};
pub use stats::StatsView;
pub use token::{ListedToken, TokenLimits, TokenName, TokenState, TokenUse, TokenView};
pub use usage::{DayLookups, Recipient, TokenLookups, UsageView};
