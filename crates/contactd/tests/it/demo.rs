//! `serve --demo`, as a client developer starts it.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};

use crate::http::{Connection, Reply, Request};
use crate::service::Site;

/// A running demo. Its data directory is that of the site.
pub(crate) struct Demo {
    pub(crate) site: Site,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    child: Child,
    /// Kept open, so that the demo can go on writing.
    _pipes: (BufReader<ChildStdout>, BufReader<ChildStderr>),
}

impl Demo {
    /// Starts a demo whose OpenAPI description has its own address.
    pub(crate) fn start_with_public_url(config: &str) -> Self {
        // The port is free again when the demo takes it.
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let site = Site::empty();
        let config = site.file("demo.toml", config);
        let mut command = site.command();
        command.args(["serve", "--demo", "--listen", &free.to_string(), "--admin-listen", "127.0.0.1:0"]);
        command.arg("--data").arg(site.data()).args(["--config", &config]);
        command.args(["--public-url", &format!("http://{free}/")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        while !said.contains("listening on http://") {
            assert!(stderr.read_line(&mut said).expect("reads") > 0, "the demo did not start: {said}");
        }
        let (_, rest) = said.split_once("listening on http://").expect("an address");
        let address = rest.split_whitespace().next().and_then(|address| address.parse().ok());
        let address = address.expect("an address");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut printed = String::new();
        while !printed.contains("Bearer ") {
            assert!(stdout.read_line(&mut printed).expect("reads") > 0, "no token: {printed}");
        }
        let (_, rest) = printed.split_once("Bearer ").expect("a token");
        let token = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        Self { site, address, token, child, _pipes: (stdout, stderr) }
    }

    pub(crate) fn send(&self, request: &Request) -> Reply {
        let mut connection = Connection::open(self.address);
        connection.ask(&request)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
