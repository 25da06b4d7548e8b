//! The write-ahead log is emptied after a large import, even if there are readers.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::ADA;
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Service, SetAtEnd, eventually, wal_bytes};

fn large_file(service: &Service, tag: &str) -> String {
    let rows: String = (0..80_000)
        .map(|n| {
            format!(
                "https://www.linkedin.com/in/wal-{tag}-{n:06x},+1415555{:04},w{n}@example.com\n",
                100 + n % 100
            )
        })
        .collect();
    service.site.file(&format!("{tag}.csv"), format!("profileUrl,phone,email\n{rows}"))
}

#[test]
fn while_the_service_is_idle() {
    let (service, token) = Service::with_people();
    // This leaves a reader that has done one lookup and then no more.
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let file = large_file(&service, "idle");
    service.site.ok(&["import", &file, "--source", "large"]);
    eventually("the log is emptied", || wal_bytes(&service.data(), "details.db") == 0);
}

#[test]
fn while_the_service_is_under_load() {
    let (service, token) = Service::with_people();
    let file = large_file(&service, "load");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = service.connect();
                let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
                while !done.load(Ordering::Relaxed) {
                    connection.send(&request);
                    assert_eq!(connection.reply().status, 200);
                }
            });
        }
        let _done = SetAtEnd(&done);
        service.site.ok(&["import", &file, "--source", "large"]);
        eventually("the log is emptied", || wal_bytes(&service.data(), "details.db") == 0);
    });
}
