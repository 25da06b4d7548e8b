//! `control.sock`: commands tell a running server that something changed, and wait until the change is in force and on
//! record. What they are about to read is put on record the same way.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use contactd_core::{Affected, Announcing, InForce, NotConfirmed, blocking};

use crate::data_dir::DataDir;

/// How long a command waits for the confirmation that its change is in force.
pub(crate) const CONTROL_REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for something to be on record: on its disk, which may be busy.
const RECORD_TIMEOUT: Duration = Duration::from_secs(15);
/// The pause between two tries.
pub(crate) const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Put everything that is committed in force.
pub(crate) const REFRESH: &str = "refresh";
/// Put an entry, which follows as JSON, into the journal.
pub(crate) const RECORD: &str = "record";
/// Move the entries of committed changes into the journal, and make sure that it has those whose ids follow.
pub(crate) const COLLECT: &str = "collect";
/// Sign everything that is in the journal.
pub(crate) const SIGN: &str = "sign";
/// Say whether lookups are answered, and where from.
pub(crate) const LOOKUPS: &str = "lookups";
pub(crate) const DONE: &str = "done";
pub(crate) const OFF: &str = "off";
pub(crate) const FAILED: &str = "failed";

/// Puts changes in force in the server of a data directory, if one is running.
pub(crate) struct ControlSocket {
    dir: DataDir,
}

impl ControlSocket {
    pub(crate) fn of(dir: &DataDir) -> Self {
        Self { dir: dir.clone() }
    }
}

impl InForce for ControlSocket {
    fn announce(&self, _: Affected) -> Announcing<'_> {
        Box::pin(async {
            match blocking(|| ask(&self.dir, REFRESH)) {
                Ok(ControlAnswer::NoServer | ControlAnswer::Done) => Ok(Vec::new()),
                Ok(ControlAnswer::Failed | ControlAnswer::Off) => Err(NotConfirmed::Failed),
                Err(error) => Err(NotConfirmed::Silent(match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it took too long".to_owned(),
                    _ => error.to_string(),
                })),
            }
        })
    }
}

/// Whether a server is running, starting or stopping on this data directory.
pub(crate) fn is_served(dir: &DataDir) -> bool {
    File::open(dir.path()).is_ok_and(|open| open.try_lock_shared().is_err())
}

pub(crate) enum ControlAnswer {
    NoServer,
    Done,
    Failed,
    /// The journal is off.
    Off,
}

/// Asks the running server, if there is one.
pub(crate) fn ask(dir: &DataDir, request: &str) -> io::Result<ControlAnswer> {
    Ok(match reply(dir, request)?.as_deref() {
        None => ControlAnswer::NoServer,
        Some(DONE) => ControlAnswer::Done,
        Some(OFF) => ControlAnswer::Off,
        Some(_) => ControlAnswer::Failed,
    })
}

/// What the running server answers, if there is one.
pub(crate) fn reply(dir: &DataDir, request: &str) -> io::Result<Option<String>> {
    let Some(stream) = connect(dir)? else { return Ok(None) };
    let timeout = if [REFRESH, LOOKUPS].contains(&request) { CONTROL_REPLY_TIMEOUT } else { RECORD_TIMEOUT };
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(CONTROL_REPLY_TIMEOUT))?;
    writeln!(&stream, "{request}")?;
    let mut reply = String::new();
    BufReader::new(&stream).read_line(&mut reply)?;
    Ok(Some(reply.trim().to_owned()))
}

/// Connects to the server; `None` if no server is running. Waits for a server that is starting.
fn connect(dir: &DataDir) -> io::Result<Option<UnixStream>> {
    let until = Instant::now() + CONTROL_REPLY_TIMEOUT;
    loop {
        match UnixStream::connect(SocketPath::of(dir)?.path()) {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused if !is_served(dir) => {
                    return Ok(None);
                }
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused if Instant::now() < until => {}
                _ => return Err(error),
            },
        }
        std::thread::sleep(RETRY_PAUSE);
    }
}

/// The path of the socket, short enough for a socket address. An address holds about a
/// hundred bytes; a longer directory is reached through an open file descriptor.
pub(crate) struct SocketPath {
    path: PathBuf,
    _dir: Option<File>,
}

impl SocketPath {
    pub(crate) fn of(dir: &DataDir) -> io::Result<Self> {
        const MAX_BYTES: usize = 100;
        let path = dir.socket();
        if path.as_os_str().len() <= MAX_BYTES {
            return Ok(Self { path, _dir: None });
        }
        let open = File::open(dir.path())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/control.sock", open.as_raw_fd()));
        Ok(Self { path, _dir: Some(open) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
