//! The engine on a real PostgreSQL, which all of these tests share.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod access;
mod conformance;
mod database;
mod failover;
mod journals;
mod nodes;
mod places;
mod quotas;
