//! The rules of deny.toml, held against what cargo says is really depended on.

use std::process::Command;

use serde_json::Value;

use crate::{files, read, root};

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    serde_json::from_slice(&output.stdout).expect("metadata")
}

fn rules() -> toml::Table {
    read(root().join("deny.toml")).parse().expect("TOML")
}

/// Who depends directly on whom, tests and build scripts aside.
fn dependencies(metadata: &Value) -> Vec<(String, String)> {
    let name_of = |id: &Value| {
        let packages = metadata["packages"].as_array().expect("packages");
        let package = packages.iter().find(|package| package["id"] == *id).expect("a package");
        package["name"].as_str().expect("a name").to_owned()
    };
    let mut found = Vec::new();
    for node in metadata["resolve"]["nodes"].as_array().expect("nodes") {
        for dependency in node["deps"].as_array().expect("deps") {
            let kinds = dependency["dep_kinds"].as_array().expect("kinds");
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                found.push((name_of(&node["id"]), name_of(&dependency["pkg"])));
            }
        }
    }
    found
}

#[test]
fn only_those_depend_on_a_crate_that_may() {
    let (metadata, rules) = (metadata(), rules());
    let dependencies = dependencies(&metadata);
    let denied = rules["bans"]["deny"].as_array().expect("a list");
    assert!(denied.len() > 10);
    for rule in denied {
        let name = rule["crate"].as_str().expect("a name");
        let wrappers: Vec<&str> =
            rule["wrappers"].as_array().expect("a list").iter().filter_map(|w| w.as_str()).collect();
        for (from, to) in &dependencies {
            assert!(to != name || wrappers.contains(&from.as_str()), "{from} must not depend on {to}");
        }
    }
}

#[test]
fn every_dependency_has_a_licence_we_accept_and_comes_from_the_registry() {
    let (metadata, rules) = (metadata(), rules());
    let allowed: Vec<&str> =
        rules["licenses"]["allow"].as_array().expect("a list").iter().filter_map(|l| l.as_str()).collect();
    for package in metadata["packages"].as_array().expect("packages") {
        let (name, licence) = (&package["name"], package["license"].as_str().unwrap_or("none"));
        let expression = licence.replace('/', " OR ").replace(['(', ')'], "");
        let accepted = expression
            .split(" AND ")
            .all(|either| either.split(" OR ").any(|one| allowed.contains(&one.trim())));
        assert!(accepted, "{name}: {licence}");
        let source = package["source"].as_str();
        assert!(source.is_none_or(|source| source.starts_with("registry+")), "{name}: {source:?}");
    }
}

#[test]
fn every_crate_of_ours_takes_the_workspace_lints() {
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let manifest = entry.expect("an entry").path().join("Cargo.toml");
        let text = read(&manifest);
        assert!(text.contains("[lints]\nworkspace = true"), "{}", manifest.display());
    }
}

/// Where no engine is named: commands, services and the two servers work with any.
const WITHOUT_ENGINE: [&str; 4] = ["contactd/src/commands", "services/src", "admin/src", "server/src"];

#[test]
fn no_command_service_or_server_names_an_engine() {
    let dirs = WITHOUT_ENGINE.map(|dir| root().join("crates").join(dir));
    for file in dirs.iter().filter(|dir| dir.exists()).flat_map(|dir| files(dir, "rs")) {
        let text = read(&file).to_lowercase();
        for engine in ["sqlite", "postgres", "crate::engine"] {
            assert!(!text.contains(engine), "{} names {engine}", file.display());
        }
    }
}
