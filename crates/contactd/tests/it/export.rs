//! An export can be imported again; imports can be listed and undone.

use crate::fixture::{ADA, ADA_CANONICAL, ADA_PHONE, EVE};
use crate::service::Site;

#[test]
fn exporting_an_empty_store_prints_nothing_and_is_not_an_error() {
    let site = Site::empty();
    site.token(&[]);
    let output = site.run(&["export"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""));
}

#[test]
fn an_export_imported_elsewhere_gives_the_same_export() {
    let site = Site::empty();
    site.import_people();
    // The same number from another source, and the sources in another order than in the second store.
    site.ok(&["put", ADA, "--phone", ADA_PHONE, "--source", "another"]);
    let exported = site.run(&["export"]).stdout;
    let lines: Vec<&str> = exported.lines().collect();
    assert_eq!(lines.len(), 5);
    assert!(lines.is_sorted());
    assert!(
        lines[0].starts_with(&format!("{{\"profileUrl\":\"{ADA_CANONICAL}\",\"phones\":[")),
        "{}",
        lines[0]
    );
    let csv = site.run(&["export", "--format", "csv"]).stdout;
    assert_eq!(csv.lines().count(), 1 + 12);
    for form in [&exported, &csv] {
        let other = Site::empty();
        other.ok_with_input(&["import", "-"], form);
        assert_eq!(other.run(&["export"]).stdout, exported);
        assert_eq!(other.run(&["export", "--format", "csv"]).stdout, csv);
    }
}

#[test]
fn an_export_can_be_of_one_source() {
    let site = Site::empty();
    site.import_people();
    site.ok(&["put", EVE, "--phone", "+14155550166", "--source", "hand"]);
    let exported = site.run(&["export", "--source", "hand"]).stdout;
    assert_eq!(exported.lines().count(), 1);
    assert!(exported.contains("+14155550166") && !exported.contains("crm"), "{exported}");
}
