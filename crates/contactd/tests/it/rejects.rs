//! Rejects files: where they are written, what may be written over, and that nothing is lost.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::fixture::{ADA, ADA_PHONE, EVE};
use crate::service::{Output, Site};

const BAD: &str = "profileUrl,phone\nhttps://linkedin.com/in/bad-quell,bad\n";

fn import(site: &Site, files: &[&str], flags: &[&str]) -> Output {
    site.run(&[&["import", "--source", "crm", "--max-rejects", "100%"], files, flags].concat())
}

fn names(site: &Site) -> Vec<String> {
    let entries = std::fs::read_dir(site.path("")).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_rejects_file_is_for_its_owner_only_and_replaces_an_earlier_one() {
    let site = Site::empty();
    site.file("a.csv", BAD);
    let first = import(&site, &["a.csv"], &[]);
    assert_eq!(
        first.stderr,
        format!(
            "import finished (data directory {})\nthe rejected rows are in a.csv.rejects.csv; correct them there and import that \
             file\n",
            site.data().display()
        )
    );
    let rejects = site.path("a.csv.rejects.csv");
    let before = rejects.metadata().expect("is there");
    assert_eq!(before.permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&rejects, PermissionsExt::from_mode(0o644)).expect("sets");
    import(&site, &["a.csv"], &[]);
    let after = rejects.metadata().expect("is there");
    assert_eq!(after.permissions().mode() & 0o777, 0o600);
    assert_ne!(before.ino(), after.ino(), "it is another file with the same name");
    assert_eq!(names(&site), ["a.csv", "a.csv.rejects.csv", "data"]);
}

#[test]
fn what_is_not_a_rejects_file_is_not_written_over_and_no_link_is_followed() {
    let site = Site::empty();
    site.file("a.csv", BAD);
    let precious = site.file("precious", "not a file of rejected rows");
    std::os::unix::fs::symlink(&precious, site.path("a.csv.rejects.csv")).expect("links");
    let told = import(&site, &["a.csv"], &[]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (
            1,
            "contactd: a.csv.rejects.csv is a symbolic link, which is not followed; choose another file for the rejected \
             rows with --rejects FILE\n"
        )
    );
    let told = import(&site, &["a.csv"], &["--rejects", "precious"]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (
            1,
            "contactd: precious exists and holds something else than rejected rows; move it away, or choose another file for \
             them with --rejects FILE\n"
        )
    );
    let told = import(&site, &["a.csv"], &["--rejects", "a.csv"]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (
            2,
            "contactd: the rejected rows would be written to a.csv, which is one of the files to import; choose another file \
             for them with --rejects FILE\n"
        )
    );
    let told = import(&site, &["a.csv"], &["--rejects", "nowhere/rejects.csv"]);
    assert!(
        told.code == 1 && told.stderr.contains("cannot write the rejected rows to nowhere/rejects.csv"),
        "{told:?}"
    );
    assert_eq!(std::fs::read_to_string(&precious).expect("reads"), "not a file of rejected rows");
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 0);
}

#[test]
fn an_import_that_fails_leaves_no_rejects_file() {
    let site = Site::empty();
    site.file("a.csv", BAD);
    site.file("b.csv", "profileUrl,phone\n\"never closed\n");
    assert_eq!(import(&site, &["a.csv", "b.csv"], &[]).code, 1);
    assert_eq!(names(&site), ["a.csv", "b.csv", "data"]);
}

#[test]
fn rejects_can_be_written_to_a_device() {
    let site = Site::empty();
    site.file("a.csv", BAD);
    site.file("b.csv", BAD);
    let told = import(&site, &["a.csv", "b.csv"], &["--rejects", "/dev/null"]);
    assert_eq!(told.code, 0, "{told:?}");
    let null = std::fs::symlink_metadata("/dev/null").expect("is there");
    assert!(std::os::unix::fs::FileTypeExt::is_char_device(&null.file_type()), "still a device");
}

