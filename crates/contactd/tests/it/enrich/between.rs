//! What stands between `enrich` and a service: it answers some requests itself.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::http::Request;

/// A request, with what the service would answer.
pub(super) struct Asked<'a> {
    pub(super) path: &'a str,
    pub(super) body: Value,
    service: SocketAddr,
    token: &'a str,
}

impl Asked<'_> {
    /// What the service answers to this body on this path: the status, the reason, the body.
    pub(super) fn forward(&self, body: &Value) -> Answer {
        let request = Request::lookup(self.path, body.to_string()).token(self.token);
        let reply = crate::http::Connection::open(self.service).ask(&request);
        let reason = reply.header("x-invalid-reason").unwrap_or_default().to_owned();
        Answer { status: reply.status, reason, body: reply.json() }
    }
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) reason: String,
    pub(super) body: Value,
}

type Decide = dyn Fn(&Asked<'_>) -> Answer + Send + Sync;

/// Answers as this says, from then on. Returns its address.
pub(super) fn between(
    service: SocketAddr,
    token: &str,
    decide: impl Fn(&Asked<'_>) -> Answer + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let address = listener.local_addr().expect("an address");
    let (token, decide): (String, Arc<Decide>) = (token.to_owned(), Arc::new(decide));
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (token, decide) = (token.clone(), Arc::clone(&decide));
            std::thread::spawn(move || serve(stream, service, &token, &*decide));
        }
    });
    address
}

fn serve(mut stream: TcpStream, service: SocketAddr, token: &str, decide: &Decide) {
    let mut unread = Vec::new();
    while let Some((path, body)) = read(&mut stream, &mut unread) {
        let body = serde_json::from_slice(&body).expect("JSON");
        let Answer { status, reason, body } = decide(&Asked { path: &path, body, service, token });
        let body = body.to_string();
        let reason = if reason.is_empty() { reason } else { format!("X-Invalid-Reason: {reason}\r\n") };
        let head = format!("HTTP/1.1 {status} X\r\n{reason}Content-Length: {}\r\n\r\n", body.len());
        if stream.write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// The path and the body of the next request.
fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        if let httparse::Status::Complete(head) = request.parse(unread).expect("a request") {
            let path = request.path.expect("a path").to_owned();
            let length =
                request.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
            let length: usize = std::str::from_utf8(length.expect("a length").value)
                .expect("ASCII")
                .parse()
                .expect("a number");
            if unread.len() >= head + length {
                let rest = unread.split_off(head + length);
                let body = std::mem::replace(unread, rest).split_off(head);
                return Some((path, body));
            }
        }
        let mut buffer = [0; 65536];
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        unread.extend_from_slice(&buffer[..count]);
    }
}

/// What was asked, in a list that grows.
#[derive(Clone, Default)]
pub(super) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(super) fn add(&self, what: impl Into<String>) {
        self.0.lock().expect("a lock").push(what.into());
    }

    /// How often this was there before.
    pub(super) fn count(&self, what: &str) -> usize {
        self.0.lock().expect("a lock").iter().filter(|seen| *seen == what).count()
    }

    pub(super) fn sorted(&self) -> Vec<String> {
        let mut all = self.0.lock().expect("a lock").clone();
        all.sort();
        all
    }
}
