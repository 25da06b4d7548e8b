//! What belongs to one machine, in a cluster too.

use std::sync::Arc;

use crate::store::{DayHits, Noted, Store, Stored};
use crate::{Chain, RootKey, Timestamp};

/// This machine's files: who its node is, and what is remembered about the journal that the node writes. In an embedded store they
/// are the files that hold everything else, too.
#[derive(Clone)]
pub struct Machine {
    node: String,
    files: Arc<dyn Store>,
    is_embedded: bool,
}

/// Where a journal ended when something was noted about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalEnd {
    /// The root of the journal.
    pub root: RootKey,
    /// The number of its last line.
    pub last: u64,
}

const ROOTS: &str = "journal_roots";
const LOST: &str = "audit_lost";
const SETTINGS: &str = "settings";
const USAGE_STORED: &str = "usage_stored";
const USAGE_GONE: &str = "usage_not_in_journal";
const LAST_BACKUP: &str = "last_backup";

impl Machine {
    /// The machine of an embedded store.
    pub fn embedded(node: String, store: Arc<dyn Store>) -> Self {
        Self { node, files: store, is_embedded: true }
    }

    /// A machine with a node of a cluster.
    pub fn of_node(node: String, files: Arc<dyn Store>) -> Self {
        Self { node, files, is_embedded: false }
    }

    /// The id of its node, which is its name in the journal.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Its files: usage of tokens on this machine, and what a backup copies.
    pub fn files(&self) -> &dyn Store {
        &*self.files
    }

    /// Its files, if they only have a copy of what is in a database.
    pub fn files_of_node(&self) -> Option<&dyn Store> {
        (!self.is_embedded).then_some(&*self.files)
    }

    /// The roots of its journal, oldest first.
    pub async fn roots(&self) -> Stored<Vec<RootKey>> {
        let known = self.files.fact(ROOTS).await?.unwrap_or_default();
        Ok(known.split(',').filter_map(|root| root.parse().ok()).collect())
    }

    /// Remembers roots of its journal beside those that it has.
    pub async fn add_roots(&self, more: &[RootKey]) -> Stored<()> {
        let mut known = self.roots().await?;
        let before = known.len();
        known.extend(more.iter().filter(|root| !known.contains(root)).copied().collect::<Vec<_>>());
        if known.len() == before {
            return Ok(());
        }
        let text = known.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        self.files.replace_fact(ROOTS, &text, None).await
    }

    /// A line that was indexed and is missing from its journal, or changed.
    pub async fn lost_line(&self) -> Stored<Option<(u64, Chain)>> {
        let lost = self.files.fact(LOST).await?;
        let lost = lost.as_deref().and_then(|text| text.split_once(':'));
        Ok(lost.and_then(|(seq, chain)| seq.parse().ok().zip(Chain::parse(chain))))
    }

    /// Notes a line that is missing, unless one is noted.
    pub async fn note_lost_line(&self, seq: u64, chain: Chain) -> Stored<()> {
        self.files.remember(LOST, &format!("{seq}:{chain}")).await.map(|_| ())
    }

    /// Forgets the line that is missing.
    pub async fn accept_lost_line(&self) -> Stored<()> {
        self.files.forget(LOST).await
    }

    /// The settings of its last server. If there was none, these are remembered.
    pub async fn settings_or(&self, settings: &str) -> Stored<String> {
        self.files.remember(SETTINGS, settings).await
    }

    /// Remembers the settings of its server.
    pub async fn set_settings(&self, settings: &str, entry: Noted<'_>) -> Stored<()> {
        self.files.replace_fact(SETTINGS, settings, entry).await
    }

    /// The end of the journal up to which all usage is stored, if the last server stored all of it. Forgets it.
    pub async fn take_usage_stored(&self) -> Stored<Option<JournalEnd>> {
        let noted = self.files.fact(USAGE_STORED).await?;
        self.files.forget(USAGE_STORED).await?;
        let noted = noted.as_deref().and_then(|noted| noted.split_once(':'));
        Ok(noted
            .and_then(|(root, last)| Some(JournalEnd { root: root.parse().ok()?, last: last.parse().ok()? })))
    }

    /// Notes that all usage up to this end of the journal is stored.
    pub async fn note_usage_stored(&self, end: JournalEnd) -> Stored<()> {
        self.files.replace_fact(USAGE_STORED, &format!("{}:{}", end.root, end.last), None).await
    }

    /// Hits that were counted and are not in the journal any more, because it was moved aside or shortened.
    pub async fn usage_not_in_journal(&self) -> Stored<Vec<DayHits>> {
        let parse = |line: &str| {
            let mut words = line.split(' ');
            let (token, day, hits) = (words.next()?, words.next()?, words.next()?);
            Some(DayHits { token: token.to_owned(), day: day.parse().ok()?, hits: hits.parse().ok()? })
        };
        Ok(self.files.fact(USAGE_GONE).await?.unwrap_or_default().lines().filter_map(parse).collect())
    }

    /// Replaces the hits that are not in the journal any more.
    pub async fn set_usage_not_in_journal(&self, hits: &[DayHits]) -> Stored<()> {
        let lines = hits.iter().map(|DayHits { token, day, hits }| format!("{token} {day} {hits}"));
        self.files.replace_fact(USAGE_GONE, &lines.collect::<Vec<_>>().join("\n"), None).await
    }

    /// When its last backup was complete.
    pub async fn last_backup(&self) -> Stored<Option<Timestamp>> {
        Ok(self.files.fact(LAST_BACKUP).await?.as_deref().and_then(Timestamp::parse))
    }

    /// Notes that a backup is complete.
    pub async fn note_backup(&self, at: Timestamp) -> Stored<()> {
        self.files.replace_fact(LAST_BACKUP, &at.to_string(), None).await
    }
}
