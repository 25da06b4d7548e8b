//! The journal of a running server, and the indexer that updates its index.

use std::sync::Arc;

use contactd_core::services::Services;
use contactd_core::{Audit, NoAudit};
use contactd_journal::{Journal, JournalSettings, Sync};

use crate::config::AuditConfig;
use crate::context::Opened;
use crate::engine::Store;
use crate::indexer::Indexer;
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
        config: &AuditConfig,
    ) -> anyhow::Result<Self> {
        let sync = match config.sync {
            AuditSync::Os => Sync::Os,
            AuditSync::Disk => Sync::Disk,
            AuditSync::Off => {
                tracing::warn!(
                    "the audit journal is off: there will be no record of what was disclosed to whom"
                );
                return Ok(Self { audit: Arc::new(NoAudit), indexer: None });
            }
        };
        let dir = opened.dir.audit();
        let settings = JournalSettings {
            dir: dir.clone(),
            sync,
            segment_bytes: config.segment_bytes,
            node: opened.node.clone(),
            digest_key: opened.keys.newest_id().to_owned(),
        };
        services.audits.check_key().await?;
        let key = opened.dir.audit_key(&opened.key_sources)?;
        let journal = Arc::new(Journal::open(settings, key, Arc::clone(&opened.clock))?);
        let indexer =
            Indexer::start(Arc::clone(services), &journal, dir, Arc::clone(&opened.clock), config.keep)?;
        Ok(Self { audit: journal, indexer: Some(indexer) })
    }

    /// Stops indexing. The journal is closed when the last lookup has released it.
    pub(crate) fn finish(self) {
        if let Some(indexer) = self.indexer {
            indexer.finish();
        }
    }
}
