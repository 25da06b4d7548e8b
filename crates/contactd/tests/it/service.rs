//! The binary: as a service, and as commands on the same data directory.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::http::{Connection, Reply, Request, profile_body};
use crate::{engines, fixture, tls_client};

pub(crate) const PHONE: &str = "/api/fetchPhoneNumber";
pub(crate) const EMAIL: &str = "/api/fetchPersonalEmail";

/// A data directory and the commands on it.
pub(crate) struct Site {
    dir: TempDir,
    /// The URL of its database, if it is not an embedded store.
    store: Option<String>,
}

/// What a command printed.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<std::process::Output> for Output {
    fn from(output: std::process::Output) -> Self {
        let [stdout, stderr] =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        Self { code: output.status.code().unwrap_or(-1), stdout, stderr }
    }
}

impl Output {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// Fails unless the command ended with this code and said exactly this on stderr.
    #[track_caller]
    pub(crate) fn says(&self, code: i32, stderr: impl AsRef<str>) {
        assert_eq!((self.code, self.stderr.as_str()), (code, stderr.as_ref()), "{self:?}");
    }

    /// Fails unless the command ended with this code and printed or said this among other things.
    #[track_caller]
    pub(crate) fn mentions(&self, code: i32, words: impl AsRef<str>) -> &Self {
        let words = words.as_ref();
        let is_there = self.stdout.contains(words) || self.stderr.contains(words);
        assert!(self.code == code && is_there, "not {code} and {words:?}: {self:?}");
        self
    }
}

