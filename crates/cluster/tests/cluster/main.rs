//! Nodes with a real PostgreSQL.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod fixture;
mod following;
mod leases;
