//! A client that shows complete replies and can send invalid requests.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::ADA;
use crate::service::PHONE;

/// A reply, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Names in lower case, sorted; `date` is checked and left out.
    pub(crate) headers: Vec<(String, String)>,
    /// Unpacked, if it was compressed.
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str());
        let first = found.next();
        assert_eq!(found.next(), None, "{name} is there twice");
        first
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {:?}", self.body))
    }

    /// The length of the body as it was sent: it may be compressed.
    pub(crate) fn sent_length(&self) -> usize {
        self.header("content-length").and_then(|length| length.parse().ok()).expect("a length")
    }

    /// The code in the body.
    pub(crate) fn code(&self) -> String {
        self.json()["status"].as_str().unwrap_or("(none)").to_owned()
    }

    /// Fails unless it has this status and exactly this JSON.
    #[track_caller]
    pub(crate) fn shows(&self, status: u16, body: &Value) {
        assert_eq!((self.status, &self.json()), (status, body));
    }

    /// Fails unless it is a refusal with this status, code and message.
    #[track_caller]
    pub(crate) fn refuses(&self, status: u16, code: &str, message: impl AsRef<str>) {
        self.shows(status, &json!({ "status": code, "message": message.as_ref() }));
    }

    /// The complete reply as text, without its request id.
    pub(crate) fn shown(&self) -> String {
        let id = self.header("x-request-id").expect("every answer has a request id");
        assert!(!id.is_empty());
        let headers: String = self
            .headers
            .iter()
            .filter(|(name, _)| name != "x-request-id")
            .map(|(name, value)| format!("{name}: {value}\n"))
            .collect();
        format!("{}\n{headers}\n{}", self.status, self.body)
    }
}

/// A connection on which anything can be sent.
pub(crate) struct Connection<S = TcpStream> {
    pub(crate) stream: S,
    unread: Vec<u8>,
}

/// Connects, for reads that wait at most 20 s.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    prepared(TcpStream::connect(address).expect("connects"))
}

fn prepared(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
    stream.set_nodelay(true).expect("sets");
    stream
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::over(connect(address))
    }

    /// From a certain address of this machine.
    pub(crate) fn open_from(source: Ipv4Addr, address: SocketAddr) -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&socket, &SocketAddrV4::new(source, 0)).expect("binds");
        connect(&socket, &address).expect("connects");
        Self::over(prepared(TcpStream::from(socket)))
    }

    pub(crate) fn finish_sending(&mut self) {
        self.stream.shutdown(Shutdown::Write).expect("shuts down");
    }
}

impl<S: Read + Write> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sends");
    }

    /// Sends, and ignores an error if the other side has closed the connection.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }

    /// Sends a request, and gives the reply.
    pub(crate) fn ask(&mut self, request: &Request) -> Reply {
        self.send(request.bytes());
        self.reply()
    }

    /// The next reply.
    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply().expect("a reply")
    }

    /// The next reply, `100 Continue` included; `None` if the connection is closed without one.
    pub(crate) fn try_reply(&mut self) -> Option<Reply> {
        loop {
            if let Some(reply) = self.take_reply(false) {
                return Some(reply);
            }
            if !self.read_more() {
                return None;
            }
        }
    }

    /// The next reply without a body, as after HEAD.
    pub(crate) fn reply_to_head(&mut self) -> Reply {
        loop {
            if let Some(reply) = self.take_reply(true) {
                return reply;
            }
            assert!(self.read_more(), "closed without a reply");
        }
    }

    /// What comes until the connection is closed.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.read_more() {}
        std::mem::take(&mut self.unread)
    }

    /// Whether the other side closes the connection without sending more.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.read_more() && self.unread.is_empty()
    }

    fn read_more(&mut self) -> bool {
        let mut buffer = [0; 65536];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    self.unread.extend_from_slice(&buffer[..read]);
                    return true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return false,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("nothing came in time: {error}"),
            }
        }
    }

    fn take_reply(&mut self, head_only: bool) -> Option<Reply> {
        let mut headers = [httparse::EMPTY_HEADER; 64];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(head) = response.parse(&self.unread).expect("an HTTP reply") else {
            return None;
        };
        let status = response.code.expect("a status");
        let mut found: Vec<(String, String)> = response
            .headers
            .iter()
            .map(|header| (header.name.to_lowercase(), String::from_utf8_lossy(header.value).into_owned()))
            .collect();
        found.sort();
        let length = found
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, length)| length.parse::<usize>().expect("a length"));
        let length = if head_only { 0 } else { length };
        if self.unread.len() < head + length {
            return None;
        }
        let is_packed = found.iter().any(|(name, coding)| name == "content-encoding" && coding == "gzip");
        let body = &self.unread[head..head + length];
        let body = if is_packed { unpacked(body) } else { body.to_vec() };
        let body = String::from_utf8(body).expect("UTF-8");
        self.unread.drain(..head + length);
        let has_date = found.iter().any(|(name, _)| name == "date");
        assert!(has_date || status == 100, "a reply without a date");
        found.retain(|(name, _)| name != "date");
        Some(Reply { status, headers: found, body })
    }
}

fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut plain).expect("gzip");
    plain
}

/// A request under construction.
#[derive(Clone)]
pub(crate) struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub(crate) fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.into(),
            path: path.into(),
            headers: vec![("Host".into(), "127.0.0.1".into())],
            body: Vec::new(),
        }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// A lookup without a token.
    pub(crate) fn lookup(path: &str, body: impl AsRef<[u8]>) -> Self {
        Self::new("POST", path).header("Content-Type", "application/json").body(body)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = body.as_ref().to_vec();
        let length = self.body.len().to_string();
        self.without("Content-Length").header("Content-Length", &length)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let headers: String =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut bytes = format!("{} {} HTTP/1.1\r\n{headers}\r\n", self.method, self.path).into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A lookup of a number, written by hand: its first lines, and what follows them.
pub(crate) fn head(token: &str, rest: &str) -> String {
    format!("POST {PHONE} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\n{rest}")
}

pub(crate) fn profile_body(url: &str) -> String {
    serde_json::json!({ "profileUrl": url }).to_string()
}

/// The requests of a file in `requests/`, whole.
pub(crate) fn raw_requests(file: &str, token: &str) -> Vec<String> {
    let parts = parts(token);
    let whole = |line: &str| {
        let text: String = serde_json::from_str(line).expect("a text");
        parts.iter().fold(text, |text, (name, part)| text.replace(name, part))
    };
    file.lines().filter(|line| line.starts_with('"')).map(whole).collect()
}

/// What the words with @ stand for, those that contain others first. `@1`, `@2`, `@3` and `@hidden` remain, for ids of requests.
fn parts(token: &str) -> Vec<(String, String)> {
    let rest =
        "Content-Type: application/json\r\nContent-Length: 61\r\nAuthorization: Bearer @token\r\n\r\n@body";
    let chunked = "Host: test\r\nAuthorization: Bearer @token\r\nTransfer-Encoding: chunked\r\n\r\n";
    let head = |id: u8| {
        format!(
            "POST {PHONE} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer @token\r\n\
             Content-Type: application/json\r\nX-Request-Id: @{id}\r\n"
        )
    };
    let lookups =
        [1, 2, 3].map(|id| (format!("@lookup{id}"), format!("@head{id}Content-Length: 61\r\n\r\n@body")));
    let heads = [1, 2, 3].map(|id| (format!("@head{id}"), head(id)));
    let others = [
        ("@smuggled", "GET /healthz HTTP/1.1\r\nHost: test\r\nX-Request-Id: @hidden\r\n\r\n"),
        ("@rest", rest),
        ("@chunked", chunked),
        ("@body", &profile_body(ADA)),
        ("@token", token),
    ];
    let others = others.map(|(name, part)| (name.to_owned(), part.to_owned()));
    lookups.into_iter().chain(heads).chain(others).collect()
}