impl Site {
    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: engines::new_database() }
    }

    /// On this database, whatever the tests run on.
    pub(crate) fn on(url: &str) -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: Some(url.to_owned()) }
    }

    /// On an embedded store, whatever the tests run on.
    pub(crate) fn embedded() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), store: None }
    }

    /// The same data directory, on a database from now on.
    pub(crate) fn moved_to(mut self, url: &str) -> Self {
        self.store = Some(url.to_owned());
        self
    }

    /// With the invented people in it. An embedded one is a copy of one that was prepared, and has its keys.
    pub(crate) fn with_people() -> Self {
        let site = Self::empty();
        if site.store.is_some() {
            site.import_people();
        } else {
            // Two hundred tests begin with this import. Nothing removes it at the end, so it is below `target`.
            static PREPARED: LazyLock<Site> = LazyLock::new(|| {
                let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
                let site = Site { dir, store: None };
                site.import_people();
                site
            });
            copy_directory(&PREPARED.data(), &site.data());
        }
        site
    }

    pub(crate) fn import_people(&self) {
        self.import("crm", fixture::PEOPLE);
    }

    /// Imports these rows as those of a source.
    pub(crate) fn import(&self, source: &str, rows: impl AsRef<[u8]>) {
        self.ok_with_input(&["import", "-", "--source", source], rows);
    }

    /// Which store a command used, as it says so.
    pub(crate) fn used(&self) -> String {
        format!("(data directory {})", self.data().display())
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A file beside the data directory.
    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).expect("writes");
        path.to_str().expect("UTF-8").to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path beside the data directory, or to it, as text.
    pub(crate) fn place(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_contactd"));
        self.prepare(&mut command);
        command
    }

    /// The URL of its database, if it is not an embedded store.
    pub(crate) fn database(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Gives a command the environment of this site, and nothing else.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env_clear().env("CONTACTD_DATA", self.data()).current_dir(self.dir.path());
        command.envs(self.store.iter().map(|url| ("CONTACTD_STORE", url)));
    }

    /// Runs a command to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.run_with(args, "", &[])
    }

    pub(crate) fn run_with(&self, args: &[&str], input: impl AsRef<[u8]>, env: &[(&str, &str)]) -> Output {
        let mut command = self.command();
        command.args(args).envs(env.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.as_ref().to_vec();
        let feeding = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("ends");
        feeding.join().expect("feeds");
        let output = Output::from(output);
        Output { stderr: self.as_embedded(output.stderr), ..output }
    }

    /// Messages name the store that they are about. Tests compare whole messages, so they get those of an embedded store.
    pub(crate) fn as_embedded(&self, text: String) -> String {
        let Some(url) = &self.store else { return text };
        let text: String = text
            .split_inclusive('\n')
            .filter(|line| !line.starts_with("created the digest key of this cluster"))
            .filter(|line| {
                !line.starts_with("the database keeps removed rows on its own disks for a while: ")
            })
            .collect();
        let text = text.replace("from the database and from the copies of all nodes;", "from every file;");
        text.replace(&format!("(database {url})"), &self.used()).replace(" --store <URL>", "")
    }

    /// Runs a command that has to succeed, and gives its stdout without the last newline.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.ok_with_input(args, "")
    }

    pub(crate) fn ok_with_input(&self, args: &[&str], input: impl AsRef<[u8]>) -> String {
        let output = self.run_with(args, input, &[]);
        assert_eq!(output.code, 0, "{args:?}: {output:?}");
        output.stdout.trim_end_matches('\n').to_owned()
    }

    /// Runs a command that a node has to take into its journal first. On a slow machine it may take longer than the command waits.
    pub(crate) fn run_recorded(&self, args: &[&str]) -> Output {
        let mut ran = self.run(args);
        eventually("a node takes it into its journal in time", || {
            let late = ["no node has taken it into its journal within", "no signed line of a journal has it"];
            let is_late = late.iter().any(|late| ran.stderr.contains(late));
            if is_late {
                ran = self.run(args);
            }
            !is_late
        });
        ran
    }

    /// What a command prints with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--json"]].concat()).json()
    }

    /// What a command lists with `--json`.
    pub(crate) fn list(&self, args: &[&str]) -> Vec<Value> {
        let shown = self.json(args);
        shown.as_array().unwrap_or_else(|| panic!("not a list: {shown}")).clone()
    }

    /// What is in the journal, newest first, as far as these flags of `audit show` ask for it.
    pub(crate) fn events(&self, flags: &[&str]) -> Vec<Value> {
        self.list(&[&["audit", "show"], flags].concat())
    }

    /// Restores `a.backup` of another site, with what was opted out and revoked there since.
    pub(crate) fn restore(&self, other: &Self) -> Output {
        self.run(&["restore", &other.place("a.backup"), "--suppressions-from", &other.place("data")])
    }

    /// A command that goes on by itself.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        let mut command = self.command();
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("starts")
    }

    /// A token made with these flags.
    pub(crate) fn token(&self, flags: &[&str]) -> String {
        self.issue("token", "test", flags)
    }

    /// A token or an admin token with this name, or with a number after it if there was one before.
    pub(crate) fn issue(&self, kind: &str, name: &str, flags: &[&str]) -> String {
        let made = (1..).map(|number| {
            let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            self.run(&[&[kind, "create", &name], flags].concat())
        });
        let made = made.into_iter().find(|made| !made.stderr.contains("has this name")).expect("endless");
        assert_eq!(made.code, 0, "{}", made.stderr);
        made.stdout.trim_end().to_owned()
    }

    /// Starts the service with the defaults.
    pub(crate) fn serve(self) -> Service {
        self.serve_with(&[], "")
    }

    /// Starts the service with these flags and this configuration file.
    pub(crate) fn serve_with(self, flags: &[&str], config: &str) -> Service {
        self.serve_in(flags, config, &[])
    }

    /// As [`serve_with`](Self::serve_with), with more in its environment.
    pub(crate) fn serve_in(self, flags: &[&str], config: &str, env: &[(&str, &str)]) -> Service {
        let command = self.command();
        self.start(command, flags, config, env, [Stdio::null(), Stdio::null()])
    }

    /// Starts the service after this command of a shell, such as `ulimit -n 64`.
    pub(crate) fn serve_after(self, shell: &str, flags: &[&str], config: &str) -> Service {
        let command = self.command_after(shell);
        self.start(command, flags, config, &[], [Stdio::null(), Stdio::null()])
    }

    /// As systemd starts a service with two sockets: `names` are their names, such as `public:admin`.
    pub(crate) fn serve_on(
        self,
        public: &TcpListener,
        admin: &TcpListener,
        names: &str,
        env: &[(&str, &str)],
    ) -> Service {
        let command = self.command_with_sockets(names);
        let sockets =
            [public, admin].map(|socket| Stdio::from(OwnedFd::from(socket.try_clone().expect("clones"))));
        self.start(command, &[], "", env, sockets)
    }

    /// The binary, with its stdin and stdout as sockets that systemd passes.
    pub(crate) fn command_with_sockets(&self, names: &str) -> Command {
        let count = if names.is_empty() { 2 } else { names.split(':').count() };
        let shell = format!(
            "exec 3<&0 4<&1 0</dev/null 1>/dev/null\nexport LISTEN_PID=$$ LISTEN_FDS={count} LISTEN_FDNAMES={names}"
        );
        self.command_after(&shell)
    }

    /// The binary, started by a shell after this command of it.
    pub(crate) fn command_after(&self, shell: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        self.prepare(&mut command);
        command.args(["-c", &format!("{shell}\nexec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_contactd")]);
        command
    }

    /// Starts a node that may have to wait for something before it answers lookups.
    pub(crate) fn serve_unready(self, config: &str) -> Service {
        let command = self.command();
        self.spawn_service(command, &[], config, &[], [Stdio::null(), Stdio::null()])
    }

    fn start(
        self,
        command: Command,
        flags: &[&str],
        config: &str,
        env: &[(&str, &str)],
        sockets: [Stdio; 2],
    ) -> Service {
        let is_node = self.store.is_some();
        let service = self.spawn_service(command, flags, config, env, sockets);
        if is_node {
            service.wait_until_ready();
        }
        service
    }

    fn spawn_service(
        self,
        mut command: Command,
        flags: &[&str],
        config: &str,
        env: &[(&str, &str)],
        [stdin, stdout]: [Stdio; 2],
    ) -> Service {
        let config = self.file("serve.toml", config);
        command.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.args(["--log-level", "trace", "--access-log", "--config", &config]).args(flags);
        command.envs(env.iter().copied());
        command.stdin(stdin).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.spawn().expect("starts");
        // It holds the sockets that were passed.
        drop(command);
        let stderr = child.stderr.take().expect("a pipe");
        let (log, addresses) = Log::follow(stderr);
        let Some((public, admin)) = addresses else {
            panic!("the service did not start: {}", log.text());
        };
        Service { site: self, child, log, public, admin, checks_privacy: true }
    }
}

