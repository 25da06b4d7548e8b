//! Making a table of all the details that one connection sees.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use contactd_core::store::StoreError;
use contactd_core::store::place::{IDS_OF_KIND, is_place_of, kind, place_of};
use contactd_core::{DiskBudget, Kind, Timestamp};
use contactd_lookup_table::{Content, Room, TableId, Unfinished, Writer};
use rusqlite::{Connection, Result};

use super::{files, timestamp};
use crate::connection;

/// A whole table, on disk, that the details do not name yet. Dropped without [`Made::keep`], it is removed.
pub(crate) struct Made {
    pub(crate) id: TableId,
    path: PathBuf,
    /// Holds the lock.
    file: File,
    is_kept: bool,
}

impl Made {
    /// The details name it.
    pub(crate) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if !self.is_kept {
            // If it stays, it is removed later: nobody holds its lock any more.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Makes a table of the details that this connection sees, in one transaction.
pub(crate) fn make(connection: &Connection, dir: &Path) -> Result<Made> {
    match try_to_make(connection, dir, false) {
        Err(Failure::Crowded) => match try_to_make(connection, dir, true) {
            Err(Failure::Crowded) => Err(connection::refused(StoreError::Engine(
                "too many profiles have nearly the same hash".to_owned(),
            ))),
            made => made.map_err(Failure::into_error),
        },
        made => made.map_err(Failure::into_error),
    }
}

pub(super) enum Failure {
    Crowded,
    Io(io::Error),
    Store(rusqlite::Error),
}

impl Failure {
    /// Something else than an error has ended it.
    pub(super) fn stopped() -> Self {
        Self::Io(io::ErrorKind::Interrupted.into())
    }

    fn into_error(self) -> rusqlite::Error {
        match self {
            Self::Store(error) => error,
            Self::Crowded => connection::refused(StoreError::Engine("crowded".to_owned())),
            Self::Io(error) => connection::refused(StoreError::Unavailable(error.to_string())),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error)
    }
}

impl From<Unfinished> for Failure {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::Crowded => Self::Crowded,
            Unfinished::Io(error) => Self::Io(error),
        }
    }
}

fn try_to_make(connection: &Connection, dir: &Path, is_roomy: bool) -> std::result::Result<Made, Failure> {
    let mut making = Making::begin(dir, is_roomy)?;
    let mut read = connection
        .prepare("SELECT id, profile, value, expires_at FROM details WHERE label = 0 ORDER BY id")?;
    let mut rows = read.query(())?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        let profile = row.get_ref(1).and_then(|key| Ok(key.as_str()?))?;
        if !is_place_of(id, profile) {
            return Err(connection::damaged().into());
        }
        let value = row.get_ref(2).and_then(|value| Ok(value.as_str()?))?;
        making.add(id, profile, value, timestamp(row.get(3)?))?;
    }
    making.finish()
}

/// A table that is being made of personal details.
pub(super) struct Making {
    made: Made,
    writer: Writer,
    group: Group,
}

impl Making {
    pub(super) fn begin(dir: &Path, is_roomy: bool) -> std::result::Result<Self, Failure> {
        let begin = || {
            let id = TableId::random()?;
            let path = files::path(dir, id);
            let file = files::create(&path)?;
            let made = Made { id, path, file, is_kept: false };
            let (output, written) = (made.file.try_clone()?, made.file.try_clone()?);
            let writer = Writer::new(output, id, is_roomy, while_it_is_there(written, room(dir)))?;
            Ok(Self { made, writer, group: Group::default() })
        };
        begin().map_err(Failure::Io)
    }

    /// Adds a detail. Those of a place come after each other, and places in ascending order.
    pub(super) fn add(
        &mut self,
        id: i64,
        profile: &str,
        value: &str,
        expires_at: Option<Timestamp>,
    ) -> std::result::Result<(), Failure> {
        self.group.begin(id - id % IDS_OF_KIND, &mut self.writer)?;
        self.group.content(profile).add(value, expires_at);
        Ok(())
    }

    /// Fails if an erasure has taken the file away.
    pub(super) fn stop_if_gone(&self) -> std::result::Result<(), Failure> {
        match files::is_gone(&self.made.file) {
            Ok(false) => Ok(()),
            Ok(true) => Err(Failure::stopped()),
            Err(error) => Err(Failure::Io(error)),
        }
    }

    pub(super) fn finish(mut self) -> std::result::Result<Made, Failure> {
        self.group.write(&mut self.writer)?;
        self.writer.finish()?;
        Ok(self.made)
    }
}

/// What the disk has left for others.
fn room(dir: &Path) -> Room {
    let disk = DiskBudget::new(dir.to_owned());
    Box::new(move |bytes| disk.reserve(bytes).map(drop))
}

/// Refuses to write on once an erasure has taken the file away.
fn while_it_is_there(file: File, mut room: Room) -> Room {
    Box::new(move |bytes| {
        if files::is_gone(&file)? {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "an erasure stopped it"));
        }
        room(bytes)
    })
}

/// What is held of one kind in one place: hardly ever of more than one profile.
#[derive(Default)]
struct Group {
    /// The first id of the kind in the place.
    first: i64,
    profiles: Vec<(String, Content)>,
    used: usize,
}

impl Group {
    /// Begins the next group, unless this is the same one.
    fn begin(&mut self, first: i64, writer: &mut Writer) -> std::result::Result<(), Unfinished> {
        if self.first != first {
            self.write(writer)?;
            self.first = first;
        }
        Ok(())
    }

    /// What is held for this profile.
    fn content(&mut self, profile: &str) -> &mut Content {
        let known = self.profiles[..self.used].iter().position(|(held, _)| held == profile);
        let at = known.unwrap_or_else(|| {
            // What was there before has room for the next.
            if self.profiles.len() == self.used {
                self.profiles.push(Default::default());
            }
            let (held, content) = &mut self.profiles[self.used];
            held.clear();
            held.push_str(profile);
            content.clear();
            self.used += 1;
            self.used - 1
        });
        &mut self.profiles[at].1
    }

    fn write(&mut self, writer: &mut Writer) -> std::result::Result<(), Unfinished> {
        let place = place_of(self.first);
        let kind: Kind = kind((self.first - place) / IDS_OF_KIND);
        for (profile, content) in &self.profiles[..self.used] {
            writer.put(place, profile, kind, content)?;
        }
        self.used = 0;
        Ok(())
    }
}
