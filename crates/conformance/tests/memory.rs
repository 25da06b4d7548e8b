//! The in-memory engine passes the suite.

use std::sync::Arc;

use contactd_conformance::Memory;

async fn open() -> Arc<Memory> {
    Arc::new(Memory::new())
}

contactd_conformance::local_conformance!(open);