/// Copies a directory with everything below it, as it is.
pub(crate) fn copy_directory(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "-T"]).args([from, to]).status();
    assert!(copied.expect("copies").success());
}

/// Runs SQL on a file of an embedded store, as somebody could by hand.
pub(crate) fn sqlite(file: &Path, sql: &str) {
    let run =
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit()";
    let ran = Command::new("python3").args(["-c", run]).arg(file).arg(sql).status();
    assert!(ran.expect("runs").success(), "{sql}");
}

/// Ends a process, also if its test fails.
pub(crate) struct KilledAtEnd(pub(crate) Child);

impl Drop for KilledAtEnd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything the service has said on stderr.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<String>>);

impl Log {
    fn follow(stderr: ChildStderr) -> (Self, Option<(SocketAddr, SocketAddr)>) {
        let log = Self(Arc::default());
        let mut lines = BufReader::new(stderr);
        let mut addresses = Vec::new();
        while addresses.len() < 2 {
            let mut line = String::new();
            if lines.read_line(&mut line).unwrap_or(0) == 0 {
                break;
            }
            for mark in ["listening on http", "admin on http"] {
                if let Some((_, rest)) = line.split_once(mark) {
                    let rest = rest.trim_start_matches('s').trim_start_matches("://");
                    let address: String =
                        rest.chars().take_while(|c| !c.is_whitespace() && *c != '/').collect();
                    addresses.push(address.parse().expect("an address"));
                }
            }
            log.0.lock().expect("a lock").push_str(&line);
        }
        let rest = log.clone();
        std::thread::spawn(move || {
            let mut chunk = [0; 8192];
            while let Ok(read @ 1..) = lines.read(&mut chunk) {
                rest.0.lock().expect("a lock").push_str(&String::from_utf8_lossy(&chunk[..read]));
            }
        });
        let both = (addresses.len() == 2).then(|| (addresses[0], addresses[1]));
        (log, both)
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().expect("a lock").clone()
    }
}

