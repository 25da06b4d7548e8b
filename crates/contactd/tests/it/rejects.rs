//! Rejects files: where they are written, what may be written over, and that nothing is lost.

use crate::fixture::ADA;
use crate::service::Site;
use crate::transcript::check;

#[test]
fn what_is_not_a_rejects_file_is_not_written_over_and_no_link_is_followed() {
    check(&Site::empty(), "rejects");
}

#[test]
fn a_source_is_not_replaced_by_rejected_rows_and_the_report_says_what_to_do() {
    check(&Site::empty(), "rejects_and_sources");
}

#[test]
fn what_a_spreadsheet_would_run_is_marked_in_an_export_and_comes_back_unchanged() {
    let site = Site::empty();
    let rows = [
        ("=cmd@example.com", "-x", "@a"),
        ("+ada@example.com", "=1+1", "'=quoted"),
        ("-ada@example.com", "'-", "+14155550123"),
    ];
    let lines: String = rows
        .iter()
        .map(|(email, basis, source)| {
            serde_json::json!({"profileUrl": ADA, "email": email, "basis": basis, "source": source})
                .to_string()
                + "\n"
        })
        .collect();
    site.ok_with_input(&["import", "-"], lines);
    let csv = site.ok(&["export", "--format", "csv"]);
    for cell in
        ["'=cmd@example.com", "'+ada@", "'-ada@", "'-x", "'@a", "'=1+1", "''=quoted", "''-", ",+14155550123"]
    {
        assert!(csv.contains(cell), "{cell}: {csv}");
    }
    let other = Site::empty();
    other.ok_with_input(&["import", "-"], &csv);
    assert_eq!(other.ok(&["export", "--format", "csv"]), csv);
    assert_eq!(other.ok(&["export"]), site.ok(&["export"]));
}
