//! However reading ends, it ends: no thread waits for another for ever.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

use contactd_core::{
    Cancel, DigestKey, DigestKeys, DiskBudget, Networks, Observer, Progress, SuppressionList, unobserved,
};
use contactd_import::{FileError, ReadOptions, ReadRows, RowChecks};
use contactd_import::{Files, Input, Rejects};

/// Enough for many batches on every core.
const ROWS: usize = 60_000;

fn csv(row: impl Fn(usize) -> String) -> String {
    std::iter::once("profileUrl,phone\n".to_owned()).chain((0..ROWS).map(row)).collect()
}

fn good(number: usize) -> String {
    format!("https://linkedin.com/in/pipe-quell-{number},+1415555{:04}\n", 100 + number % 100)
}

/// Reads everything, within a minute.
fn read(
    input: Input,
    rejects: Rejects,
    cancel: Cancel,
    observer: Observer<'static>,
) -> Result<ReadRows, FileError> {
    let (done, when_done) = channel();
    std::thread::spawn(move || {
        let dir = tempfile::tempdir().expect("a directory");
        let options = ReadOptions { source: Some("crm".to_owned()), ..ReadOptions::default() };
        let mut files =
            Files::new(vec![input], None, options, DiskBudget::new(dir.path().to_owned()), rejects);
        let networks = Networks::built_in();
        let suppressions =
            SuppressionList::new(DigestKeys::new(vec![DigestKey::new(&[1; 32])]).expect("a key"));
        let checks = RowChecks { networks: &networks, suppressions: &suppressions, sort_key: &|_| 0 };
        let _ = done.send(files.read(&checks, observer, &cancel));
    });
    when_done.recv_timeout(Duration::from_secs(60)).expect("it ends")
}

fn file(dir: &tempfile::TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).expect("writes");
    path
}

#[test]
fn everything_is_read() {
    let text: &'static str = csv(good).leak();
    let read = read(Input::Csv("test", text.into()), Rejects::nowhere(), Cancel::default(), &unobserved)
        .expect("reads");
    assert_eq!((read.rows, read.records, read.rejected), (ROWS as u64, ROWS as u64, 0));
}

#[test]
fn reading_that_is_cancelled_ends_although_rows_are_left() {
    static CANCEL: std::sync::LazyLock<Cancel> = std::sync::LazyLock::new(Cancel::default);
    let text: &'static str = csv(good).leak();
    let cancel_soon = |step| {
        if matches!(step, Progress::Reading { rows: 1_000.., .. }) {
            CANCEL.cancel();
        }
    };
    let observer: Observer<'static> = Box::leak(Box::new(cancel_soon));
    let ended = read(Input::Csv("test", text.into()), Rejects::nowhere(), CANCEL.clone(), observer);
    assert_eq!(ended.expect_err("stopped").to_string(), "stopped; nothing was changed");
}

#[test]
fn rejects_that_cannot_be_written_end_it() {
    let text: &'static str =
        csv(|number| format!("not a profile,+1415555{:04}\n", 100 + number % 100)).leak();
    let rejects = Rejects::to(Some(PathBuf::from("/dev/full")), &[], Vec::new()).expect("a device");
    let ended = read(Input::Csv("test", text.into()), rejects, Cancel::default(), &unobserved);
    let error = ended.expect_err("the disk is full").to_string();
    assert!(error.contains("/dev/full"), "{error}");
}

#[test]
fn a_compressed_file_that_is_cut_off_ends_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(csv(good).as_bytes()).expect("packs");
    let packed = gzip.finish().expect("packs");
    let path = file(&dir, "people.csv.gz", &packed[..packed.len() * 2 / 3]);
    let ended = read(Input::File(path), Rejects::nowhere(), Cancel::default(), &unobserved);
    let error = ended.expect_err("cut off").to_string();
    assert!(error.contains("people.csv.gz"), "{error}");
}

#[test]
fn an_error_ends_it_although_the_pipe_stays_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there");
    assert!(made.success());
    let feeding = pipe.clone();
    let (stop, stopped) = channel::<()>();
    std::thread::spawn(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(feeding).expect("opens");
        let bad: String =
            (0..1_010).map(|number| format!("not a profile,+1415555{:04}\n", 100 + number % 100)).collect();
        pipe.write_all(format!("profileUrl,phone\n{bad}").as_bytes()).expect("writes");
        // Nothing more comes, and it is not closed.
        let _ = stopped.recv();
    });
    let rejects = Rejects::to(Some(PathBuf::from("/dev/full")), &[], Vec::new()).expect("a device");
    let ended = read(Input::File(pipe), rejects, Cancel::default(), &unobserved);
    assert!(ended.expect_err("the disk is full").to_string().contains("/dev/full"));
    drop(stop);
}
