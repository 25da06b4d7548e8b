//! The real binary, over a real socket, on a real data directory.
//!
//! [`service::Service`] starts `contactd serve` at its most verbose and, when dropped, fails
//! the test if its logs or metrics contain personal data: every test here checks that rule
//! without mentioning it.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod admin;
mod admin_api;
mod audit;
mod backup;
mod base_path;
mod canonicalize;
mod client_limits;
mod clients;
mod cluster;
mod commands;
mod config;
mod connections;
mod console;
mod console_audit;
mod console_files;
mod console_imports;
mod console_jobs;
mod console_matrix;
mod console_overview;
mod console_people;
mod console_record;
mod console_tokens;
mod cors;
mod data_dirs;
mod demo;
mod descriptors;
mod docs;
mod doctor;
mod engines;
mod enrich;
mod erase;
mod export;
mod failover;
mod fairness;
mod faults;
mod fixture;
mod gone_clients;
mod help;
mod hostile;
mod http;
mod import;
mod import_checks;
mod leftovers;
mod limits;
mod load;
mod messy;
mod migrate;
mod moved;
mod no_store;
mod operations;
mod order;
mod packaging;
mod parquet;
mod privacy_tasks;
mod progress;
mod proof;
mod proxies;
mod questions;
mod quotas;
mod refusals;
mod rejects;
mod request_ids;
mod restored;
mod running;
mod second_factors;
mod service;
mod shipping;
mod stop;
mod suppress;
mod systemd;
mod tls;
mod tls_client;
mod token_changes;
mod tokens;
mod transcript;
mod undo;
mod users;
mod waiting;
mod wal;
mod whole_person;
