//! Limits per client address. All addresses of 127.0.0.0/8 belong to this machine, so that there are many clients.

use std::net::Ipv4Addr;
use std::sync::Barrier;

use crate::audit::segments;
use crate::fixture::{ADA, EVE, NOBODY, OLD, UNA};
use crate::http::{Connection, Reply, Request, profile_body};
use crate::running::reload;
use crate::service::{EMAIL, PHONE, Service, Site, eventually};

/// The address that requests come from unless a test says otherwise.
const USUAL: u8 = 1;

fn connect(service: &Service, client: u8) -> Connection {
    Connection::open_from(Ipv4Addr::new(127, 0, 0, client), service.public)
}

fn send(service: &Service, client: u8, request: &Request) -> Reply {
    let mut connection = connect(service, client);
    connection.ask(request)
}

fn lookup(token: &str, url: &str) -> Request {
    Request::lookup(PHONE, profile_body(url)).token(token)
}

/// A request without a valid token.
fn guess() -> Request {
    lookup("ctd_guessed", ADA)
}

/// How often each limit has refused something: connections, failed authorizations, misses.
fn refusals(service: &Service) -> [u64; 3] {
    ["connections", "failed_authorizations", "misses"].map(|limit| {
        service.metric(&format!("contactd_client_refusals_total{{limit=\"{limit}\"}}")).expect(limit)
    })
}

/// Fails unless it is a 429 that says when the next is allowed, at most after `seconds`.
fn assert_limited(reply: &Reply, seconds: u64) {
    let retry: u64 = reply.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=seconds).contains(&retry), "{retry}");
    let retry = format!("retry-after: {retry}\n");
    assert_eq!(
        reply.shown().replace(&retry, ""),
        "429\ncache-control: no-store\ncontent-length: 93\ncontent-type: application/json\n\n\
         {\"status\":\"rate_limited\",\"message\":\"Too many requests; retry after the time in Retry-After.\"}"
    );
}

#[test]
fn nothing_is_limited_unless_it_is_configured() {
    let (service, token) = Service::with_people();
    let _open: Vec<Connection> = (0..20).map(|_| connect(&service, USUAL)).collect();
    let mut connection = connect(&service, USUAL);
    for _ in 0..50 {
        for (status, request) in [(401, guess()), (404, lookup(&token, NOBODY)), (200, lookup(&token, ADA))] {
            assert_eq!(connection.ask(&request).status, status);
        }
    }
    assert_eq!(refusals(&service), [0, 0, 0]);
}

#[test]
fn connections_over_the_limit_of_an_address_are_answered_503_and_closed() {
    let service = Site::empty().serve_with(&[], "[clients]\nconnections = 2\n");
    let ask = |connection: &mut Connection| connection.ask(&Request::get("/healthz")).status;
    let mut open = [connect(&service, 2), connect(&service, 2)];
    assert_eq!(open.each_mut().map(ask), [200, 200]);
    let mut silent = connect(&service, 2);
    assert_eq!(
        silent.reply().shown(),
        "503\ncache-control: no-store\nconnection: close\ncontent-length: 123\ncontent-type: application/json\n\
         retry-after: 1\n\n\
         {\"status\":\"service_unavailable\",\"message\":\"The service cannot take this request now; retry after the time in Retry-After.\"}"
    );
    assert!(silent.is_closed());
    let mut asking = connect(&service, 2);
    assert_eq!(ask(&mut asking), 503, "who sends a request can read the answer");
    assert!(asking.is_closed());
    let mut other = connect(&service, 3);
    assert_eq!((ask(&mut other), open.each_mut().map(ask)), (200, [200, 200]));
    assert_eq!(refusals(&service), [2, 0, 0]);
    drop(open);
    eventually("there is room again", || ask(&mut connect(&service, 2)) == 200);
}

