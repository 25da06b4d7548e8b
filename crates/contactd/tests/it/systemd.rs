//! What systemd is told, and sockets that it passes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::fixture::ADA;
use crate::http::{Connection, Request, profile_body};
use crate::service::{KilledAtEnd, Output, PHONE, SetAtEnd, Site, eventually};

/// Receives what a service tells the service manager.
struct Manager(UnixDatagram);

impl Manager {
    fn listen(site: &Site) -> (Self, String) {
        let path = site.path("notify");
        let socket = UnixDatagram::bind(&path).expect("binds");
        socket.set_read_timeout(Some(Duration::from_secs(30))).expect("sets");
        (Self(socket), path.to_str().expect("UTF-8").to_owned())
    }

    /// The next message that is not about the watchdog.
    fn next(&self) -> String {
        loop {
            let message = self.any();
            if message != "WATCHDOG=1" {
                return message;
            }
        }
    }

    fn any(&self) -> String {
        let mut bytes = [0; 1024];
        let length = self.0.recv(&mut bytes).expect("a message");
        String::from_utf8(bytes[..length].to_vec()).expect("UTF-8")
    }
}

fn bind() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("binds")
}

#[test]
fn systemd_is_told_when_it_is_ready_reloads_and_stops() {
    let site = Site::with_people();
    let (manager, address) = Manager::listen(&site);
    let env = [("NOTIFY_SOCKET", address.as_str())];
    let mut service = site.serve_in(&["--base-path", "/contacts"], "", &env);
    let serving = format!("READY=1\nSTATUS=serving http://{}/contacts", service.public);
    assert_eq!(manager.next(), serving);
    service.signal(Signal::HUP);
    let reloading = manager.next();
    let rest = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").expect("a reload");
    let (micros, status) = rest.split_once('\n').expect("a status");
    assert!(micros.parse::<u64>().is_ok_and(|micros| micros > 0), "{micros}");
    assert_eq!(status, "STATUS=reading the configuration again");
    assert_eq!(manager.next(), serving);
    eventually("the log has it", || service.log.text().contains("reloaded: no setting has changed"));
    service.signal(Signal::TERM);
    assert_eq!(manager.next(), "STOPPING=1\nSTATUS=answering the current requests");
    assert_eq!(service.wait(), 0);
}

#[test]
fn signs_of_life_come_twice_in_the_time_that_the_watchdog_allows_and_not_without_being_asked_for() {
    let site = Site::empty();
    let (manager, address) = Manager::listen(&site);
    let env = [("NOTIFY_SOCKET", address.as_str()), ("WATCHDOG_USEC", "400000")];
    let service = site.serve_in(&[], "", &env);
    assert!(manager.any().starts_with("READY=1\n"));
    for _ in 0..5 {
        assert_eq!(manager.any(), "WATCHDOG=1");
    }
    let mut site = service.stop();
    while !manager.any().starts_with("STOPPING=1\n") {}
    // It is meant for another process.
    let env = [("NOTIFY_SOCKET", address.as_str()), ("WATCHDOG_USEC", "1000"), ("WATCHDOG_PID", "1")];
    let service = site.serve_in(&[], "", &env);
    assert!(manager.any().starts_with("READY=1\n"));
    site = service.stop();
    assert!(manager.any().starts_with("STOPPING=1\n"));
    drop(site);
}

#[test]
fn a_worker_that_hangs_gives_no_sign_of_life() {
    let site = Site::empty();
    let (manager, address) = Manager::listen(&site);
    let mut command = site.command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--workers", "1"]);
    command.arg("--access-log").env("NOTIFY_SOCKET", address).env("WATCHDOG_USEC", "400000");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let _child = KilledAtEnd(command.spawn().expect("starts"));
    let ready = manager.any();
    let public: SocketAddr = ready.split("http://").nth(1).expect("an address").parse().expect("an address");
    assert_eq!(manager.any(), "WATCHDOG=1");
    // Nobody reads the log: a worker that writes to it hangs once the pipe is full.
    let is_answered = || {
        let mut stream = TcpStream::connect(public).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(2))).expect("sets");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: test\r\n\r\n").expect("sends");
        stream.read(&mut [0; 16]).is_ok_and(|read| read > 0)
    };
    assert!((0..10_000).any(|_| !is_answered()), "the worker does not hang");
    manager.0.set_read_timeout(Some(Duration::from_secs(2))).expect("sets");
    let is_silent = || manager.0.recv(&mut [0; 1024]).is_err();
    assert!((0..1_000).any(|_| is_silent()), "there are still signs of life");
}

