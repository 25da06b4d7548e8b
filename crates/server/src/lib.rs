//! How HTTP reaches the lookups.
//!
//! [`serve`] takes two bound listeners and an [`App`]. One task accepts and hands each
//! connection to a worker thread; from then on everything about that connection, reading
//! the store included, happens on that thread. Nothing here knows an engine.

mod access;
mod answer;
mod app;
mod authorize;
mod body;
mod chunked;
mod connection;
mod docs;
mod fetch;
mod head;
mod health;
mod metrics;
mod panics;
mod refusal;
mod request_id;
mod router;
mod serve;
mod settings;
mod submission;
mod turn;
mod worker;

pub use app::App;
pub use panics::log_panics_without_their_message;
pub use refusal::invalid_reason;
pub use serve::{Listeners, serve};
pub use settings::Settings;
