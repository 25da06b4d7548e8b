//! Behind the real nginx and the real HAProxy: whatever is sent, both sides see the same requests.
//!
//! Every request has an id of its own, also those that are hidden in the body of another. After each case, the log of the
//! proxy and ours have to name the same requests, with the same answers. Both proxies keep connections to the service
//! and use them for all clients, so a request that only one side sees would also answer somebody else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::{ADA, ADA_PHONE};
use crate::http::{Connection, Request, profile_body, raw_requests};
use crate::service::{KilledAtEnd, PHONE, Service, eventually};

#[test]
fn nginx_and_the_service_see_the_same_requests() {
    both_see_the_same(Proxy::nginx);
}

#[test]
fn haproxy_and_the_service_see_the_same_requests() {
    both_see_the_same(Proxy::haproxy);
}

fn both_see_the_same(start: fn(&Path, SocketAddr) -> Proxy) {
    let (service, token) = Service::with_people();
    let dir = tempfile::tempdir().expect("a directory");
    let proxy = start(dir.path(), service.public);
    // How much of the proxy's log and of ours was compared.
    let mut logs = (0, 0);
    let (mut faults, mut refused_by_us) = (Vec::new(), 0);
    let cases = raw_requests(include_str!("requests/proxied.jsonl"), &token);
    for (number, sent) in cases.into_iter().enumerate() {
        let name = format!("case {number}, {sent:?}");
        let id = |kind: &str| format!("{number:08x}{kind:0>8}0000000000000000");
        let text = sent.replace("@1", &id("1")).replace("@2", &id("2")).replace("@3", &id("3"));
        let text = text.replace("@hidden", &id(HIDDEN));
        let last = format!(
            "GET /healthz HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Request-Id: {}\r\n\r\n",
            id("4")
        );
        // Latin-1, so that a case can have any byte.
        let bytes: Vec<u8> = (text + &last).chars().map(|c| u8::try_from(c).expect("Latin-1")).collect();
        proxy.exchange(&bytes);
        // A client that comes later gets its own answer.
        let mut later = Connection::open(proxy.address);
        let request = Request::lookup(PHONE, profile_body(ADA)).token(&token).header("Connection", "close");
        let reply = later.ask(&request.header("X-Request-Id", &id(LATER)));
        if reply.header("x-request-id") != Some(&id(LATER)) || !reply.body.contains(ADA_PHONE) {
            faults.push(format!("{name}: a later client got {reply:?}"));
        }

        let (mut theirs, mut ours) = (Vec::new(), Vec::new());
        let is_same = wait(|| {
            (theirs, ours) = (proxy.forwarded(logs.0), access_log(&service, logs.1));
            let is_over = |log: &[Line]| log.iter().any(|line| line.id == id(LATER));
            is_over(&theirs) && is_over(&ours) && is_same(&theirs, &ours)
        });
        if !is_same {
            faults.push(format!("{name}: the proxy saw {theirs:?}, the service {ours:?}"));
        }
        if ours.iter().any(|line| line.id == id(HIDDEN)) {
            faults.push(format!("{name}: a hidden request was served: {ours:?}"));
        }
        refused_by_us += ours.iter().filter(|line| line.status == 400).count();
        logs = (logs.0 + theirs.len(), logs.1 + ours.len());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert_eq!(proxy.forwarded(logs.0), [], "nothing more was forwarded");
    assert_eq!(access_log(&service, logs.1), [], "nothing more arrived");
    assert!(logs.0 > 300 && refused_by_us > 5, "{} forwarded, {refused_by_us} refused by us", logs.0);
}

/// Ids of requests in the bodies of others, and of those that come after a case.
const HIDDEN: &str = "bad";
const LATER: &str = "1a7e4";

/// A request in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    id: String,
    /// 0 if there was no answer to see.
    status: u16,
}

/// Whether two logs have the same requests. A head that we could not read has no id in our log, and an answer that the proxy
/// did not wait for has no status in its log.
fn is_same(theirs: &[Line], ours: &[Line]) -> bool {
    // The last request of a case may end after the later one began.
    let sorted = |log: &[Line]| {
        let mut log = log.to_vec();
        log.sort_by_key(|line| line.id.contains(LATER));
        log
    };
    theirs.len() == ours.len()
        && sorted(theirs).iter().zip(sorted(ours)).all(|(theirs, ours)| {
            let is_unread = ours.id.len() != theirs.id.len() && ours.status == 400;
            (is_unread || theirs.id == ours.id) && (theirs.status == 0 || theirs.status == ours.status)
        })
}

