//! Each promise has a test, and each threat a defence.

use crate::{files, prose, quoted, read, root, rows};

/// A file of Rust: the names in its path, and its text.
struct Source {
    modules: Vec<String>,
    text: String,
}

fn sources() -> Vec<Source> {
    files(&root().join("crates"), "rs")
        .into_iter()
        .map(|path| {
            let modules =
                path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
            Source { modules, text: read(path) }
        })
        .collect()
}

/// Whether `module::name` is a test, or `module::start…` the start of one, or `module::…` a file with tests.
fn exists(sources: &[Source], module: &str, name: &str) -> bool {
    let first = module.split("::").next().unwrap_or_default();
    let wanted = match name.strip_suffix('…') {
        Some("") => "#[test]".to_owned(),
        Some(start) => format!("fn {start}"),
        None if name == "tests" => "mod tests {".to_owned(),
        None => format!("fn {name}("),
    };
    let is_module = |source: &&Source| source.modules.iter().any(|module| module == first);
    sources.iter().filter(is_module).any(|source| source.text.contains(&wanted))
}

#[test]
fn every_promise_names_a_test() {
    let page = read(root().join("docs/promises.md"));
    let promises = rows(&page);
    assert!(promises.len() > 40, "{}", promises.len());
    for row in promises.iter().filter(|row| row.first() != Some(&"promise")) {
        let [promise, tests] = row[..] else { panic!("{row:?}") };
        let names_one = quoted(tests).any(|name| name.contains("::") || name.contains('/'));
        assert!(names_one || tests.starts_with("every "), "{promise}: {tests}");
    }
}

#[test]
fn every_test_that_is_named_exists() {
    let sources = sources();
    let mut missing = Vec::new();
    for path in files(&root(), "md") {
        let is_promises = path.ends_with("docs/promises.md");
        for name in quoted(&prose(&read(&path))) {
            let Some((module, test)) = name.rsplit_once("::") else { continue };
            let is_path =
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:…".contains(c));
            let is_test = is_path && (is_promises || test.matches('_').count() > 1);
            if is_test && !exists(&sources, module, test) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "pages name tests that do not exist:\n{}", missing.join("\n"));
}

#[test]
fn every_threat_has_a_defence_tests_and_what_remains() {
    let page = read(root().join("docs/threats.md"));
    for number in 1..=10 {
        assert!(page.contains(&format!("\n### API{number}: ")), "API{number} is missing");
    }
    for threat in page.split("\n### ").skip(1) {
        for part in ["\n- **Defence.**", "\n- **Tests.**", "\n- **Remains.**"] {
            assert_eq!(threat.matches(part).count(), 1, "{part} of {threat}");
        }
    }
}
