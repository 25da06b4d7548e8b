//! The journal of a running server, and the indexer that updates its index.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};

use contactd_cluster::LastLine;
use contactd_core::store::JournalEnd;
use contactd_core::{Audit, BootClock, Clock, NoAudit};
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
    /// Opens the journal, and starts the indexer, which begins once `index_is_read` ends.
    pub(crate) async fn start(
        opened: &Opened,
        services: &Arc<Services>,
        recorder: &Arc<ActionRecorder>,
        config: &AuditConfig,
        noted: &[(String, String)],
        keep: &Keep,
        index_is_read: Receiver<()>,
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
        let work = IndexerWork {
            services: Arc::clone(services),
            journal: Arc::downgrade(&journal),
            recorder: Arc::clone(recorder),
            dir: settings.dir,
            clock,
            collects_every: if opened.database.is_some() { COLLECT_EVERY_OF_NODE } else { COLLECT_EVERY },
            keep: Arc::clone(keep),
        };
        let indexer = Indexer::start(work, index_is_read)?;
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

    /// Stops indexing. The journal is closed when the last lookup has released it.
    pub(crate) fn finish(self) {
        if let Some(indexer) = self.indexer {
            indexer.finish();
        }
    }
}
