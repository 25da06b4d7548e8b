//! docs/metrics.md has every metric, and no other.

use std::collections::BTreeSet;

use crate::{quoted, read, root, rows, sources};

/// The name of the console's cookie, which looks like that of a metric.
const COOKIE: &str = "contactd_session";

fn is_metric(name: &str) -> bool {
    let is_name = name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    is_name && (name.starts_with("contactd_") || name.starts_with("process_")) && name != COOKIE
}

#[test]
fn the_page_has_every_metric_and_no_other() {
    let sources = sources();
    let of_code: BTreeSet<&str> =
        sources.iter().flat_map(|text| text.split('"')).filter(|name| is_metric(name)).collect();
    assert!(of_code.len() > 30, "{of_code:?}");
    let page = read(root().join("docs/metrics.md"));
    let rows = rows(&page);
    let of_page: BTreeSet<&str> = rows
        .iter()
        .flat_map(|row| quoted(row[0]))
        .filter_map(|name| name.split('{').next())
        .filter(|name| is_metric(name))
        .collect();
    let missing: Vec<&&str> = of_code.difference(&of_page).collect();
    let unknown: Vec<&&str> = of_page.difference(&of_code).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not on the page: {missing:?}; only there: {unknown:?}"
    );
}
