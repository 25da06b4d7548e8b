//! docs/log-lines.md has every line that is logged, and no other.

use crate::{quoted, read, root, rows, sources};

/// How lines are logged: the call, and the level that the page says.
const CALLS: [(&str, &str); 4] = [
    ("tracing::info!(", "INFO"),
    ("log::say(format_args!(", "INFO"),
    ("tracing::warn!(", "WARN"),
    ("tracing::error!(", "ERROR"),
];

/// The arguments of a call, from behind its bracket: those that begin at the outermost level.
fn arguments(text: &str) -> Vec<String> {
    let (mut arguments, mut depth, mut is_text, mut is_escaped) = (vec![String::new()], 1, false, false);
    for c in text.chars() {
        match c {
            '"' if !is_escaped => is_text = !is_text,
            '(' | '[' | '{' if !is_text => depth += 1,
            ')' | ']' | '}' if !is_text => depth -= 1,
            ',' if !is_text && depth == 1 => {
                arguments.push(String::new());
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_escaped = c == '\\' && !is_escaped;
        arguments.last_mut().expect("an argument").push(c);
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}

/// A literal as it is logged, with `…` for what is filled in.
fn shown(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    let joined = lines.fold(first, |joined, line| joined + line.trim_start()).replace("\\\"", "\"");
    let mut parts = joined.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, part| shown + "…" + part.split_once('}').map_or("", |(_, rest)| rest))
}

/// What the code logs: level and text. What is a text of elsewhere as a whole is left out.
fn logged() -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for source in sources() {
        for (call, level) in CALLS {
            for rest in source.split(call).skip(1) {
                let arguments = arguments(rest);
                let literal =
                    arguments.iter().find_map(|argument| argument.strip_prefix('"')?.strip_suffix('"'));
                found.extend(literal.map(shown).filter(|text| text != "…").map(|text| (level, text)));
            }
        }
    }
    found
}

/// What the page says: level and text.
fn described(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for row in rows(page).iter().filter(|row| !row[1].starts_with("any other ") && row[0] != "level") {
        let texts = row[1].split(", with `").next().unwrap_or_default();
        found.extend(quoted(texts).map(|text| (row[0].to_owned(), text.to_owned())));
    }
    found
}

/// Whether a text fits a pattern, in which `…` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let parts: Vec<&str> = pattern.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else { return pattern == text };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in middle {
        let Some((_, after)) = rest.split_once(part) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

/// Whether they are the same line: either may abbreviate the other.
fn is_same(one: &str, other: &str) -> bool {
    fits(one, other) || fits(other, one)
}

#[test]
fn the_page_has_every_line_and_no_other() {
    let page = read(root().join("docs/log-lines.md"));
    let (logged, described) = (logged(), described(&page));
    assert!(logged.len() > 80 && described.len() > 80, "{} {}", logged.len(), described.len());
    let is_described = |(level, text): &&(&str, String)| {
        described.iter().any(|(of, pattern)| of == level && is_same(pattern, text))
    };
    let missing: Vec<_> = logged.iter().filter(|line| !is_described(line)).collect();
    // Some texts are made before they are logged.
    let sources = sources();
    let made: Vec<String> = sources
        .iter()
        .flat_map(|source| source.split("format!(\"").skip(1))
        .filter_map(first_literal)
        .collect();
    let is_logged = |(level, pattern): &&(String, String)| {
        logged.iter().any(|(of, text)| of == level && is_same(pattern, text))
            || made.iter().any(|text| fits(pattern, text))
    };
    let unknown: Vec<_> = described.iter().filter(|line| !is_logged(line)).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:#?}; only there: {unknown:#?}"
    );
}

/// The literal whose first quote was before this.
fn first_literal(rest: &str) -> Option<String> {
    Some(shown(rest.split_once('"')?.0))
}
