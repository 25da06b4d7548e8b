//! What we accept as HTTP, hyper and llhttp accept too: the same requests with the same bodies, ending at the same bytes.
//! We may refuse more. They may not refuse what we accept.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{BufRead, BufReader, Write};
use std::pin::Pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;

use contactd_server::fuzzing::{Seen, requests};
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

/// Comes after the requests, to show where the last one ended.
const NEXT: &[u8] = b"GET /the-next-request HTTP/1.1\r\nHost: next\r\n\r\n";

/// The other parsers.
pub(crate) struct Others {
    runtime: tokio::runtime::Runtime,
    node: Node,
}

impl Others {
    pub(crate) fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        Self { runtime, node: Node::start() }
    }
}

/// Reads `input` with all parsers. Returns how many requests it has.
pub(crate) fn check(others: &mut Others, input: &[u8]) -> usize {
    let seen = requests(input, input.len());
    for piece in [1, 5, 64] {
        assert_eq!(requests(input, piece), seen, "it depends on how the bytes arrive");
    }
    let Some(last) = seen.last() else { return 0 };
    let accepted = &input[..last.end];
    let in_hyper = others.runtime.block_on(read_with_hyper([accepted, NEXT].concat()));
    let expected: Vec<Shown> = seen.iter().map(|seen| Shown::ours(seen, input)).collect();
    let next = (!last.closes).then(|| Shown {
        method: "GET".to_owned(),
        path: "/the-next-request".to_owned(),
        query: None,
        body: Vec::new(),
    });
    assert_eq!(in_hyper, [expected, next.into_iter().collect()].concat(), "hyper reads it differently");
    assert_eq!(
        others.node.read(input, &seen),
        seen.iter().map(|seen| for_llhttp(seen, input).1).collect::<Vec<_>>()
    );
    seen.len()
}

/// A request as it is compared with hyper's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    method: String,
    path: String,
    query: Option<String>,
    body: Vec<u8>,
}

impl Shown {
    fn ours(seen: &Seen, input: &[u8]) -> Self {
        let query = target(seen, input).split_once('?').map(|(_, query)| query.to_owned());
        Self { method: seen.method.clone(), path: seen.path.clone(), query, body: seen.body.clone() }
    }
}

/// The second word of a request.
fn target<'a>(seen: &Seen, input: &'a [u8]) -> &'a str {
    let request = std::str::from_utf8(
        input[seen.begin..seen.end].split(|&b| b == b'\n').find(|line| line.len() > 1).expect("a line"),
    );
    request.expect("ASCII").split(' ').nth(1).expect("a target")
}

async fn read_with_hyper(input: Vec<u8>) -> Vec<Shown> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let found = Rc::clone(&found);
        async move {
            let (head, mut incoming) = request.into_parts();
            let mut body = Vec::new();
            while let Some(frame) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
                if let Some(data) = frame.expect("a body that hyper accepts").data_ref() {
                    body.extend_from_slice(data);
                }
            }
            let (path, query) = (head.uri.path().to_owned(), head.uri.query().map(str::to_owned));
            found.borrow_mut().push(Shown { method: head.method.to_string(), path, query, body });
            Ok::<_, Infallible>(Response::new(String::new()))
        }
    });
    let stream = TokioIo::new(tokio::io::join(&input[..], tokio::io::sink()));
    let mut server = hyper::server::conn::http1::Builder::new();
    let served = server.half_close(true).serve_connection(stream, service).await;
    assert!(served.is_ok(), "hyper refuses it: {served:?}: {}", input.escape_ascii());
    found.take()
}

/// The methods that are the same in every version of llhttp. Others are replaced for it.
const KNOWN: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

/// The request as llhttp gets it, and what it has to answer.
fn for_llhttp(seen: &Seen, input: &[u8]) -> (String, String) {
    let request = &input[seen.begin..seen.end];
    let start = request.iter().take_while(|&&b| b == b'\r' || b == b'\n').count();
    let method = KNOWN.iter().find(|known| **known == seen.method).unwrap_or(&"POST");
    let sent = [&request[..start], method.as_bytes(), &request[start + seen.method.len()..]].concat();
    (hex(&sent), format!("{method} {} {}", target(seen, input), hex(&seen.body)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A process of Node.js, which contains llhttp.
struct Node {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Node {
    fn start() -> Self {
        let mut command = Command::new("node");
        command.args(["--no-warnings", "-e", include_str!("../llhttp.js")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("install nodejs");
        let (input, output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        Self { child, input, output: BufReader::new(output) }
    }

    fn read(&mut self, input: &[u8], seen: &[Seen]) -> Vec<String> {
        let requests: Vec<String> = seen.iter().map(|seen| for_llhttp(seen, input).0).collect();
        self.input.write_all(format!("{}\n", requests.join(" ")).as_bytes()).expect("sends");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("answers");
        line.trim_end_matches('\n').split('\t').map(str::to_owned).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