#[test]
fn proxies_may_have_any_number_of_connections() {
    let config = "[clients]\nconnections = 1\nproxies = [\"127.0.0.1\"]\nproxy_header = \"forwarded\"\n";
    let service = Site::empty().serve_with(&[], config);
    let mut open: Vec<Connection> = (0..5).map(|_| connect(&service, 1)).collect();
    for connection in &mut open {
        assert_eq!(
            connection.ask(&Request::get("/healthz").header("Forwarded", "for=192.0.2.1")).status,
            200
        );
    }
    let mut clients = [connect(&service, 2), connect(&service, 2)];
    clients[0].send(Request::get("/healthz").bytes());
    assert_eq!((clients[0].reply().status, clients[1].reply().status), (200, 503));
}

#[test]
fn failed_authorizations_over_the_rate_are_429_and_a_valid_token_is_never_refused() {
    let site = Site::with_people();
    let (token, phone_only) = (site.token(&[]), site.token(&["--scope", "phone"]));
    let gone = site.ok(&["token", "create", "gone"]);
    let service = site.serve_with(&[], "[clients]\nfailed_authorizations = \"4/h\"\n");
    service.site.ok(&["token", "revoke", "gone"]);
    let body = profile_body(ADA);
    let wrong = [
        Request::lookup(PHONE, &body),
        Request::lookup(EMAIL, &body).header("Authorization", "Basic abc"),
        guess(),
        lookup(&gone, ADA),
    ];
    let without_scope = Request::lookup(EMAIL, &body).token(&phone_only);
    for request in &wrong {
        assert_eq!(send(&service, 2, &without_scope).status, 401, "its token is valid: it takes nothing");
        assert_eq!(send(&service, 2, request).status, 401);
    }
    for request in &wrong {
        assert_limited(&send(&service, 2, request), 900);
        assert_eq!(send(&service, 2, &lookup(&token, ADA)).status, 200, "a valid token is served as ever");
        let refused = send(&service, 2, &without_scope);
        assert_eq!((refused.status, refused.code().as_str()), (401, "no_authorization_found"));
    }
    let too_large = Request::lookup(PHONE, "x".repeat(20_000));
    assert_eq!(send(&service, 2, &too_large).status, 413, "the checks before the token come first");
    assert_eq!(send(&service, 2, &Request::get("/healthz")).status, 200);
    assert_eq!(send(&service, 3, &guess()).status, 401, "another address");
    assert_eq!(refusals(&service), [0, 4, 0]);
}

#[test]
fn misses_over_the_rate_are_429_and_tell_nobody_who_is_on_file() {
    let site = Site::with_people();
    site.ok(&["suppress", ADA]);
    let (token, other) = (site.token(&[]), site.token(&[]));
    let service = site.serve_with(&[], "[clients]\nmisses = \"4/h\"\n");
    let email = |url: &str| Request::lookup(EMAIL, profile_body(url)).token(&token);
    for _ in 0..10 {
        assert_eq!(send(&service, 2, &email(EVE)).status, 200, "a hit takes nothing");
    }
    assert_eq!(send(&service, 2, &email("x")).status, 400, "an invalid request takes nothing");
    // Suppressed, nothing on file, only work details, expired.
    for url in [ADA, EVE, UNA, OLD] {
        assert_eq!(send(&service, 2, &lookup(&token, url)).status, 404, "{url}");
    }
    let wrong_type = email(EVE).header("Content-Type", "text/plain");
    for request in
        [email(EVE), lookup(&token, ADA), lookup(&token, EVE), lookup(&other, NOBODY), email("x"), wrong_type]
    {
        assert_limited(&send(&service, 2, &request), 900);
    }
    assert_eq!(send(&service, 2, &guess()).status, 401, "the token is checked first");
    assert_eq!((send(&service, 3, &email(EVE)).status, refusals(&service)), (200, [0, 0, 6]));
    let refused = service.site.ok(&["audit", "show", "--outcome", "refused", "--json"]);
    let recorded = refused.matches("\"reason\":\"rate_limited\"").count();
    assert!(recorded >= 5, "five of a token in a second have a line of their own: {refused}");
}

