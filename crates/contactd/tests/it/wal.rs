//! The write-ahead log is emptied after a large import, even if there are readers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::fixture::{ADA, many};
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Service, SetAtEnd, eventually, wal_bytes};

#[test]
fn while_the_service_is_idle() {
    let (service, token) = Service::with_people();
    // This leaves a reader that has done one lookup and then no more.
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let file = service.site.file("large.csv", many("wal-quell", 20_000));
    service.site.ok(&["import", &file, "--source", "large"]);
    eventually("the log is emptied", || wal_bytes(&service.data(), "details.db") == 0);
}

#[test]
fn while_the_service_is_under_load() {
    let (service, token) = Service::with_people();
    let file = service.site.file("large.csv", many("wal-quell", 20_000));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = service.connect();
                let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
                while !done.load(Ordering::Relaxed) {
                    connection.send(&request);
                    assert_eq!(connection.reply().status, 200);
                    // The import gets a share of a small machine too.
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let _done = SetAtEnd(&done);
        service.site.ok(&["import", &file, "--source", "large"]);
        eventually("the log is emptied", || wal_bytes(&service.data(), "details.db") == 0);
    });
}
