//! The journal of a running server, and the indexer that updates its index.

use std::sync::Arc;

use contactd_core::services::Services;
use contactd_core::{Audit, NoAudit};
use contactd_journal::{JournalSettings, OpenedBy, Sync};

use crate::actor;
use crate::config::AuditConfig;
use crate::context::Opened;
use crate::engine::Store;
use crate::indexer::{Indexer, IndexerWork, Keep};
use crate::on_record::{self, OwnJournal, Recorder};
use crate::setting::AuditSync;

pub(crate) struct Recording {
    pub(crate) audit: Arc<dyn Audit>,
    indexer: Option<Indexer>,
}

impl Recording {
    /// Opens the journal, and starts the indexer.
    pub(crate) async fn start(
        opened: &Opened,
        services: &Arc<Services<Store>>,
        recorder: &Arc<Recorder>,
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
                return Ok(Self { audit: Arc::new(NoAudit), indexer: None });
            }
        };
        let settings = JournalSettings {
            sync,
            segment_bytes: config.segment_bytes,
            digest_key: opened.keys.newest_id().to_owned(),
            epoch: config.epoch,
            opened_by: OpenedBy::Server,
            ..recorder.settings()?
        };
        let journal = Arc::new(on_record::open_patiently(&settings, &opened.clock)?);
        services.audits.remember_root(journal.root()).await?;
        recorder.use_journal(OwnJournal::On(Arc::downgrade(&journal)));
        let indexer = Indexer::start(IndexerWork {
            services: Arc::clone(services),
            journal: Arc::downgrade(&journal),
            recorder: Arc::clone(recorder),
            dir: settings.dir,
            clock: Arc::clone(&opened.clock),
            keep: keep.clone(),
        })?;
        Ok(Self { audit: journal, indexer: Some(indexer) })
    }

    /// Stops indexing. The journal is closed when the last lookup has released it.
    pub(crate) fn finish(self) {
        if let Some(indexer) = self.indexer {
            indexer.finish();
        }
    }
}
