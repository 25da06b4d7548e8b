//! Stopping gracefully, and being killed.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::fixture::ADA;
use crate::http::{Request, head, profile_body};
use crate::service::{PHONE, Service};

#[test]
fn a_started_request_is_answered_and_the_service_is_not_ready_meanwhile() {
    let (mut service, token) = Service::with_people();
    let body = profile_body(ADA);
    let mut slow = service.connect();
    slow.send(head(&token, &format!("Content-Length: {}\r\n\r\n", body.len())));
    let mut open = service.connect();
    assert_eq!(open.ask(&Request::get("/readyz")).status, 200);
    service.signal(Signal::TERM);
    crate::service::eventually("it is stopping", || service.log.text().contains("is stopping"));
    std::thread::sleep(Duration::from_millis(50));
    let reply = open.ask(&Request::get("/readyz"));
    assert_eq!((reply.status, reply.code().as_str()), (503, "service_unavailable"));
    assert_eq!(reply.header("connection"), Some("close"));
    std::thread::sleep(Duration::from_millis(300));
    slow.send(&body);
    let reply = slow.reply();
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert_eq!(service.wait(), 0);
}

#[test]
fn a_connection_without_a_request_has_a_second_to_send_one() {
    let (mut service, token) = Service::with_people();
    let mut late = service.connect();
    let mut silent = service.connect();
    std::thread::sleep(Duration::from_millis(200));
    service.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(500));
    let reply = late.ask(&Request::lookup(PHONE, profile_body(ADA)).token(&token));
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    let started = Instant::now();
    assert!(silent.is_closed());
    assert!(started.elapsed() < Duration::from_secs(3));
    assert_eq!(service.wait(), 0);
}

#[test]
fn every_connection_that_waits_to_be_accepted_is_served() {
    for _ in 0..5 {
        let (mut service, token) = Service::with_people();
        let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).bytes();
        // The server is paused while they connect and send: the kernel queues them.
        service.signal(Signal::STOP);
        let mut waiting: Vec<_> = (0..50).map(|_| service.connect()).collect();
        for connection in &mut waiting {
            connection.send(&request);
        }
        service.signal(Signal::TERM);
        service.signal(Signal::CONT);
        for mut connection in waiting {
            assert_eq!(connection.reply().status, 200);
        }
        assert_eq!(service.wait(), 0);
    }
}

#[test]
fn a_request_that_never_ends_is_cut_off_at_the_stop_timeout() {
    let (mut service, token) = Service::with(&[], "[limits]\nstop_timeout = \"1s\"\n");
    let mut slow = service.connect();
    slow.send(head(&token, "Content-Length: 9\r\n\r\n"));
    std::thread::sleep(Duration::from_millis(200));
    let started = Instant::now();
    service.signal(Signal::INT);
    assert_eq!(service.wait(), 0);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn the_files_of_a_killed_server_do_not_prevent_the_next_start() {
    let (service, token) = Service::with_people();
    let site = service.kill();
    assert!(site.data().join("control.sock").exists(), "the socket was left behind");
    let another = site.token(&[]);
    let service = site.serve();
    for token in [token, another] {
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    }
}

#[test]
fn two_servers_do_not_share_a_data_directory() {
    let (service, _) = Service::with_people();
    service
        .site
        .run(&["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .mentions(1, "another contactd already serves");
}