/// A running service.
pub(crate) struct Service {
    pub(crate) site: Site,
    child: Child,
    pub(crate) log: Log,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    checks_privacy: bool,
}

impl Service {
    /// With the invented people in it, and a token.
    pub(crate) fn with_people() -> (Self, String) {
        Self::with(&[], "")
    }

    /// With the invented people in it, a token made with these flags, and this configuration.
    pub(crate) fn with(token: &[&str], config: &str) -> (Self, String) {
        let site = Site::with_people();
        let token = site.token(token);
        (site.serve_with(&[], config), token)
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.public)
    }

    /// One request on a connection of its own.
    pub(crate) fn send(&self, request: &Request) -> Reply {
        self.connect().ask(request)
    }

    /// One request to the admin listener.
    pub(crate) fn ask_admin(&self, request: &Request) -> Reply {
        Connection::open(self.admin).ask(request)
    }

    /// Waits until lookups are answered: a node copies its database first.
    pub(crate) fn wait_until_ready(&self) {
        let is_tls = self.log.text().contains("listening on https://");
        let ready = Request::get(&format!("{}/readyz", self.base_path()));
        if !is_tls {
            eventually("the node is ready", || self.send(&ready).status == 200);
        }
    }

    /// The path prefix in the address that the service printed.
    fn base_path(&self) -> String {
        let log = self.log.text();
        let after = log.split_once("listening on http").and_then(|(_, rest)| rest.split_once("//"));
        let address = after.and_then(|(_, rest)| rest.split_whitespace().next()).unwrap_or_default();
        address.split_once('/').map(|(_, path)| format!("/{path}")).unwrap_or_default()
    }

    pub(crate) fn look_up(&self, path: &str, token: &str, url: &str) -> Reply {
        self.send(&Request::lookup(path, profile_body(url)).token(token))
    }

    pub(crate) fn metrics(&self) -> String {
        let request = Request::get("/metrics");
        let reply = if self.log.text().contains("admin on https://") {
            tls_client::Client::of(&self.site).connect(self.admin).expect("a handshake").ask(&request)
        } else {
            self.ask_admin(&request)
        };
        assert_eq!(reply.status, 200, "{}", reply.body);
        reply.body
    }

    /// What it has said with this level.
    pub(crate) fn logged(&self, level: &str) -> Vec<String> {
        let log = self.log.text();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let lines = lines.filter(|line| line["level"] == level);
        lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Fails unless it has said these words by now.
    #[track_caller]
    pub(crate) fn has_logged(&self, words: impl AsRef<str>) {
        let log = self.log.text();
        assert!(log.contains(words.as_ref()), "not {:?}: {log}", words.as_ref());
    }

    /// Waits until it says these words.
    pub(crate) fn eventually_logged(&self, words: impl AsRef<str>) {
        eventually(words.as_ref(), || self.log.text().contains(words.as_ref()));
    }

    /// The number of a metric, which is named with its labels; what is behind its point is left out.
    pub(crate) fn metric(&self, name: &str) -> Option<u64> {
        let whole = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.split('.').next()?.parse().ok();
        self.metrics().lines().find_map(whole)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.site.data()
    }

    /// Cuts off the files of lookup tables.
    pub(crate) fn cut_off_lookup_table(&self) {
        for entry in std::fs::read_dir(self.data()).expect("lists") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|end| end == "table") {
                std::fs::File::options().write(true).open(path).expect("opens").set_len(0).expect("cuts off");
            }
        }
    }

    /// Makes the file of details something that is no database, so that nothing can be read. Of a service whose lookup table is not in
    /// memory.
    pub(crate) fn ruin_details(&self) {
        self.cut_off_lookup_table();
        let details = self.data().join("details.db");
        let length = details.metadata().expect("a file").len();
        let _ = std::fs::remove_file(self.data().join("details.db-wal"));
        std::fs::write(&details, vec![0xAA; usize::try_from(length).expect("small")]).expect("overwrites");
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("signals");
    }

    /// Pauses the process, and waits until none of its threads runs: on a busy machine, one may go on for a moment.
    pub(crate) fn pause(&self) {
        self.signal(rustix::process::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        eventually("every thread is stopped", || {
            std::fs::read_dir(&tasks).expect("a process").all(|task| {
                let stat =
                    std::fs::read_to_string(task.expect("a thread").path().join("stat")).expect("reads");
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
            })
        });
    }

    /// Waits for the process to end by itself.
    pub(crate) fn wait(&mut self) -> i32 {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(status) = self.child.try_wait().expect("waits") {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < until, "the service does not end: {}", self.log.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops the service and gives the data directory back.
    pub(crate) fn stop(self) -> Site {
        let (code, site) = self.end(rustix::process::Signal::TERM);
        assert_eq!(code, 0);
        site
    }

    /// Kills the service and gives the data directory back as it was left.
    pub(crate) fn kill(self) -> Site {
        self.end(rustix::process::Signal::KILL).1
    }

    fn end(mut self, signal: rustix::process::Signal) -> (i32, Site) {
        self.signal(signal);
        let code = self.wait();
        self.check_privacy();
        self.checks_privacy = false;
        // In its place comes one that nobody uses.
        (code, std::mem::replace(&mut self.site, Site::embedded()))
    }

    /// Shows with a failed test what the service complained about.
    #[expect(clippy::print_stderr, reason = "this way it is printed with the failure of its test")]
    fn say_trouble(&self) {
        let is_trouble = |line: &&str| line.contains("\"WARN\"") || line.contains("\"ERROR\"");
        let log = self.log.text();
        log.lines().filter(is_trouble).for_each(|line| eprintln!("the service said: {line}"));
    }

    /// Nothing personal stands in a log or a metric, whatever the test did.
    fn check_privacy(&self) {
        fixture::assert_nothing_personal(&self.log.text());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.say_trouble();
        }
        if !self.checks_privacy || std::thread::panicking() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            return;
        }
        let is_running = self.child.try_wait().expect("waits").is_none();
        let metrics = if is_running { self.metrics() } else { String::new() };
        if is_running {
            self.signal(rustix::process::Signal::TERM);
            self.wait();
        }
        fixture::assert_nothing_personal(&metrics);
        self.check_privacy();
    }
}

