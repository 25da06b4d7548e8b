//! `control.sock`: commands tell a running server that something changed, and learn when
//! it is in force.

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::data_dir::DataDir;
use crate::keeper::Request;

/// How long a command waits to hear that its change is in force.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the server waits for a command to say what it wants.
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);

const REFRESH: &str = "refresh";
const DONE: &str = "done";

/// Makes a committed change take effect in the running server, if there is one. Returns
/// when every lookup that begins afterwards sees it.
pub(crate) fn announce(dir: &DataDir) -> anyhow::Result<()> {
    match ask(dir) {
        Ok(Answer::NoServer | Answer::Done) => Ok(()),
        Ok(Answer::Failed) => bail!(
            "committed, not confirmed: the running server could not read the change. Look at its log; \
             restarting it is safe"
        ),
        Err(error) => bail!(
            "committed, not confirmed: the running server did not answer within 5 seconds ({error}). \
             It takes changes up by itself within a second unless it hangs; if it does, restart it"
        ),
    }
}

/// Whether a server is running on this data directory.
pub(crate) fn is_served(dir: &DataDir) -> bool {
    Place::of(dir).is_ok_and(|place| UnixStream::connect(place.path()).is_ok())
}

enum Answer {
    NoServer,
    Done,
    Failed,
}

fn ask(dir: &DataDir) -> io::Result<Answer> {
    let stream = match UnixStream::connect(Place::of(dir)?.path()) {
        Ok(stream) => stream,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(Answer::NoServer),
                _ => Err(error),
            };
        }
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    writeln!(&stream, "{REFRESH}")?;
    let mut reply = String::new();
    BufReader::new(&stream).read_line(&mut reply)?;
    Ok(if reply.trim() == DONE { Answer::Done } else { Answer::Failed })
}

/// The server's end. The socket goes away with it.
pub(crate) struct Control {
    path: PathBuf,
    /// Locked for as long as the server lives, so that there is only one.
    _lock: std::fs::File,
}

impl Control {
    /// Takes the directory for this server. Refuses where another one has it.
    pub(crate) fn claim(dir: &DataDir) -> anyhow::Result<Self> {
        let lock = std::fs::File::open(dir.path())?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!(
                "another contactd already serves {}; stop it first, or use another --data",
                dir.path().display()
            );
        }
        Ok(Self { path: dir.socket(), _lock: lock })
    }

    /// Listens, and passes every request on to the keeper.
    pub(crate) fn listen(&self, dir: &DataDir, keeper: Sender<Request>) -> anyhow::Result<()> {
        let path = &self.path;
        // One that a killed server left behind: the lock says it is not another's.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(Place::of(dir)?.path())
            .with_context(|| format!("cannot make {}", path.display()))?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let keeper = keeper.clone();
                // One thread per command: a command that hangs delays nobody.
                let answering = move || drop(answer(&stream, &keeper));
                let _ = std::thread::Builder::new().name("control".to_owned()).spawn(answering);
            }
        })?;
        Ok(())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answer(mut stream: &UnixStream, keeper: &Sender<Request>) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_PATIENCE))?;
    let mut request = String::new();
    BufReader::new(stream).read_line(&mut request)?;
    if request.trim() != REFRESH {
        return writeln!(stream, "unknown request");
    }
    let (done, when_done) = std::sync::mpsc::channel();
    let is_done = keeper.send(Request::Refresh(done)).is_ok() && when_done.recv_timeout(PATIENCE) == Ok(true);
    writeln!(stream, "{}", if is_done { DONE } else { "failed" })
}

/// Where the socket is, in a spelling that fits into a socket address. Those hold about a
/// hundred bytes; a longer directory is reached through an open file.
struct Place {
    path: PathBuf,
    _dir: Option<std::fs::File>,
}

impl Place {
    fn of(dir: &DataDir) -> io::Result<Self> {
        const MAX_BYTES: usize = 100;
        let path = dir.socket();
        if path.as_os_str().len() <= MAX_BYTES {
            return Ok(Self { path, _dir: None });
        }
        let open = std::fs::File::open(dir.path())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}/control.sock", open.as_raw_fd()));
        Ok(Self { path, _dir: Some(open) })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
