//! The outbox: entries of administrative actions on their way into the journal.

use std::collections::HashSet;

use contactd_core::store::{Machine, StoreError};
use contactd_core::{Actor, AdminEntry, AuditPosition, NotRecorded};
use contactd_journal::Entry;

use super::indexing::{catch_up, reset};
use super::roots;
use crate::{AuditError, Audits};

/// How many times the journal is read before the entries wait for the next attempt.
const TRIES: u32 = 5;

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
    /// journal is stored first.
    pub async fn accept_loss(&self, actor: &Actor) -> Result<(), AuditError> {
        let store = &self.parts.store;
        // Fails if this is not the place of the node.
        store.copy_position(self.parts.node()).await?;
        store.add_entry(&self.parts.entry(actor, "audit accept-loss")).await?;
        if let Some(machine) = &self.parts.machine {
            machine.accept_lost_line().await?;
        }
        self.accept_lost_copy().await?;
        reset(&self.parts).await
    }

    /// Moves the entries of committed changes to the journal.
    pub async fn collected(&self) -> Result<(), NotRecorded> {
        self.parts.on_record.collect().await
    }

    /// Whether entries wait in the outbox.
    pub async fn has_entries(&self) -> Result<bool, AuditError> {
        Ok(!self.entries().await?.is_empty())
    }

    /// Moves entries from the outbox to the journal with `record`, which returns whether the entry's line is on disk.
    /// Returns whether the outbox is empty now.
    pub async fn collect(&self, record: impl Fn(&AdminEntry) -> bool + Send) -> Result<bool, AuditError> {
        let entries = self.entries().await?;
        if entries.is_empty() {
            return Ok(true);
        }
        let known = self.recorded.lock().clone();
        let mut known = match known {
            Some(known) => known,
            // After a kill, an entry may be in both.
            None => self.already_recorded(&entries).await?,
        };
        let mut done: Vec<String> = Vec::new();
        for entry in &entries {
            let is_known = known.contains(&entry.entry);
            if !is_known && (self.parts.fetch_list(entry).await.is_err() || !record(entry)) {
                break;
            }
            known.insert(entry.entry.clone());
            done.push(entry.entry.clone());
        }
        *self.recorded.lock() = Some(known);
        self.parts.store.remove_entries(&done).await?;
        if let Some(files) = self.parts.machine.as_ref().and_then(Machine::files_of_node) {
            files.remove_entries(&done).await?;
        }
        // Those that are gone from the outbox need not be known any more.
        *self.recorded.lock() = Some(HashSet::new());
        Ok(done.len() == entries.len())
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
        let parts = &*self.parts;
        let ids: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
        if catch_up(parts).await.is_ok()
            && let Ok(found) = parts.store.find_entries(&ids).await
        {
            return Ok(found.into_iter().collect());
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