#[test]
fn many_lookups_at_once_do_not_exceed_the_rate_of_misses() {
    let (service, token) = Service::with(&[], "[clients]\nmisses = \"5/h\"\n");
    let together = Barrier::new(20);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| {
                    let mut connection = connect(&service, 2);
                    together.wait();
                    connection.ask(&lookup(&token, NOBODY)).status
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).collect()
    });
    let count = |status: u16| statuses.iter().filter(|found| **found == status).count();
    assert_eq!((count(404), count(429)), (5, 15));
}

#[test]
fn without_proxies_nobody_gets_another_address_by_a_header() {
    let service = Site::empty().serve_with(&[], "[clients]\nfailed_authorizations = \"2/h\"\n");
    for (number, status) in [(1, 401), (2, 401), (3, 429), (4, 429)] {
        let claimed = format!("192.0.2.{number}");
        let request =
            guess().header("X-Forwarded-For", &claimed).header("Forwarded", &format!("for={claimed}"));
        assert_eq!(send(&service, 2, &request).status, status);
    }
}

#[test]
fn behind_a_proxy_the_client_that_it_names_counts() {
    let config = "[clients]\nfailed_authorizations = \"2/h\"\nproxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
                  proxy_header = \"x-forwarded-for\"\n";
    let service = Site::empty().serve_with(&[], config);
    let mut proxy = connect(&service, 1);
    let mut ask = |lines: &[(&str, &str)]| {
        let request = lines.iter().fold(guess(), |request, (name, value)| request.header(name, value));
        proxy.ask(&request).status
    };
    const FOR: &str = "X-Forwarded-For";
    // All on one connection of the proxy. What a client claimed comes before what the proxies added.
    assert_eq!(ask(&[(FOR, "192.0.2.1")]), 401);
    assert_eq!(ask(&[(FOR, "192.0.2.9, 192.0.2.1, 10.0.0.2")]), 401);
    assert_eq!(ask(&[(FOR, "192.0.2.8"), (FOR, "192.0.2.1:4711")]), 429);
    assert_eq!(ask(&[(FOR, "192.0.2.1"), ("Forwarded", "for=192.0.2.7")]), 429, "only one header counts");
    assert_eq!(ask(&[(FOR, "192.0.2.2")]), 401, "another client");
    for (address, status) in [("2001:db8:1:2::3", 401), ("2001:db8:1:2::4", 401), ("2001:db8:1:2:5::", 429)] {
        assert_eq!(ask(&[(FOR, address)]), status, "one network of 64 bits");
    }
    assert_eq!(ask(&[(FOR, "2001:db8:1:3::3")]), 401);
    for status in [401, 401, 429] {
        assert_eq!(ask(&[("Forwarded", "for=192.0.2.6")]), status, "it counts for the proxy itself");
    }
    // Somebody who is not a proxy claims to be another client.
    for status in [401, 401, 429] {
        assert_eq!(send(&service, 2, &guess().header(FOR, "192.0.2.5")).status, status);
    }
    assert_eq!(ask(&[(FOR, "192.0.2.5")]), 401, "and has used nothing of theirs");
}

#[test]
fn the_standard_header_is_read_with_quotes_brackets_and_ports() {
    let config = "[clients]\nmisses = \"1/h\"\nproxies = [\"127.0.0.1\"]\nproxy_header = \"Forwarded\"\n";
    let (service, token) = Service::with(&[], config);
    let status = |forwarded: &str| {
        let request = lookup(&token, NOBODY).header("X-Forwarded-For", "192.0.2.9");
        send(&service, 1, &request.header("Forwarded", forwarded)).status
    };
    assert_eq!(status("for=192.0.2.1;proto=https"), 404);
    assert_eq!(status("for=\"192.0.2.9, for=192.0.2.8, for=\"192.0.2.1:80\";host=\"a, b\""), 429);
    assert_eq!(status("for=\"[2001:db8::1]:4711\""), 404);
    assert_eq!(status("proto=http;For=\"[2001:DB8::2]\""), 429);
    assert_eq!(status("for=192.0.2.2, for=unknown"), 404, "the proxy itself");
    assert_eq!(status("for=192.0.2.3, for=_hidden"), 429, "the proxy itself");
}

