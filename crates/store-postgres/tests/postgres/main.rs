//! The engine, on a real PostgreSQL.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod access;
mod conformance;
mod database;
mod failover;
mod fixture;
mod journals;
mod nodes;
mod places;
mod quotas;
