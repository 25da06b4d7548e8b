//! `serve --demo`, as a client developer starts it.

use std::io::{BufRead, BufReader, Lines};
use std::net::{SocketAddr, TcpListener};
use std::process::{ChildStderr, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::http::{Connection, Reply, Request};
use crate::service::{KilledAtEnd, Site};

/// A running demo.
pub(crate) struct Demo {
    child: KilledAtEnd,
    pub(crate) site: Site,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    /// The commands that it suggests.
    pub(crate) commands: Vec<String>,
    /// The lines that it writes later. Kept open, so that it can go on writing.
    pub(crate) log: Lines<BufReader<ChildStderr>>,
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Demo {
    /// Starts a demo whose OpenAPI description has its own address. Its data directory is that of the site.
    pub(crate) fn start_with_public_url(config: &str) -> Self {
        // The port is free again when the demo takes it.
        let free =
            TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
        let site = Site::empty();
        let config = site.file("demo.toml", config);
        let (address, url, data) = (free.to_string(), format!("http://{free}/"), site.place("data"));
        Self::start(site, &["--listen", &address, "--public-url", &url, "--data", &data, "--config", &config])
    }

    /// Starts a demo with these flags.
    pub(crate) fn start(site: Site, flags: &[&str]) -> Self {
        let mut command = site.command();
        command.args(["serve", "--demo", "--admin-listen", "127.0.0.1:0"]).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut log = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let address = log.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("listening on http")?;
            rest.split("//").nth(1)?.split([' ', '/']).next()?.parse().ok()
        });
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let printed = stdout.by_ref().map_while(Result::ok);
        let shown = printed.take_while(|line| !line.starts_with("# The console"));
        let commands: Vec<String> = shown.filter(|line| !line.starts_with('#')).collect();
        let (_, rest) = commands.first().and_then(|line| line.split_once("Bearer ")).expect("a token");
        let token = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let address = address.expect("the demo starts");
        Self { child: KilledAtEnd(child), site, address, token, commands, log, _stdout: stdout }
    }

    pub(crate) fn send(&self, request: &Request) -> Reply {
        Connection::open(self.address).ask(request)
    }

    /// What one of its commands prints.
    pub(crate) fn run(&self, at: usize) -> String {
        let output = Command::new("sh").args(["-c", &self.commands[at]]).output().expect("sh runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.0), signal).expect("signals");
    }

    pub(crate) fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.child.0.wait().expect("ends").success());
    }
}
