//! The journal of a running server, and what keeps its index.

use std::sync::Arc;

use contactd_core::{Audit, NoAudit};
use contactd_journal::{Journal, Settings, Sync};

use crate::config::{AuditConfig, AuditSync};
use crate::context::Context;
use crate::indexer::Indexer;

pub(crate) struct Recording {
    pub(crate) audit: Arc<dyn Audit>,
    indexer: Option<Indexer>,
}

impl Recording {
    /// Opens the journal, and begins to index it.
    pub(crate) fn start(context: &Context, config: &AuditConfig) -> anyhow::Result<Self> {
        let sync = match config.sync {
            AuditSync::Os => Sync::Os,
            AuditSync::Disk => Sync::Disk,
            AuditSync::Off => {
                tracing::warn!("the audit is off: nobody will be able to tell what was disclosed to whom");
                return Ok(Self { audit: Arc::new(NoAudit), indexer: None });
            }
        };
        let dir = context.dir.audit();
        let settings = Settings {
            dir: dir.clone(),
            sync,
            segment_bytes: config.segment_bytes,
            node: node(context)?,
            digest_key: context.keys.newest_id().to_owned(),
        };
        let key = context.audit_key()?;
        let journal = Arc::new(Journal::open(settings, key, Arc::clone(&context.clock))?);
        let (store, clock) = (Arc::clone(&context.store), Arc::clone(&context.clock));
        let indexer = Indexer::start(store, &journal, dir, clock, config.keep)?;
        Ok(Self { audit: journal, indexer: Some(indexer) })
    }

    /// Stops indexing. The journal is closed when the last lookup has let go of it.
    pub(crate) fn finish(self) {
        if let Some(indexer) = self.indexer {
            indexer.finish();
        }
    }
}

/// What this node calls itself in the journal: made up once, and kept.
fn node(context: &Context) -> anyhow::Result<String> {
    if let Some(node) = context.store.fact("node")? {
        return Ok(node);
    }
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("no randomness from the system: {error}"))?;
    let made: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    context.store.remember("node", &made)?;
    Ok(context.store.fact("node")?.unwrap_or(made))
}