/// Notes that a test could not run on this machine. `./check` lists these notes at its end.
pub(crate) fn could_not_run(test: &str, why: &str) {
    let notes = concat!(env!("CARGO_TARGET_TMPDIR"), "/could-not-run");
    let mut notes = std::fs::File::options().create(true).append(true).open(notes).expect("opens");
    writeln!(notes, "{test}: {why}").expect("writes");
}

/// Waits until something is so; fails if it is not within 90 seconds.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is_so() {
        assert!(Instant::now() < until, "not within 300 s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Fails unless a value has these fields, or pointers such as `/held/0/value`, with these values. It may have more.
#[track_caller]
pub(crate) fn assert_has(value: &Value, fields: Value) {
    for (name, expected) in fields.as_object().expect("fields") {
        let found = if name.starts_with('/') { value.pointer(name) } else { value.get(name) };
        assert_eq!(found.unwrap_or(&Value::Null), expected, "{name} of {value}");
    }
}

/// Sets a flag when it goes out of scope: threads that work until it is set also end if their test fails.
pub(crate) struct SetAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Bytes of a database's write-ahead log.
pub(crate) fn wal_bytes(data: &Path, database: &str) -> u64 {
    data.join(format!("{database}-wal")).metadata().map_or(0, |metadata| metadata.len())
}