#[test]
fn sighup_changes_the_limits_and_a_changed_rate_begins_anew() {
    let service = Site::empty().serve();
    let statuses = |connection: &mut Connection, count: usize| -> Vec<u16> {
        let ask = |_| connection.ask(&guess()).status;
        (0..count).map(ask).collect()
    };
    let mut before = [connect(&service, 2), connect(&service, 2)];
    assert_eq!(before.each_mut().map(|connection| statuses(connection, 2)), [[401, 401], [401, 401]]);
    let limits = "[clients]\nfailed_authorizations = \"1/h\"\nconnections = 1\n";
    assert_eq!(
        reload(&service, limits, 1),
        ["INFO reloaded: clients.connections, clients.failed_authorizations"]
    );
    assert_eq!(before.each_mut().map(|connection| statuses(connection, 1)), [[401], [429]]);
    let mut first = connect(&service, 2);
    assert_eq!(statuses(&mut first, 1), [429], "those that were open before are not counted");
    assert_eq!(connect(&service, 2).reply().status, 503);
    assert_eq!(
        reload(&service, &limits.replace("1/h", "2/h"), 1),
        ["INFO reloaded: clients.failed_authorizations"]
    );
    assert_eq!(statuses(&mut first, 3), [401, 401, 429], "a changed rate begins anew");
    let more = limits.replace("1/h", "2/h") + "misses = \"5/m\"\n";
    assert_eq!(reload(&service, &more, 1), ["INFO reloaded: clients.misses"]);
    let proxies = "[clients]\nproxies = [\"127.0.0.4\"]\nproxy_header = \"x-forwarded-for\"\n";
    assert_eq!(
        reload(&service, proxies, 1),
        [
            "INFO reloaded: clients.connections, clients.failed_authorizations, clients.misses, clients.proxies, clients.proxy_header"
        ]
    );
    assert_eq!(statuses(&mut connect(&service, 2), 5), [401; 5]);
    assert_eq!(reload(&service, "", 1), ["INFO reloaded: clients.proxies, clients.proxy_header"]);
}

#[test]
fn no_client_address_is_in_a_log_a_metric_or_the_journal() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let config = "[clients]\nconnections = 1\nfailed_authorizations = \"1/h\"\nmisses = \"1/h\"\n\
                  proxies = [\"127.0.0.1\"]\nproxy_header = \"x-forwarded-for\"\n";
    let service = site.serve_with(&[], config);
    for request in [guess(), lookup(&token, NOBODY), lookup(&token, ADA)] {
        for _ in 0..2 {
            send(&service, 1, &request.clone().header("X-Forwarded-For", "192.0.2.77"));
        }
    }
    let mut direct = [connect(&service, 77), connect(&service, 77)];
    direct[0].send(guess().bytes());
    assert_eq!((direct[0].reply().status, direct[1].reply().status), (401, 503));
    assert_eq!(refusals(&service), [1, 1, 3]);
    let shown = service.site.ok(&["audit", "show", "--json"]);
    assert!(shown.contains("rate_limited"), "{shown}");
    let files = segments(&service.data());
    let journal: String = files.iter().map(|file| std::fs::read_to_string(file).expect("reads")).collect();
    for text in [service.log.text(), service.metrics(), shown, journal] {
        assert!(!text.contains("192.0.2.77") && !text.contains("127.0.0.77"), "{text}");
    }
}

#[test]
fn errors_in_the_section_are_reported_with_their_lines() {
    let site = Site::empty();
    crate::transcript::check(&site, "clients");
    let service = site.serve_with(&[], "");
    let refused = reload(&service, "[clients]\nproxies = [\"10.0.0.7\"]\n", 1);
    let words = format!(
        "ERROR cannot reload, nothing has changed: {}, line 2: clients.proxies: also set",
        service.site.place("serve.toml")
    );
    assert!(refused[0].starts_with(&words), "{refused:?}");
}
