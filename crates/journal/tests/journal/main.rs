//! A journal on a real file system: what is written, what verification finds, and what a killed server leaves.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod copies;
mod corpus;
mod epochs;
mod lines;
mod moved;
mod place;
mod tamper;