#[test]
fn the_rejects_of_an_input_that_is_named_twice_are_kept_apart() {
    let site = Site::empty();
    site.file("a.csv", BAD);
    assert_eq!(import(&site, &["a.csv", "a.csv"], &[]).code, 0);
    assert_eq!(names(&site), ["a.csv", "a.csv.rejects.2.csv", "a.csv.rejects.csv", "data"]);
}

#[test]
fn a_source_is_not_replaced_by_rejected_rows() {
    let site = Site::empty();
    let people = format!("profileUrl,phone\n{ADA},{ADA_PHONE}\n{EVE},bad\n");
    site.file("a.csv", people);
    site.file("a.jsonl", format!("{{\"profileUrl\":\"{EVE}\",\"phone\":\"bad\"}}\n"));
    assert_eq!(import(&site, &["a.csv", "a.jsonl"], &[]).code, 0);
    for rejects in ["a.csv.rejects.csv", "a.jsonl.rejects.jsonl"] {
        let corrected =
            std::fs::read_to_string(site.path(rejects)).expect("reads").replace(",bad", ",+14155550102");
        site.file(rejects, corrected.replace("\"bad\"", "\"+14155550102\""));
        let told = import(&site, &[rejects], &["--replace-source"]);
        assert_eq!(
            (told.code, told.stderr),
            (
                1,
                format!(
                    "contactd: {rejects} holds only the rejected rows of an earlier import, so the rest of their source would \
                     be removed; nothing was changed. Import it without replacing the source\n"
                )
            )
        );
        assert_eq!(import(&site, &[rejects], &[]).code, 0);
    }
    assert_eq!(site.run(&["stats", "--json"]).json()["profiles"], 2);
}

#[test]
fn the_report_for_people_says_what_to_do() {
    let site = Site::empty();
    let csv = format!(
        "profileUrl;phone;E-mail;observedAt;Name\n{ADA};14155550123;ada@example.com;;Ada\n{EVE};555-0100;;01.05.2026;Eve\n"
    );
    site.file("people.csv", csv);
    let told = import(&site, &["people.csv"], &["--region", "US"]);
    assert_eq!(
        told.stdout,
        "rows read                      2\n\
         profiles new                   1\n\
         profiles changed               0\n\
         details new                    1\n\
         details changed                0\n\
         details unchanged              0\n\
         details withdrawn              0\n\
         details suppressed             0\n\
         rows rejected                  1\n  \
           of these in part             0\n\
         values rejected                2\n  \
           date_format_needed           1  name the order of day and month with --date-format, such as --date-format '%d.%m.%Y'\n  \
           invalid_phone                1\n  \
           people.csv, line 3, phone: invalid_phone\n  \
           people.csv, line 3, observedAt: date_format_needed\n\
         read people.csv as csv, columns separated by semicolons\n\
         columns not used: E-mail, Name (did you mean --map email=E-mail?)\n\
         warning: 1 number begins with the country code of the region, without a +: check line 2, and write such numbers with +\n"
    );
}

#[test]
fn flags_for_messy_files_are_checked() {
    let site = Site::empty();
    for (flags, what) in [
        (["--delimiter", ";;"], "write one character, such as ';' or '|', or the word tab"),
        (["--delimiter", "\""], "write one character"),
        (
            ["--date-format", "%d.%m"],
            "name day, month and year once each, such as %d.%m.%Y; a time needs %H and %M",
        ),
        (["--date-format", "%e.%m.%Y"], "use only %d, %m, %Y, %y, %H, %M, %S"),
    ] {
        let told = import(&site, &["a.csv"], &flags);
        assert!(told.code == 2 && told.stderr.contains(what), "{told:?}");
    }
    site.file("a.csv", format!("profileUrl\tphone\n{ADA}\t{ADA_PHONE}\n"));
    assert_eq!(import(&site, &["a.csv"], &["--delimiter", "tab"]).code, 0);
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
