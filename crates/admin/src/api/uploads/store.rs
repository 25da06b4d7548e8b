//! The uploaded files: each belongs to the user who sent it, and is deleted after a day, or when somebody is erased.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use contactd_core::{Clock, DiskBudget, Timestamp, hex};
use contactd_services::UploadedFile;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use crate::api::auth::Who;
use crate::api::records::Records;
use crate::api::refusal::Refusal;

/// How long a file is kept.
const KEPT: Duration = Duration::from_secs(86_400);

/// How many files a user may have at once, those that are being sent included.
const MOST: usize = 20;

/// The uploaded files of this server.
pub(crate) struct Uploads {
    records: Records,
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kept: BTreeMap<String, Upload>,
    /// The files that are being sent now, with who sends each.
    sending: BTreeMap<String, String>,
}

/// An uploaded file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Upload {
    pub(crate) id: String,
    /// The actor who sent it.
    owner: String,
    /// What its owner calls it.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(super) sent_at: Timestamp,
}

impl Upload {
    /// When it is deleted at the latest.
    pub(super) fn deleted_at(&self) -> Timestamp {
        self.sent_at.plus(KEPT)
    }
}

/// A file that is being sent. Unless it is kept in the end, it is deleted.
pub(super) struct Arriving {
    uploads: Arc<Uploads>,
    owner: String,
    id: String,
    is_kept: bool,
}

impl Uploads {
    /// The files whose records are in this room. Whatever else is with them was left by a server that was killed, and is deleted.
    pub(crate) fn open(room: &Path, disk: &DiskBudget, clock: Arc<dyn Clock>) -> io::Result<Arc<Self>> {
        let records = Records::make(room.join("uploads"), disk)?;
        let mut kept: BTreeMap<String, Upload> = records.read()?.into_iter().collect();
        kept.retain(|id, upload| upload.id == *id && records.content(id).is_file());
        records.remove_unknown(|id| kept.contains_key(id))?;
        let uploads = Self { records, clock, state: Mutex::new(State { kept, sending: BTreeMap::new() }) };
        uploads.tidy();
        Ok(Arc::new(uploads))
    }

    /// Deletes files that are too old, and forgets those that are gone: `contactd erase` deletes them.
    pub(crate) fn tidy(&self) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.kept.retain(|id, upload| {
            let is_kept = now < upload.deleted_at() && self.records.content(id).is_file();
            if !is_kept {
                self.records.remove(id);
            }
            is_kept
        });
    }

    /// The upload with this id, if this user sent it.
    pub(crate) fn find(&self, id: &str, who: &Who) -> Result<Upload, Refusal> {
        self.tidy();
        let found = self.state.lock().kept.get(id).filter(|upload| upload.owner == who.owner).cloned();
        found.ok_or_else(|| {
            Refusal::not_found(
                "There is no such file of yours. Uploaded files are deleted after a day, or when somebody is erased.",
            )
        })
    }

    /// The uploads of this user, newest first.
    pub(super) fn of(&self, who: &Who) -> Vec<Upload> {
        self.tidy();
        let of_theirs = |upload: &&Upload| upload.owner == who.owner;
        let mut uploads: Vec<Upload> = self.state.lock().kept.values().filter(of_theirs).cloned().collect();
        uploads.sort_by_key(|upload| std::cmp::Reverse(upload.sent_at));
        uploads
    }

    /// Where an upload is, and what it is called.
    pub(crate) fn file(&self, upload: &Upload) -> UploadedFile {
        UploadedFile { path: self.records.content(&upload.id), name: upload.name.clone() }
    }

    /// Deletes the uploads of everybody, except these. Those that are being sent are not kept when they are complete.
    pub(crate) fn delete_all_but(&self, in_use: &[String]) {
        let mut state = self.state.lock();
        std::mem::take(&mut state.sending).keys().for_each(|id| self.records.remove(id));
        state.kept.retain(|id, _| {
            let is_kept = in_use.contains(id);
            if !is_kept {
                self.records.remove(id);
            }
            is_kept
        });
    }

    /// Deletes an upload.
    pub(crate) fn remove(&self, id: &str) {
        self.state.lock().kept.remove(id);
        self.records.remove(id);
    }

    /// Makes room for a file that this user wants to send.
    pub(super) fn begin(self: &Arc<Self>, who: &Who) -> Result<Arriving, Refusal> {
        self.tidy();
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| Refusal::internal())?;
        let owner = who.owner.clone();
        let mut state = self.state.lock();
        let kept = state.kept.values().filter(|upload| upload.owner == owner).count();
        let sending = state.sending.values().filter(|other| **other == owner).count();
        if kept + sending >= MOST {
            return Err(Refusal::new(
                axum::http::StatusCode::CONFLICT,
                "too_many_uploads",
                format!(
                    "You have sent {MOST} files, which is the most at a time. Throw one away: the page Imports lists them, and so \
                     does GET /uploads. Each is also deleted a day after it was sent."
                ),
            ));
        }
        let id = hex::encode(&random);
        state.sending.insert(id.clone(), owner.clone());
        drop(state);
        Ok(Arriving { uploads: Arc::clone(self), owner, id, is_kept: false })
    }
}

impl Arriving {
    /// Where the file is written.
    pub(super) fn path(&self) -> PathBuf {
        self.uploads.records.content(&self.id)
    }

    /// Keeps the file, which is complete. It is not found if somebody was erased meanwhile; `contactd erase` deletes it.
    pub(super) fn keep(mut self, name: String, bytes: u64) -> io::Result<Upload> {
        let (id, owner) = (self.id.clone(), self.owner.clone());
        let upload = Upload { id: id.clone(), owner, name, bytes, sent_at: self.uploads.clock.now() };
        let mut state = self.uploads.state.lock();
        if state.sending.remove(&id).is_none() || !self.path().is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.uploads.records.write(&id, &upload)?;
        state.kept.insert(id, upload.clone());
        drop(state);
        self.is_kept = true;
        Ok(upload)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.uploads.state.lock().sending.remove(&self.id);
        if self.is_kept {
            return;
        }
        // Deleting a large file takes a while, and this may be a thread that serves connections.
        let (uploads, id) = (Arc::clone(&self.uploads), std::mem::take(&mut self.id));
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || uploads.records.remove(&id))),
            Err(_) => uploads.records.remove(&id),
        }
    }
}
