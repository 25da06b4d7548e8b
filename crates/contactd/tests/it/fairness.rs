//! No client and no token can keep others out.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::audit::Faulty;
use crate::batch::{batch, item};
use crate::fixture::{ADA, NOBODY};
use crate::http::{Connection, Reply, Request, profile_body};
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

/// How many lookups were answered, and how many refused because there were too many.
#[derive(Default)]
struct Answers {
    answered: AtomicU64,
    refused: AtomicU64,
}

impl Answers {
    /// Adds the answer to a request with this many lookups.
    fn add(&self, reply: &Reply, lookups: usize) {
        let count = |status: u16| match reply.status {
            200 => reply.body.matches(&format!("{{\"status\":{status},")).count(),
            whole => {
                if whole == status {
                    lookups
                } else {
                    0
                }
            }
        };
        let (answered, refused) = (count(404), count(503));
        assert_eq!(answered + refused, lookups, "{reply:?}");
        self.answered.fetch_add(answered as u64, Ordering::Relaxed);
        self.refused.fetch_add(refused as u64, Ordering::Relaxed);
    }

    fn both(&self) -> (u64, u64) {
        (self.answered.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed))
    }
}

/// Sends the same requests again and again, one on each connection, while `goes_on` says so.
fn send_without_pause(
    service: &Service,
    requests: &[Vec<u8>],
    lookups: usize,
    answers: &Answers,
    mut goes_on: impl FnMut() -> bool,
) {
    let mut connections: Vec<Connection> = requests.iter().map(|_| service.connect()).collect();
    connections.iter_mut().zip(requests).for_each(|(connection, request)| connection.send(request));
    while goes_on() {
        for (connection, request) in connections.iter_mut().zip(requests) {
            answers.add(&connection.reply(), lookups);
            connection.send(request);
        }
    }
}

#[test]
fn a_token_that_sends_only_batches_gets_no_more_than_its_share() {
    let site = Site::with_people();
    let (batches, singles) = (site.token(&[]), site.token(&[]));
    let service = site.serve_with(&["--workers", "1"], "[serve]\ntable_bytes = 0\n");
    // Ten thousand lookups at a time are more than may wait, however fast the machine is.
    let of_hundred = |from: usize| {
        let url = |n| format!("https://linkedin.com/in/nobody-dornwett-{:05}", from * 100 + n);
        let lookups: Vec<_> = (0..100).map(|n| item("fetchPhoneNumber", &url(n))).collect();
        batch(&batches, &lookups).bytes()
    };
    let hundreds: Vec<_> = (0..100).map(of_hundred).collect();
    let single = Request::lookup(PHONE, profile_body(NOBODY)).token(&singles).bytes();
    let (stop, of_batches, of_singles) = (AtomicBool::new(false), Answers::default(), Answers::default());
    std::thread::scope(|scope| {
        let stop_at_end = SetAtEnd(&stop);
        scope.spawn(|| {
            send_without_pause(&service, &hundreds, 100, &of_batches, || !stop.load(Ordering::Relaxed));
        });
        let (mut rounds, latest) = (0..100, Instant::now() + Duration::from_secs(30));
        let goes_on = || rounds.next().is_some() || (of_batches.both().1 == 0 && Instant::now() < latest);
        send_without_pause(&service, &vec![single; 64], 1, &of_singles, goes_on);
        drop(stop_at_end);
    });
    let (answered, refused) = of_batches.both();
    let (answered_singles, refused_singles) = of_singles.both();
    let shown =
        format!("{answered} and {refused} in batches, {answered_singles} and {refused_singles} alone");
    assert!(refused > 0, "there was no overload: {shown}");
    assert!(refused_singles < answered_singles / 10, "who takes less than their share is served: {shown}");
    // While this thread has no core, the batches have the worker for themselves, so it may be several times as many. If each batch
    // counted as one lookup, it would be at least a hundred times as many.
    assert!(answered < 20 * answered_singles, "{shown}");
}
