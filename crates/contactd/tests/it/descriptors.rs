//! A low limit of open files: the service keeps back what it needs, and connections get the rest.

use rustix::process::Signal;

use crate::fixture::ADA;
use crate::http::{Connection, Request, profile_body};
use crate::service::{EMAIL, PHONE, Service, Site, eventually};

const LOW: &str = "ulimit -n 64";

fn limit(service: &Service) -> u64 {
    service.metric("contactd_connections_limit").expect("the metric")
}

#[test]
fn with_64_open_files_everything_works_while_more_clients_connect_than_fit() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve_after(
        LOW,
        &["--workers", "2"],
        "[limits]\nhead_timeout = \"1s\"\nidle_timeout = \"1s\"\n",
    );
    let fit = limit(&service);
    assert!((1..=8).contains(&fit), "{fit}");
    service.has_logged("allows fewer connections than limits.connections (10000); more wait to be accepted");
    // Many more connect than fit, say nothing and stay as long as they may.
    let _silent: Vec<Connection> = (0..20).map(|_| service.connect()).collect();
    let admin: Vec<Connection> = (0..20).map(|_| Connection::open(service.admin)).collect();
    let control: Vec<_> = (0..20)
        .map(|_| {
            std::os::unix::net::UnixStream::connect(service.data().join("control.sock")).expect("connects")
        })
        .collect();
    drop(control);
    service.site.import("hr", crate::fixture::PEOPLE);
    service.site.ok(&["backup", "copy.tar.zst"]);
    service.site.ok(&["token", "create", "another"]);
    service.site.ok(&["audit", "verify"]);
    drop(admin);
    assert!(service.metrics().contains("contactd_audit_up 1\n"));
    for path in [PHONE, EMAIL, PHONE, EMAIL] {
        assert_eq!(service.look_up(path, &token, ADA).status, 200);
    }
    let text = service.log.text();
    assert!(!text.contains("cannot accept") && !text.contains("ERROR"), "{text}");
}

#[test]
fn the_limit_is_shared_out_again_at_sighup() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve_after(
        "ulimit -S -n 62\nulimit -H -n 64",
        &["--workers", "2"],
        "[limits]\nconnections = 3\n",
    );
    assert_eq!(limit(&service), 3, "the soft limit is raised as far as needed");
    service.site.file("serve.toml", "[limits]\nconnections = 2\n");
    service.signal(Signal::HUP);
    eventually("the new limit is in force", || limit(&service) == 2);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
}

#[test]
fn a_limit_too_low_for_one_connection_is_refused_with_the_number_that_is_needed() {
    let site = Site::with_people();
    let mut command = site.command_after("ulimit -n 40");
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "2"]);
    let output = command.output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    let needed =
        text.split("needs at least ").nth(1).and_then(|rest| rest.split(';').next()).expect("a number");
    assert!(
        text.contains("the open-files limit is 40, and this server needs at least ")
            && text.contains(
                "; raise it (`ulimit -n`, or LimitNOFILE= in a systemd unit), or use fewer --workers"
            ),
        "{text}"
    );
    // With exactly that many, it serves.
    let token = site.token(&[]);
    let service = site.serve_after(&format!("ulimit -n {needed}"), &["--workers", "2"], "");
    assert_eq!(limit(&service), 1);
    let request = Request::lookup(PHONE, profile_body(ADA)).token(&token);
    assert_eq!(service.send(&request).status, 200);
    service.site.ok(&["token", "create", "another"]);
}
