//! The outbox: entries of administrative actions on their way into the journal.

use std::collections::HashSet;

use contactd_core::store::{EntryPlace, Machine, StoreError};
use contactd_core::{Actor, AdminEntry, AuditPosition, NotRecorded};
use contactd_journal::{Entry, Line};

use super::copies::line_of_copy;
use super::indexing::reset_index;
use super::reading::up_to_date;
use super::roots;
use crate::{AuditError, Audits};

/// How many times the journal is read before the entries wait for the next attempt.
const TRIES: u32 = 5;
/// How many entries a process remembers to have put into the journal.
const MOST_KNOWN: usize = 100_000;

impl Audits {
    /// Compares settings with those that the store remembered, and puts what has changed on record.
    pub async fn note_settings(
        &self,
        actor: &Actor,
        settings: &[(String, String)],
    ) -> Result<(), AuditError> {
        let Some(machine) = &self.parts.machine else { return Ok(()) };
        let text =
            settings.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("\n");
        let before = machine.settings_or(&text).await?;
        if before == text {
            return Ok(());
        }
        let old: Vec<&str> = before.lines().collect();
        let new: Vec<&str> = text.lines().collect();
        let mut changed: Vec<&str> = Vec::new();
        for line in
            new.iter().filter(|line| !old.contains(line)).chain(old.iter().filter(|line| !new.contains(line)))
        {
            let name = line.split('=').next().unwrap_or_default();
            if !changed.contains(&name) {
                changed.push(name);
            }
        }
        let entry = self.parts.entry(actor, "configuration").about(&changed.join(" "));
        let entry = entry.counted(&[("changed", changed.len() as u64)]);
        Ok(machine.set_settings(&text, Some(&entry)).await?)
    }

    /// Accepts that indexed lines are missing: forgets them, and the copies that had them, and resets the index. The entry for the
    /// journal is stored first; returns its id.
    pub async fn accept_loss(&self, actor: &Actor) -> Result<String, AuditError> {
        let store = &self.parts.store;
        // Fails if this is not the place of the node.
        store.copy_position(self.parts.node()).await?;
        let entry = self.parts.entry(actor, "audit accept-loss");
        store.add_entry(&entry).await?;
        if let Some(machine) = &self.parts.machine {
            machine.accept_lost_line().await?;
        }
        self.accept_lost_copy().await?;
        reset_index(&self.parts, self.parts.node(), &self.parts.journal).await?;
        Ok(entry.entry)
    }

    /// Moves the entries of committed changes to the journal. Those that were `stored`, by their ids, are on record if this succeeds.
    pub async fn collected(&self, stored: &[&str]) -> Result<(), NotRecorded> {
        self.parts.on_record.collect(stored).await
    }

    /// Whether entries wait in the outbox.
    pub async fn has_entries(&self) -> Result<bool, AuditError> {
        Ok(!self.entries().await?.is_empty())
    }

    /// Moves entries from the outbox to the journal with `record`, which returns whether the entry's line is on disk and signed.
    /// Returns whether the outbox is empty now.
    pub async fn collect(&self, record: impl Fn(&AdminEntry) -> bool + Send) -> Result<bool, AuditError> {
        let entries = self.entries().await?;
        if entries.is_empty() {
            return Ok(true);
        }
        let found = match self.not_known(entries.iter().map(|entry| entry.entry.as_str())) {
            Some(ids) => self.find_recorded(&ids).await?,
            // After a kill, an entry may be in both.
            None => self.already_recorded(&entries).await?,
        };
        self.remember(found);
        let mut done: Vec<String> = Vec::new();
        for entry in &entries {
            let id = entry.entry.clone();
            let is_new = self.not_known([id.as_str()]).is_some_and(|not_known| !not_known.is_empty());
            if is_new && (self.parts.fetch_list(entry).await.is_err() || !record(entry)) {
                break;
            }
            self.remember([id.clone()]);
            done.push(id);
        }
        self.parts.store.remove_entries(&done).await?;
        if let Some(files) = self.parts.machine.as_ref().and_then(Machine::files_of_node) {
            files.remove_entries(&done).await?;
        }
        Ok(done.len() == entries.len())
    }