#[test]
fn sockets_that_systemd_passes_are_used_by_name_or_in_order() {
    let mut site = Site::with_people();
    let token = site.token(&[]);
    let (one, other) = (bind(), bind());
    let addresses = [&one, &other].map(|socket| socket.local_addr().expect("bound"));
    for (names, [public, admin]) in [
        ("public:admin", addresses),
        ("admin:public", [addresses[1], addresses[0]]),
        ("contactd.socket:contactd.socket", addresses),
    ] {
        let service = site.serve_on(&one, &other, names, &[]);
        assert_eq!((service.public, service.admin), (public, admin), "{names}");
        assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
        assert!(service.metrics().contains("contactd_audit_up 1"));
        site = service.stop();
    }
}

#[test]
fn what_cannot_be_served_on_is_refused_with_a_clear_error() {
    let site = Site::with_people();
    let refused = |names: &str, stdin: Stdio, stdout: Stdio, words: &str| {
        let mut command = site.command_with_sockets(names);
        let output = command.args(["serve"]).stdin(stdin).stdout(stdout).output().expect("runs");
        let output = Output::from(output);
        output.mentions(if names == "public:admin" { 2 } else { 1 }, words);
        output
    };
    let socket = |socket: TcpListener| Stdio::from(OwnedFd::from(socket));
    refused(
        "public",
        Stdio::null(),
        Stdio::null(),
        "the public socket that systemd passed (file descriptor 3) cannot be used: fd 3 is not a socket",
    );
    let stream = TcpStream::connect(bind().local_addr().expect("bound"));
    let listening = bind();
    let stream =
        stream.or_else(|_| TcpStream::connect(listening.local_addr().expect("bound"))).expect("connects");
    refused(
        "public",
        Stdio::from(OwnedFd::from(stream)),
        Stdio::null(),
        "cannot be used: it does not listen; use ListenStream= in the socket unit",
    );
    refused(
        "public:other",
        socket(bind()),
        socket(bind()),
        "systemd passed 2 sockets, and contactd takes one for callers and one for the admin listener; name them with \
         FileDescriptorName=public and FileDescriptorName=admin in their socket units",
    );
    let everywhere = TcpListener::bind("0.0.0.0:0").expect("binds");
    let words = "the admin socket that systemd passed, 0.0.0.0:";
    refused("public:admin", socket(bind()), socket(everywhere), words)
        .mentions(2, "can be reached from other machines");
}

#[test]
fn plain_http_that_other_machines_can_reach_is_warned_about() {
    let warning = "serving plain HTTP on 0.0.0.0:";
    let everywhere = TcpListener::bind("0.0.0.0:0").expect("binds");
    let service = Site::with_people().serve_on(&everywhere, &bind(), "public:admin", &[]);
    service.has_logged(warning);
    let service = Site::with_people().serve_on(&bind(), &bind(), "public:admin", &[]);
    assert!(!service.log.text().contains("serving plain HTTP"), "{}", service.log.text());
}

#[test]
fn restarts_under_load_refuse_nobody_and_lose_no_request() {
    let mut site = Site::with_people();
    let token = site.token(&[]);
    let (public, admin) = (bind(), bind());
    let address = public.local_addr().expect("bound");
    let request =
        Request::lookup(PHONE, profile_body(ADA)).token(&token).header("Connection", "close").bytes();
    let (is_over, answered) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let ending = SetAtEnd(&is_over);
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let mut connection = Connection::open(address);
                        connection.send(&request);
                        assert_eq!(connection.reply().status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for _ in 0..5 {
            let service = site_taken(&mut site).serve_on(&public, &admin, "public:admin", &[]);
            let before = answered.load(Ordering::Relaxed);
            eventually("requests are answered", || answered.load(Ordering::Relaxed) > before + 50);
            site = service.stop();
        }
        // So that those who wait are answered.
        let service = site_taken(&mut site).serve_on(&public, &admin, "public:admin", &[]);
        drop(ending);
        for client in clients {
            client.join().expect("every request was answered");
        }
        site = service.stop();
    });
    assert!(answered.load(Ordering::Relaxed) > 250);
}

fn site_taken(site: &mut Site) -> Site {
    std::mem::replace(site, Site::empty())
}
