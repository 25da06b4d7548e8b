//! The real binary, over a real socket, on a real data directory.
//!
//! [`service::Service`] starts `contactd serve` at its most verbose and, when dropped, fails
//! the test if anything personal stands in what it logged or measured: that rule is checked
//! by every test here and written in none.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod audit;
mod backup;
mod base_path;
mod canonicalize;
mod commands;
mod config;
mod connections;
mod docs;
mod enrich;
mod erase;
mod export;
mod fixture;
mod hostile;
mod http;
mod import;
mod limits;
mod load;
mod operations;
mod order;
mod refusals;
mod request_ids;
mod service;
mod stop;
mod suppress;
mod tokens;
mod wal;
