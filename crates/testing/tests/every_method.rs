//! Every method of every store trait is called by the suite.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn sources(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path()).collect()
}

/// The names of the methods of the public traits in a file.
fn required(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut in_trait = false;
    for line in text.lines() {
        in_trait = match line {
            line if line.starts_with("pub trait") => true,
            "}" => false,
            _ => in_trait,
        };
        let method = line.strip_prefix("    ").map(|rest| rest.strip_prefix("async ").unwrap_or(rest));
        if let Some(rest) = method.and_then(|rest| rest.strip_prefix("fn ")).filter(|_| in_trait) {
            names.extend(rest.split(['(', '<']).next().map(str::to_owned));
        }
    }
    names
}

#[test]
fn the_suite_calls_every_method_of_every_trait() {
    let traits = Path::new(CRATES).join("core/src/store");
    let methods: Vec<String> = sources(&traits)
        .iter()
        .flat_map(|file| required(&fs::read_to_string(file).expect("a file")))
        .collect();
    assert!(methods.len() > 40, "too few methods found: {methods:?}");
    let mut suite: Vec<PathBuf> = sources(&Path::new(CRATES).join("testing/src/suite"));
    suite.push(Path::new(CRATES).join("testing/src/suite.rs"));
    let suite: String = suite.iter().map(|file| fs::read_to_string(file).expect("a file")).collect();
    let missing: Vec<_> = methods.iter().filter(|name| !suite.contains(&format!(".{name}("))).collect();
    assert!(missing.is_empty(), "not in the suite: {missing:?}");
}
