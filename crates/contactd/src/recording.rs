//! The journal of a running server, and the indexer that updates its index.

use std::sync::{Arc, Weak};

use anyhow::Context as _;
use contactd_cluster::LastLine;
use contactd_core::store::JournalEnd;
use contactd_core::{Audit, BootClock, Callers, Clock, NoAudit};
use contactd_journal::{Journal, JournalSettings, OpenedBy, Sync};
use contactd_services::Services;

use crate::actor;
use crate::config::AuditConfig;
use crate::indexer::{COLLECT_EVERY, COLLECT_EVERY_OF_NODE, Indexer, IndexerWork, Keep};
use crate::on_record::{self, ActionRecorder, OwnJournal};
use crate::opening::Opened;
use crate::setting::AuditSync;

pub(crate) struct Recording {
    pub(crate) audit: Arc<dyn Audit>,
    journal: Weak<Journal>,
    indexer: Option<Indexer>,
}

impl Recording {
    /// Opens the journal, and starts the indexer.
    pub(crate) async fn start(
        opened: &Opened,
        services: &Arc<Services>,
        recorder: &Arc<ActionRecorder>,
        config: &AuditConfig,
        noted: &[(String, String)],
        keep: &Keep,
    ) -> anyhow::Result<Self> {
        // Also that the journal is switched off: the note waits in the store until there is a journal again.
        services.audits.note_settings(&actor::of_this_process(), noted).await?;
        let sync = match config.sync {
            AuditSync::Os => Sync::Os,
            AuditSync::Disk => Sync::Disk,
            AuditSync::Off => {
                tracing::warn!(
                    "the audit journal is off: there will be no record of what was disclosed to whom"
                );
                recorder.use_journal(OwnJournal::Off);
                return Ok(Self { audit: Arc::new(NoAudit), journal: Weak::new(), indexer: None });
            }
        };
        let settings = JournalSettings {
            sync,
            segment_bytes: config.segment_bytes,
            digest_key: opened.keys.newest_id().to_owned(),
            epoch: config.epoch,
            opened_by: OpenedBy::Server,
            ..recorder.settings()
        };
        let clock: Arc<dyn Clock> = Arc::<dyn BootClock>::clone(&opened.clock);
        let journal = Arc::new(on_record::open_patiently(&settings, &clock)?);
        services.audits.remember_root(journal.root()).await?;
        recorder.use_journal(OwnJournal::On(Arc::downgrade(&journal)));
        let indexer = Indexer::start(IndexerWork {
            services: Arc::clone(services),
            journal: Arc::downgrade(&journal),
            recorder: Arc::clone(recorder),
            dir: settings.dir,
            clock,
            collects_every: if opened.database.is_some() { COLLECT_EVERY_OF_NODE } else { COLLECT_EVERY },
            keep: Arc::clone(keep),
        })?;
        Ok(Self { journal: Arc::downgrade(&journal), audit: journal, indexer: Some(indexer) })
    }

    /// Where the journal ends now; `None` if it is off.
    pub(crate) fn end(&self) -> Option<JournalEnd> {
        let journal = self.journal.upgrade()?;
        Some(JournalEnd { root: journal.root(), last: journal.last() })
    }

    /// Tells the number of its last line at any time.
    pub(crate) fn last_line(&self) -> LastLine {
        let journal = Weak::clone(&self.journal);
        Box::new(move || journal.upgrade().map(|journal| journal.last()))
    }

    /// Tells at any time whether lookups can be recorded.
    pub(crate) fn can_record(&self) -> Box<dyn Fn() -> bool + Send + core::marker::Sync> {
        let audit = Arc::downgrade(&self.audit);
        Box::new(move || audit.upgrade().is_none_or(|audit| audit.health().is_up))
    }

    /// Counts again what the last server did not store, if it was killed. Returns whether all usage is known now.
    pub(crate) async fn count_usage_again(
        &self,
        services: &Services,
        callers: &Callers,
    ) -> anyhow::Result<bool> {
        // What is signed can be read.
        let _ = self.journal.upgrade().is_some_and(|journal| journal.sign());
        let has_quota = |token: &_| callers.quota_of(token).is_some();
        let counted = services.audits.count_usage_again(self.end(), has_quota).await;
        counted.context(
            "cannot count what tokens used from the audit journal, and their quotas would allow too much",
        )
    }

    /// Stops indexing. The journal is closed when the last lookup has released it.
    pub(crate) fn finish(self) {
        if let Some(indexer) = self.indexer {
            indexer.finish();
        }
    }
}
