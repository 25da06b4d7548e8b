//! The documentation, compared with the code: what a page names exists, and what exists is on its page. And the rules of the
//! architecture, compared with the code.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod architecture;
mod links;
mod log_lines;
mod metrics;
mod promises;

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn root() -> PathBuf {
    Path::new(ROOT).canonicalize().expect("the repository")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a kind below a directory, except those that were built or installed.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            let is_ours = !name.starts_with('.') && name != "target" && name != "node_modules";
            found.extend(is_ours.then(|| files(&path, extension)).into_iter().flatten());
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

/// The texts of the sources of all crates, without their tests.
fn sources() -> Vec<String> {
    let crates = root().join("crates");
    let in_crate = |path: &PathBuf| path.strip_prefix(&crates).expect("a file of a crate").to_owned();
    let is_source = |path: &PathBuf| in_crate(path).components().any(|part| part.as_os_str() == "src");
    files(&crates, "rs").into_iter().filter(is_source).map(read).collect()
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let is_kept = |line: &&str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    };
    page.lines().filter(is_kept).collect::<Vec<_>>().join("\n")
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The rows of the tables of a page: their cells.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let is_row = |line: &&str| line.starts_with("| ");
    page.lines()
        .filter(is_row)
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect()
}
