//! The public HTTP listener.
//!
//! [`serve`] takes a bound listener and an [`App`]. One task accepts connections and passes each to a worker
//! thread. From then on, everything for that connection, including reading the store, happens on that thread.
//! This crate does not depend on a storage engine. The operator's pages are in another crate and have their own
//! threads.

mod access;
mod address;
mod admission;
mod answer;
mod app;
mod batch;
mod body;
mod chunked;
mod client_address;
mod client_connections;
mod client_table;
mod clients;
mod connection;
mod cors;
mod docs;
mod fetch;
mod forwarded;
#[doc(hidden)]
pub mod fuzzing;
mod head;
mod health;
mod lookup;
mod mcp;
mod metrics;
mod notify;
mod open_files;
mod places;
mod proxies;
mod refusal;
mod request_id;
mod route;
mod router;
mod serve;
mod settings;
mod slots;
mod stream;
mod submission;
mod target;
#[cfg(test)]
mod testing;
mod tls;
mod turn;
mod worker;
mod worker_clock;

pub use address::{AddressError, BasePath, Origin, PublicUrl};
pub use app::App;
pub use clients::ClientLimits;
pub use notify::Notify;
pub use open_files::{OpenFiles, Shares, TooFewFiles};
pub use proxies::{AddressRange, Proxies, ProxyError, ProxyHeader};
pub use refusal::invalid_reason;
pub use serve::{AtStop, serve};
pub use settings::Settings;
