//! A small file system that every large file would fill: some of it stays free, so that lookups and opt-outs go on.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::admin_api::AdminApi;
use crate::console_imports::{upload, upload_request};
use crate::fixture::{ADA, EVE, MIRA, many};
use crate::service::{PHONE, Service, Site, could_not_run};

/// A file system of this size in memory, with the data directory of a site. It goes with this.
struct SmallDisk(String);

impl SmallDisk {
    /// `None` where mounting is not allowed, as in most containers.
    fn of(site: &Site, mebibytes: u64, test: &str) -> Option<Self> {
        let data = site.data().display().to_string();
        std::fs::create_dir_all(&data).expect("makes");
        let size = format!("size={mebibytes}m,mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none", &data]).output().expect("runs");
        if !mounted.status.success() {
            could_not_run(&format!("small_disk::{test}"), "it may not mount");
            return None;
        }
        Some(Self(data))
    }

    /// How many bytes are free.
    fn free(&self) -> u64 {
        let disk = rustix::fs::statvfs(Path::new(&self.0)).expect("a file system");
        disk.f_bavail * disk.f_frsize
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: what was served from it may not have ended.
        let unmounted = Command::new("umount").args(["-l", &self.0]).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Lookups are answered, and an opt-out is in force.
fn goes_on(service: &Service, token: &str, opted_out: &str) {
    assert_eq!(service.look_up(PHONE, token, ADA).status, 200);
    service.site.ok(&["suppress", opted_out]);
    assert_eq!(service.look_up(PHONE, token, opted_out).status, 404);
}

/// Rows of a mebibyte each that are all rejected, compressed to almost nothing.
fn bomb(rows: usize) -> Vec<u8> {
    let row = format!("nobody,{}\n", "x".repeat(1 << 20));
    zstd::encode_all(format!("profileUrl,phone\n{}", row.repeat(rows)).as_bytes(), 1).expect("packs")
}

const FULL: &str =
    "There is not enough room for this file on the disk of the server. Ask the operator to make room.";

#[test]
fn rejected_rows_and_uploads_side_by_side_leave_room_for_lookups_and_opt_outs() {
    let test = "rejected_rows_and_uploads_side_by_side_leave_room_for_lookups_and_opt_outs";
    let site = Site::embedded();
    let Some(disk) = SmallDisk::of(&site, 48, test) else { return };
    site.import_people();
    let token = site.token(&[]);
    let service = site.serve();
    let operator = AdminApi::with_role(&service, "operator");
    let left = 12 << 20;

    let packed = bomb(60);
    assert!(packed.len() < 62_000);
    let sent = upload(&operator, "bomb.csv.zst", &packed);
    let import = json!({ "upload": sent["id"], "source": "fair", "maxRejects": "100%" });
    let free = disk.free();
    for dry_run in [true, false] {
        let mut import = import.clone();
        import["dryRun"] = json!(dry_run);
        let job = operator.job("/imports", &import);
        assert_eq!((&job["code"], &job["message"]), (&json!("insufficient_storage"), &json!(FULL)), "{job}");
        assert_eq!(job["hasRejects"], false);
        assert!(disk.free() + (2 << 20) > free, "what was written is removed");
    }
    goes_on(&service, &token, EVE);
    // Three rejected rows are enough to know that nothing will be loaded.
    let stopped =
        operator.job("/imports", &json!({ "upload": sent["id"], "source": "fair", "maxRejects": "3" }));
    assert_eq!(
        (&stopped["code"], &stopped["result"]["readingStopped"]),
        (&json!("too_many_rejects"), &json!(true))
    );
    let words = stopped["message"].as_str().expect("a message");
    assert!(words.contains("more than 3 allows. The rest was not read. Correct them"), "{words}");

    let part = vec![b'x'; 4 << 20];
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let send = || {
            operator
                .send(upload_request("large.csv", [b"profileUrl,phone\n".as_slice(), &part].concat()))
                .status
        };
        let sending: Vec<_> = (0..15).map(|_| scope.spawn(send)).collect();
        let looking = scope.spawn(|| (0..50).all(|_| service.look_up(PHONE, &token, ADA).status == 200));
        assert!(looking.join().expect("looks up"));
        sending.into_iter().map(|thread| thread.join().expect("sends")).collect()
    });
    assert!(
        statuses.contains(&507) && disk.free() >= left - (1 << 20),
        "{statuses:?}, free: {}",
        disk.free()
    );
    goes_on(&service, &token, MIRA);
    let refused = operator.send(upload_request("more.csv", vec![b'x'; 30 << 20]));
    refused.refuses(507, "insufficient_storage", FULL);
    let fault = service.log.text();
    assert!(!fault.contains("cannot record usage"), "{fault}");
}

#[test]
fn rejected_rows_beyond_100_mib_are_counted_and_not_kept() {
    let site = Site::embedded();
    let file = site.path("bomb.csv.zst");
    std::fs::write(&file, bomb(105)).expect("writes");
    let rejects = site.place("rejects.csv");
    let import = site.run(&[
        "import",
        "bomb.csv.zst",
        "--source",
        "fair",
        "--max-rejects",
        "100%",
        "--rejects",
        &rejects,
        "--json",
    ]);
    import.mentions(0, "rows left out of the file of rejected rows, which has 100 MiB");
    let report = import.json();
    let (rejected, not_kept) = (report["rejected"].as_u64(), report["rejectsNotKept"].as_u64());
    assert_eq!((rejected, not_kept), (Some(105), Some(5)), "{report}");
    let kept = std::fs::metadata(&rejects).expect("a file").len();
    assert!((100 << 20..102 << 20).contains(&kept), "{kept}");
}

#[test]
fn an_import_by_command_that_does_not_fit_changes_nothing_and_leaves_room() {
    let test = "an_import_by_command_that_does_not_fit_changes_nothing_and_leaves_room";
    let site = Site::embedded();
    let Some(disk) = SmallDisk::of(&site, 24, test) else { return };
    site.import_people();
    let token = site.token(&[]);
    // Otherwise the server removes what has expired when a minute has passed.
    site.ok(&["sweep"]);
    let before = site.run(&["export"]).stdout;
    site.file("large.csv", many("large-quell", 50_000));
    let service = site.serve();
    let refused = service.site.run(&["import", "large.csv", "--source", "large"]);
    refused.mentions(1, "cannot load the rows: 6 MiB of the disk stay free for the journal and for opt-outs");
    assert!(disk.free() >= 5 << 20, "{}", disk.free());
    goes_on(&service, &token, EVE);
    assert_eq!(service.site.run(&["export"]).stdout, before);
}
