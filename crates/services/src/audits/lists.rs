//! List files: whom an action was about, if they are more people than its line names.

use std::collections::HashSet;
use std::io;

use contactd_core::store::{ActionFilter, AuditFilter, IndexedLine, Machine};
use contactd_core::{AdminEntry, MOST_SUBJECTS, NotRecorded, Profile, Subject, Timestamp, blocking, hex};
use contactd_journal::{JournalError, ListFiles, NewList};

use super::reading::up_to_date;
use super::{AuditError, Audits};
use crate::Parts;

/// How many bytes of a list the database keeps together: a multiple of the length of a digest.
const PART: u64 = 1 << 20;

impl Parts {
    /// The entry of an action about these profiles: `each` visits their digests, each once and in order. If they are more than its
    /// line names, they are in a list file, which is on disk, and in the database of a cluster, when this returns.
    pub(crate) async fn about_profiles(
        &self,
        entry: &AdminEntry,
        each: impl FnOnce(&mut dyn FnMut(&[u8; 16]) -> io::Result<()>) -> io::Result<()> + Send,
    ) -> Result<AdminEntry, NotRecorded> {
        let files = self.journal.lists();
        let written = blocking(|| {
            let (mut profiles, mut first, mut list): (u64, Vec<[u8; 16]>, Option<NewList>) =
                (0, vec![], None);
            each(&mut |digest| {
                profiles += 1;
                if let Some(list) = &mut list {
                    return list.add(digest);
                }
                first.push(*digest);
                if first.len() > MOST_SUBJECTS
                    && let Some(files) = &files
                {
                    list.insert(files.begin()?).add(first.as_flattened())?;
                }
                Ok(())
            })?;
            Ok::<_, io::Error>((profiles, first, list.map(NewList::finish).transpose()?))
        });
        let (profiles, first, list) = written.map_err(|error| not_listed(&error))?;
        let (entry, key) = (entry.counted(&[("profiles", profiles)]), self.keys.short_id());
        let (Some(list), Some(files)) = (list, files) else {
            let subjects = first.iter().map(|digest| format!("{key}:{}", hex::encode(digest))).collect();
            return Ok(AdminEntry { subjects, ..entry });
        };
        self.ship_list(&files, &list).await.map_err(|error| not_listed(&error))?;
        if self.machine.is_none() {
            // The node that records the entry has it from the database.
            let _ = files.remove(&list);
        }
        Ok(entry.about_list(key, &list))
    }

    /// Copies a list file to the database that the nodes share, if there is one.
    async fn ship_list(&self, files: &ListFiles, list: &str) -> Result<(), AuditError> {
        if self.store.lists_with(&[]).await?.is_none() {
            return Ok(());
        }
        let parts = files.length(list).map_err(unreadable)?.div_ceil(PART);
        for part in (0..u32::try_from(parts).unwrap_or(u32::MAX)).rev() {
            let digests = files.read_at(list, u64::from(part) * PART, PART).map_err(unreadable)?;
            self.store.add_list_part(list, part, &digests).await?;
        }
        Ok(())
    }

    /// Copies a list that a line names to the database, unless it is there. A journal that was not in a cluster before has lists
    /// that are not.
    pub(super) async fn ship_list_of_line(&self, list: &str) -> Result<(), AuditError> {
        match self.journal.lists() {
            Some(files) if files.length(list).is_ok() && self.store.list_part(list, 0).await?.is_none() => {
                self.ship_list(&files, list).await
            }
            _ => Ok(()),
        }
    }

    /// Fetches the list of an entry that another machine has asked to record. If nobody has it, the line is written anyway, and
    /// verification says that its list is missing.
    pub(super) async fn fetch_list(&self, entry: &AdminEntry) -> Result<(), AuditError> {
        let (Some(list), Some(files)) = (entry.list(), self.journal.lists()) else { return Ok(()) };
        if files.length(list).is_ok() {
            return Ok(());
        }
        let mut fetched: Option<NewList> = None;
        for part in 0.. {
            let Some(digests) = self.store.list_part(list, part).await? else { break };
            let fetched = match &mut fetched {
                Some(fetched) => fetched,
                None => fetched.insert(files.begin().map_err(unreadable)?),
            };
            fetched.add(&digests).map_err(unreadable)?;
        }
        fetched.map_or(Ok(()), |fetched| fetched.finish().map(drop)).map_err(unreadable)
    }

    /// Every way in which an entry may name a profile: by its digest, or by a list file with it.
    pub(super) async fn all_names(&self, profile: &Profile) -> Result<Vec<String>, AuditError> {
        let digests = self.keys.short_digests(Subject::Profile(profile));
        let lists = match (self.store.lists_with(&digests).await?, self.journal.lists()) {
            (Some(lists), _) => lists,
            (None, Some(files)) => blocking(|| files.with_any(&digests)).map_err(unreadable)?,
            (None, None) => Vec::new(),
        };
        let mut names = self.keys.all_named(Subject::Profile(profile));
        let keys: Vec<String> =
            names.iter().filter_map(|name| Some(name.split_once(':')?.0.to_owned())).collect();
        for list in lists {
            names.extend(keys.iter().map(|key| AdminEntry::list_name(key, &list)));
        }
        Ok(names)
    }
}

impl Audits {
    /// Removes the lists that no line names any more, if they were written before this time.
    pub async fn remove_unnamed_lists(&self, before: Timestamp) -> Result<(), AuditError> {
        let parts = &*self.parts;
        let files = parts.journal.lists();
        let here =
            files.as_ref().map_or(Ok(Vec::new()), |files| files.older_than(before)).map_err(unreadable)?;
        let shared = parts.store.lists_before(before).await?;
        if here.is_empty() && shared.is_empty() {
            return Ok(());
        }
        // In a cluster the index has the lines of all nodes.
        up_to_date(parts).await?;
        let mut named: HashSet<String> = HashSet::new();
        let mut note = |entry: &AdminEntry| named.extend(entry.list().map(str::to_owned));
        parts.store.list_entries().await?.iter().for_each(&mut note);
        if let Some(files) = parts.machine.as_ref().and_then(Machine::files_of_node) {
            files.list_entries().await?.iter().for_each(&mut note);
        }
        let all = AuditFilter { actions: Some(ActionFilter::default()), ..AuditFilter::default() };
        let mut visit = |line| {
            if let IndexedLine::Admin(record) = line {
                note(&record.entry);
            }
            true
        };
        parts.store.visit_audit(&all, &mut visit).await?;
        for list in here.iter().filter(|list| !named.contains(*list)) {
            files.as_ref().map_or(Ok(()), |files| files.remove(list)).map_err(unreadable)?;
        }
        for list in shared.iter().filter(|list| !named.contains(*list)) {
            parts.store.remove_list(list).await?;
        }
        Ok(())
    }
}

fn unreadable(error: io::Error) -> AuditError {
    let (what, file) = ("cannot use a list of", "audit/lists".to_owned());
    JournalError::File { what, file, error }.into()
}

fn not_listed(error: &dyn std::error::Error) -> NotRecorded {
    NotRecorded::Unavailable(format!("the list of people that it is about cannot be written: {error}"))
}
