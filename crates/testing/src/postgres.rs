//! A real PostgreSQL for tests: its own directory, a free port, not as root.
//!
//! PostgreSQL must be installed; `./check` does that. If it is missing, tests fail, and are never skipped.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// The user that runs the server when the tests run as root, which PostgreSQL refuses to.
const USER: &str = "postgres";

/// How long the server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server. Dropping it stops it and removes its directory.
pub struct TestServer {
    port: u16,
    dir: tempfile::TempDir,
    running: Mutex<Option<Child>>,
    databases: AtomicU32,
}

impl TestServer {
    /// The server that all tests of this process share. It ends with the process.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestServer> = OnceLock::new();
        SHARED.get_or_init(|| {
            remove_abandoned();
            // The server is killed when the thread that started it ends, so this one lasts as long as the process.
            let (started, server) = mpsc::channel();
            thread::spawn(move || {
                let _ = started.send(Self::start());
                loop {
                    thread::park();
                }
            });
            server.recv().expect("a server")
        })
    }

    /// Starts a server of its own. The thread that calls this must outlive it.
    pub fn start() -> Self {
        let dir = directory();
        let data = dir.path().join("data");
        make("initdb", &["--auth=trust", "--username=contactd", "--encoding=UTF8", "--no-locale"], &data);
        let config =
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync=off\nmax_connections=300\n";
        let file = data.join("contactd.conf");
        std::fs::write(&file, config).expect("writes");
        std::fs::OpenOptions::new()
            .append(true)
            .open(data.join("postgresql.conf"))
            .and_then(|mut main| std::io::Write::write_all(&mut main, b"include 'contactd.conf'\n"))
            .expect("writes");
        give_to_user(&file);
        Self::run_in(dir)
    }

    fn run_in(dir: tempfile::TempDir) -> Self {
        let server = Self { port: free_port(), dir, running: Mutex::default(), databases: AtomicU32::new(0) };
        server.run();
        server
    }

    /// Starts a standby that follows this server, with the same settings. The thread that calls this must outlive it.
    pub fn standby(&self) -> Self {
        let dir = directory();
        let from = self.url("postgres");
        let data = dir.path().join("data");
        make("pg_basebackup", &["--write-recovery-conf", "--checkpoint=fast", "-d", &from], &data);
        Self::run_in(dir)
    }

    /// Makes a standby the primary. Returns when it can be written to.
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "SELECT pg_promote()"), "t");
    }

    /// The URL of a database of this server, with another one beside it.
    pub fn url_with(&self, other: &Self, name: &str) -> String {
        format!("postgres://contactd@127.0.0.1:{},127.0.0.1:{}/{name}", self.port, other.port)
    }

    /// Starts it, or starts it again after [`stop`](Self::stop). Returns when it can be used.
    pub fn run(&self) {
        let log = std::fs::File::create(self.dir.path().join("log")).expect("a log");
        let child = as_user(&program("postgres"))
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string()])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("postgres runs");
        *self.running.lock().expect("not poisoned") = Some(child);
        let until = Instant::now() + PATIENCE;
        while !self.is_ready() {
            assert!(Instant::now() < until, "PostgreSQL does not start:\n{}", self.log());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops it at once, as a crash does.
    pub fn stop(&self) {
        let Some(mut child) = self.running.lock().expect("not poisoned").take() else { return };
        let id = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::QUIT);
        let _ = child.wait();
    }

    /// Stops all processes of the server until [`thaw`](Self::thaw). The system still accepts connections for it.
    pub fn freeze(&self) {
        self.signal(rustix::process::Signal::STOP);
    }

    /// Lets the server go on.
    pub fn thaw(&self) {
        self.signal(rustix::process::Signal::CONT);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let main = self.running.lock().expect("not poisoned").as_ref().expect("it runs").id();
        for process in std::iter::once(main).chain(children(main)) {
            let id = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
            // It may have ended since.
            let _ = rustix::process::kill_process(id.expect("an id"), signal);
        }
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Creates an empty database; returns its URL.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    /// The URL of a database of this server.
    pub fn url(&self, name: &str) -> String {
        format!("postgres://contactd@127.0.0.1:{}/{name}", self.port)
    }

    /// Runs SQL in a database; returns what it prints, one line for each row.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        psql(&self.url(database), &["-c", sql])
    }

    fn is_ready(&self) -> bool {
        let ready = Command::new(program("psql"))
            .args(["-qAtX", "-d", &self.url("postgres"), "-c", "SELECT 1"])
            .output()
            .expect("psql runs");
        ready.status.success()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }
}

/// Runs psql on a database; returns what it prints. What loses a deadlock with a node that works is made again.
pub fn psql(url: &str, args: &[&str]) -> String {
    loop {
        let output = Command::new(program("psql"))
            .args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-d", url])
            .args(args)
            .output()
            .expect("psql runs");
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return String::from_utf8_lossy(&output.stdout).trim().to_owned();
        }
        assert!(error.contains("deadlock detected"), "{error}");
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The path of a program of PostgreSQL. Debian does not put the server's into the search path.
pub fn program(name: &str) -> PathBuf {
    let newest = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = newest.map(|version| version.path().join("bin").join(name)).collect();
    versions.sort();
    versions.into_iter().rfind(|path| path.exists()).unwrap_or_else(|| PathBuf::from(name))
}

/// A directory for a server.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::Builder::new()
        .prefix(&format!("contactd-postgres-{}-", std::process::id()))
        .tempdir()
        .expect("a directory");
    give_to_user(dir.path());
    dir
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A program that runs as a user who is not root, and ends with the thread that starts it.
fn as_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        command.args(["--reuid", USER, "--regid", USER, "--init-groups"]);
    }
    command.args(["--pdeathsig", "QUIT"]).arg(program).current_dir("/");
    command
}

/// Makes a data directory with a program of PostgreSQL.
fn make(name: &str, args: &[&str], data: &Path) {
    let mut making = as_user(&program(name));
    making.args(args).args(["--no-sync", "-D"]).arg(data).stdout(Stdio::null());
    assert!(making.status().expect("it runs").success(), "{name} failed");
}

/// The processes that a process has started.
fn children(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let is_child = |process: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        status
            .lines()
            .any(|line| line.strip_prefix("PPid:").is_some_and(|id| id.trim() == parent.to_string()))
    };
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_child).collect()
}

fn give_to_user(path: &Path) {
    if is_root() {
        let given = Command::new("chown").arg(USER).arg(path).status().expect("chown runs");
        assert!(given.success(), "there is no user {USER}; install PostgreSQL");
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
    listener.local_addr().expect("an address").port()
}

/// Removes the directories of servers that ended with their process.
fn remove_abandoned() {
    let entries = std::fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix("contactd-postgres-").and_then(|rest| rest.split('-').next());
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
