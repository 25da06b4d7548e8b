//! How HTTP reaches the lookups.
//!
//! [`serve`] takes a bound listener and an [`App`]. One task accepts and hands each connection to a worker thread; from then
//! on everything about that connection, reading the store included, happens on that thread. Nothing here knows an engine,
//! and the operator's pages are not here: they have threads of their own.

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
mod route;
mod router;
mod serve;
mod settings;
mod stream;
mod submission;
#[cfg(test)]
mod testing;
mod turn;
mod worker;
mod worker_clock;

pub use app::App;
pub use refusal::invalid_reason;
pub use serve::serve;
pub use settings::Settings;
