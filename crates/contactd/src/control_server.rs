//! The server's end of `control.sock`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use contactd_core::{AdminEntry, NotRecorded, OnRecord};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::actor;
use crate::answered_from::LookupStatus;
use crate::control::{
    COLLECT, CONTROL_REPLY_TIMEOUT, DONE, FAILED, LOOKUPS, OFF, RECORD, REFRESH, RETRY_PAUSE, SIGN,
    SocketPath,
};
use crate::data_dir::DataDir;
use crate::on_record::ActionRecorder;

/// How long a starting server waits for the lock: a command holds it for a moment to see whether a server is running.
const CLAIM_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the server waits for the request of a command that has connected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// What the refresher is asked to do.
pub(crate) enum ControlRequest {
    /// Apply everything that is committed; send true once it is in force.
    Refresh(Sender<bool>),
    /// Record the remaining usage, and stop.
    Finish,
}

/// The server's end of the socket. Dropping it removes the socket.
pub(crate) struct Control {
    path: PathBuf,
    /// Locked as long as the server runs, so that there is only one.
    _lock: File,
}

impl Control {
    /// Locks the directory for this server. Fails if another server has locked it.
    pub(crate) fn claim(dir: &DataDir) -> anyhow::Result<Self> {
        let lock = File::open(dir.path())?;
        let until = Instant::now() + CLAIM_TIMEOUT;
        while lock.try_lock().is_err() {
            if Instant::now() > until {
                bail!(
                    "another contactd already serves {}; stop it first, or use another --data",
                    dir.path().display()
                );
            }
            std::thread::sleep(RETRY_PAUSE);
        }
        Ok(Self { path: dir.socket(), _lock: lock })
    }

    /// Listens, and passes requests on to the refresher and to the recorder. At most `connections` are open at once; more wait.
    pub(crate) fn listen(
        &self,
        dir: &DataDir,
        refresher: Sender<ControlRequest>,
        recorder: Arc<ActionRecorder>,
        lookups: Arc<LookupStatus>,
        connections: usize,
    ) -> anyhow::Result<()> {
        let path = &self.path;
        // A killed server may have left its socket. Because of the lock, it cannot belong to a running one.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(SocketPath::of(dir)?.path())
            .with_context(|| format!("cannot create {}", path.display()))?;
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600))?;
        let runtime = Handle::current();
        std::thread::Builder::new().name("control".to_owned()).spawn(move || {
            let slots = Arc::new(Semaphore::new(connections));
            while let Ok(slot) = runtime.block_on(Arc::clone(&slots).acquire_owned()) {
                let Ok((stream, _)) = listener.accept() else {
                    // Out of file descriptors, most likely: some will be free in a moment.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                let (refresher, recorder, lookups, runtime) =
                    (refresher.clone(), Arc::clone(&recorder), Arc::clone(&lookups), runtime.clone());
                // One thread per command: a command that hangs does not delay others.
                let answering = move || {
                    drop(answer(&stream, &refresher, &recorder, &lookups, &runtime));
                    drop(stream);
                    drop(slot);
                };
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

fn answer(
    mut stream: &UnixStream,
    refresher: &Sender<ControlRequest>,
    recorder: &ActionRecorder,
    lookups: &LookupStatus,
    runtime: &Handle,
) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let mut request = String::new();
    BufReader::new(stream).read_line(&mut request)?;
    let (name, text) = request.trim().split_once(' ').unwrap_or((request.trim(), ""));
    let recorded = match name {
        REFRESH => {
            let (done, when_done) = std::sync::mpsc::channel();
            let is_done = refresher.send(ControlRequest::Refresh(done)).is_ok()
                && when_done.recv_timeout(CONTROL_REPLY_TIMEOUT) == Ok(true);
            return writeln!(stream, "{}", if is_done { DONE } else { FAILED });
        }
        RECORD => match serde_json::from_str::<AdminEntry>(text) {
            Ok(entry) => {
                // Who asks is known from the socket, not from what they say.
                let uid = rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw();
                let entry = AdminEntry { actor: actor::of_user(uid), ..entry };
                runtime.block_on(recorder.record(&entry))
            }
            Err(_) => return writeln!(stream, "unknown request"),
        },
        COLLECT => runtime.block_on(recorder.collect(&text.split_whitespace().collect::<Vec<_>>())),
        SIGN => recorder.sign(),
        LOOKUPS => return writeln!(stream, "{}", serde_json::to_string(&lookups.now())?),
        _ => return writeln!(stream, "unknown request"),
    };
    let answer = match recorded {
        Ok(()) => DONE,
        Err(NotRecorded::Off) => OFF,
        Err(NotRecorded::Unavailable(reason)) => {
            tracing::warn!(
                reason,
                "a command asked for something to be put on record, which is not done yet"
            );
            FAILED
        }
    };
    writeln!(stream, "{answer}")
}