/// Waits until something is so. Returns whether it is.
fn wait(mut is_so: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// Our access log after the first lines.
fn access_log(service: &Service, after: usize) -> Vec<Line> {
    let text = service.log.text();
    // The last line may not have arrived completely.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let lines = whole.lines().filter(|line| line.contains("contactd::access")).map(|line| {
        let field = |name: &str| {
            let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
            rest.trim_start_matches(['=', '"', ':'])
                .split(['"', ' ', ','])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        Line { id: field("request_id"), status: field("status").parse().expect("a status") }
    });
    lines.skip(after).collect()
}

/// A proxy in front of the service, on a port of its own.
struct Proxy {
    _child: KilledAtEnd,
    address: SocketAddr,
    log: std::path::PathBuf,
}

impl Proxy {
    fn nginx(dir: &Path, service: SocketAddr) -> Self {
        let (address, log) = (free_address(), dir.join("access.log"));
        let shown = dir.display();
        let config = format!(
            "daemon off; master_process off; pid {shown}/nginx.pid; error_log {shown}/error.log;
            events {{ }}
            http {{
                log_format line '$http_x_request_id $upstream_addr $upstream_status'; access_log {shown}/access.log line;
                client_body_temp_path {shown}/body; proxy_temp_path {shown}/proxy; fastcgi_temp_path {shown}/fastcgi;
                uwsgi_temp_path {shown}/uwsgi; scgi_temp_path {shown}/scgi;
                client_header_timeout 1s; client_body_timeout 1s; keepalive_timeout 1s; lingering_close off;
                upstream contactd {{ server {service}; keepalive 4; }}
                server {{
                    listen {address};
                    location / {{
                        proxy_pass http://contactd; proxy_http_version 1.1; proxy_next_upstream off;
                        proxy_set_header Connection ''; proxy_set_header Host $http_host; proxy_request_buffering off;
                    }}
                }}
            }}"
        );
        let file = dir.join("nginx.conf");
        std::fs::write(&file, config).expect("writes");
        let mut command = Command::new(installed("nginx"));
        command.arg("-p").arg(dir).arg("-c").arg(&file).arg("-e").arg(dir.join("error.log"));
        Self::start(command, address, log)
    }

    fn haproxy(dir: &Path, service: SocketAddr) -> Self {
        let (address, log) = (free_address(), dir.join("access.log"));
        let config = format!(
            "global\n  log stdout format raw local0\n\
             defaults\n  mode http\n  log global\n  option dontlognull\n  timeout connect 5s\n  timeout client 1s\n  timeout server 5s\n  timeout http-request 1s\n\
             frontend public\n  bind {address}\n  http-request capture req.hdr(x-request-id) len 64\n  log-format \"%[capture.req.hdr(0)] %s %ST%ts\"\n  default_backend contactd\n\
             backend contactd\n  http-reuse always\n  server contactd {service}\n"
        );
        let file = dir.join("haproxy.cfg");
        std::fs::write(&file, config).expect("writes");
        let mut command = Command::new(installed("haproxy"));
        command.arg("-db").arg("-f").arg(&file).stdout(std::fs::File::create(&log).expect("a file"));
        Self::start(command, address, log)
    }

    /// Starts it, and fails if it is not installed.
    fn start(mut command: Command, address: SocketAddr, log: std::path::PathBuf) -> Self {
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap_or_else(|error| panic!("install nginx and haproxy: {error}"));
        let proxy = Self { _child: KilledAtEnd(child), address, log };
        eventually("the proxy listens", || TcpStream::connect(address).is_ok());
        proxy
    }

    /// Sends bytes, and reads until the proxy closes the connection.
    fn exchange(&self, bytes: &[u8]) {
        let mut stream = TcpStream::connect(self.address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        // It may refuse the begin and close before it has read the end.
        let _ = stream.write_all(bytes);
        let _ = stream.read_to_end(&mut Vec::new());
    }

    /// The requests that it forwarded, after the first ones.
    fn forwarded(&self, after: usize) -> Vec<Line> {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines = log.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let lines = lines.filter(|line| line.len() == 3 && !["-", "<NOSRV>"].contains(&line[1]));
        // HAProxy also says how it ended. An answer of its own, because something was missing, is not ours.
        let status = |text: &str| text.trim_end_matches("--").parse().unwrap_or(0);
        let lines = lines.map(|line| Line { id: line[0].to_owned(), status: status(line[2]) });
        lines.skip(after).collect()
    }
}

/// Where a program is. Debian has these where only root looks.
fn installed(name: &str) -> String {
    let sbin = format!("/usr/sbin/{name}");
    if Path::new(&sbin).exists() { sbin } else { name.to_owned() }
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("an address")
}