    /// Which of these entries are in no signed line that this machine can read: of its own journal, or of what nodes have shipped.
    pub async fn missing(&self, entries: &[&str]) -> Result<Vec<String>, AuditError> {
        let all = || entries.iter().map(|&id| id.to_owned()).collect();
        let mut missing = self.not_known(entries.iter().copied()).unwrap_or_else(all);
        let found = self.find_recorded(&missing).await?;
        missing.retain(|id| !found.contains(id));
        Ok(missing)
    }

    /// Which of these entries this process has not put into the journal; `None` if it has not looked into it yet.
    fn not_known<'a>(&self, ids: impl IntoIterator<Item = &'a str>) -> Option<Vec<String>> {
        let recorded = self.recorded.lock();
        let known = recorded.as_ref()?;
        Some(ids.into_iter().filter(|id| !known.contains(*id)).map(str::to_owned).collect())
    }

    fn remember(&self, ids: impl IntoIterator<Item = String>) {
        let mut recorded = self.recorded.lock();
        let known = recorded.get_or_insert_default();
        if known.len() > MOST_KNOWN {
            known.clear();
        }
        known.extend(ids);
    }

    /// The entries that are for this machine's journal. A machine without a node sees all of them.
    async fn entries(&self) -> Result<Vec<AdminEntry>, StoreError> {
        let Some(machine) = &self.parts.machine else { return self.parts.store.list_entries().await };
        let mut entries = match machine.files_of_node() {
            Some(files) => files.list_entries().await?,
            None => Vec::new(),
        };
        entries.extend(self.parts.store.claim_entries(machine.node()).await?);
        Ok(entries)
    }

    /// The entries that are in the journal, from the index or, if that cannot be used now, from the journal itself.
    async fn already_recorded(&self, entries: &[AdminEntry]) -> Result<HashSet<String>, AuditError> {
        let ids: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
        if up_to_date(&self.parts).await.is_ok()
            && let Ok(found) = self.find_recorded(&ids).await
        {
            return Ok(found);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            match self.find_in_journal(&ids).await {
                // A segment may have been compressed or removed while it was read.
                Err(AuditError::Journal(_)) if tries < TRIES => {}
                found => return found,
            }
        }
    }

    /// Which of these entries are in proven lines. Where they seem to be, the lines are read: whoever can write to the index or to
    /// the copies can put nothing on record.
    async fn find_recorded(&self, ids: &[String]) -> Result<HashSet<String>, AuditError> {
        let parts = &*self.parts;
        let mut found = HashSet::new();
        if ids.is_empty() {
            return Ok(found);
        }
        let mut places = parts.store.find_entries(ids).await?;
        places.extend(parts.store.find_copied(ids).await?);
        for EntryPlace { entry, node, seq } in places {
            let line = match &parts.machine {
                Some(machine) if machine.node() == node => parts.journal.line(seq, &roots(parts).await?)?,
                // One that cannot be read proves nothing.
                _ => line_of_copy(parts, &node, seq).await.ok().flatten(),
            };
            if matches!(line, Some(Line { entry: Entry::Admin(record), .. }) if record.entry.entry == entry) {
                found.insert(entry);
            }
        }
        Ok(found)
    }

    async fn find_in_journal(&self, ids: &[String]) -> Result<HashSet<String>, AuditError> {
        let mut lines = self.parts.journal.lines_after(AuditPosition::default(), &roots(&self.parts).await?);
        let mut found = HashSet::new();
        while let Some(line) = lines.read()? {
            if let Entry::Admin(record) = line.entry
                && ids.contains(&record.entry.entry)
            {
                found.insert(record.entry.entry);
            }
        }
        Ok(found)
    }
}
