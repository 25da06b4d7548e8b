//! No client and no token can keep others out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::audit::Faulty;
use crate::fixture::ADA;
use crate::http::{Connection, Request, profile_body};
use crate::service::{PHONE, Service, SetAtEnd, Site, eventually};

/// A lookup whose body has begun and does not go on.
fn half_a_lookup(token: &str) -> String {
    format!(
        "POST {PHONE} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nContent-Length: 99\r\n\r\n{{"
    )
}

fn open(service: &Service, count: usize, bytes: &str) -> Vec<Connection> {
    let opened = (0..count).map(|_| {
        let mut connection = service.connect();
        connection.send(bytes);
        connection
    });
    opened.collect()
}

#[test]
fn a_new_client_takes_the_slot_of_the_connection_that_has_been_idle_longest() {
    let service = Site::empty().serve_with(&[], "[limits]\nconnections = 3\n");
    let ask = |connection: &mut Connection| {
        connection.send(Request::get("/healthz").bytes());
        connection.try_reply().map(|reply| reply.status)
    };
    let mut connections: Vec<Connection> = (0..3).map(|_| service.connect()).collect();
    for at in [0, 1, 2, 0, 2] {
        // Longer than a tick of the service's clock.
        std::thread::sleep(std::time::Duration::from_millis(150));
        assert_eq!(ask(&mut connections[at]), Some(200));
    }
    let mut new = service.connect();
    assert_eq!(ask(&mut new), Some(200));
    assert!(connections[1].is_closed());
    assert_eq!(ask(&mut connections[0]), Some(200));
    assert!(service.metrics().contains("\ncontactd_connections_gave_way_total "));
}

#[test]
fn clients_that_send_nothing_or_half_a_request_do_not_keep_a_new_client_out() {
    let (service, token) = Service::with(&[], "[limits]\nconnections = 30\n");
    for bytes in ["", "POST /api/fetch", &half_a_lookup(&token)] {
        let slow = open(&service, 30, bytes);
        for _ in 0..3 {
            assert_eq!(service.look_up(PHONE, &token, ADA).status, 200, "after {bytes:?}");
        }
        drop(slow);
    }
}

#[test]
fn bodies_that_do_not_come_take_no_place_from_other_lookups() {
    let site = Site::with_people();
    let (slow, token) = (site.token(&[]), site.token(&[]));
    let service = site.serve_with(&[], "[limits]\nin_flight = 2\n");
    let _waiting = open(&service, 50, &half_a_lookup(&slow));
    for _ in 0..20 {
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
        assert_eq!(service.look_up(PHONE, &slow, ADA).status, 200);
    }
}

#[test]
fn lookups_over_the_limit_are_refused_early_with_a_time_to_retry_and_others_have_their_share() {
    let faulty = Faulty::start_with("os", "[limits]\nin_flight = 4\n");
    let (service, token) = (&faulty.service, &faulty.token);
    let other = service.site.token(&[]);
    faulty.fail("hang");
    let lookup = |token: &str| Request::lookup(PHONE, profile_body(ADA)).token(token);
    let mut waiting = Vec::new();
    for (token, places) in [(token, 2), (&other, 3)] {
        let mut connection = service.connect();
        connection.send(lookup(token).bytes());
        waiting.push(connection);
        if places == 2 {
            let mut second = service.connect();
            second.send(lookup(token).bytes());
            waiting.push(second);
        }
        eventually("they wait for the journal", || {
            service.metrics().contains(&format!("\ncontactd_requests_in_flight {places}\n"))
        });
        let reply = service.send(&lookup(&faulty.token));
        assert_eq!(
            (reply.status, reply.code().as_str(), reply.header("retry-after")),
            (503, "service_unavailable", Some("1")),
            "one token has no more than half of the places"
        );
    }
    faulty.fail("ok");
    for connection in &mut waiting {
        assert_eq!(connection.reply().status, 200);
    }
    eventually("there is room again", || service.look_up(PHONE, token, ADA).status == 200);
}

#[test]
fn a_token_that_floods_the_service_does_not_fail_the_lookups_of_another_one() {
    let site = Site::with_people();
    let (flooding, token) = (site.token(&[]), site.token(&[]));
    let service = site.serve();
    let (stop, flooded) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _stop = SetAtEnd(&stop);
        for _ in 0..8 {
            scope.spawn(|| {
                let mut connections: Vec<Connection> = (0..8).map(|_| service.connect()).collect();
                let request = Request::lookup(PHONE, profile_body(ADA)).token(&flooding).bytes();
                while !stop.load(Ordering::Relaxed) {
                    for connection in &mut connections {
                        connection.send(&request);
                    }
                    for connection in &mut connections {
                        let status = connection.reply().status;
                        assert!(status == 200 || status == 503, "{status}");
                        flooded.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut connection = service.connect();
        for _ in 0..500 {
            assert_eq!(connection.ask(&Request::lookup(PHONE, profile_body(ADA)).token(&token)).status, 200);
        }
    });
    assert!(flooded.load(Ordering::Relaxed) > 1_000);
}
