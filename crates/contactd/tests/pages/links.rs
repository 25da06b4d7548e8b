//! Links and paths of the pages.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::{files, prose, quoted, read, root};

/// Files that pages name by these endings are ours, unless their path is absolute.
const ENDINGS: [&str; 12] =
    ["rs", "py", "sh", "mjs", "js", "css", "toml", "md", "cfg", "yml", "service", "socket"];

/// The anchors of a page: its headings, as a browser of the repository names them.
fn anchors(page: &str) -> Vec<String> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let headings = prose(page);
    let anchor = |heading: &str| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let name = heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-");
        let before = times.entry(name.clone()).or_default();
        *before += 1;
        if *before == 1 { name } else { format!("{name}-{}", *before - 1) }
    };
    let is_heading = |line: &&str| line.starts_with('#');
    headings.lines().filter(is_heading).map(|line| line.trim_start_matches('#')).map(anchor).collect()
}

/// The targets of the links in a page.
fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let below =
        prose.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ")).map(|(_, target)| target);
    inline.chain(below).map(str::to_owned).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut broken = Vec::new();
    let pages = files(&root(), "md");
    assert!(pages.len() > 30, "{}", pages.len());
    for path in &pages {
        let page = read(path);
        for target in targets(&page).iter().filter(|target| !target.contains(':')) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let linked = if file.is_empty() { path.clone() } else { path.with_file_name(file) };
            let is_there = linked.exists()
                && (anchor.is_empty() || anchors(&read(&linked)).contains(&anchor.to_owned()));
            if !is_there {
                broken.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

/// Whether a path that a page names exists: from the root, from `crates/`, from the page, or in the sources of the page's crate.
/// A name alone is enough if some file below has it.
fn exists(page: &Path, named: &str, sources: &[PathBuf]) -> bool {
    let root = root();
    let beside = page.parent().unwrap_or(&root).to_owned();
    let bases = [root.clone(), root.join("crates"), beside.clone(), beside.join("src")];
    let is_named = |source: &PathBuf| source.starts_with(&beside) && source.ends_with(named);
    bases.iter().any(|base| base.join(named).exists()) || sources.iter().any(is_named)
}

#[test]
fn every_file_that_a_page_names_exists() {
    let mut missing = Vec::new();
    let sources = files(&root(), "rs");
    for path in files(&root(), "md") {
        // What decisions and changes say was true when they were made.
        let is_history =
            path.ends_with("CHANGELOG.md") || path.components().any(|part| part.as_os_str() == "adr");
        let is_design = path.ends_with("ARCHITECTURE.md") || path.ends_with("DESIGN.md");
        let prose = prose(&read(&path));
        for name in quoted(&prose).flat_map(str::split_whitespace).filter(|_| !is_history) {
            let is_ours =
                Path::new(name).extension().is_some_and(|end| ENDINGS.iter().any(|ours| end == *ours));
            let is_whole = (name.contains('/') || is_design && name.ends_with(".rs"))
                && !name.starts_with(['/', '.', '*', '~']);
            let is_pattern = name.contains(['*', '…', '$', '{', '<', ':', '(']);
            if is_ours && is_whole && !is_pattern && !exists(&path, name, &sources) {
                missing.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(missing.is_empty(), "pages name files that do not exist:\n{}", missing.join("\n"));
}
