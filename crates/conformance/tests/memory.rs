//! The engine in memory passes the suite too.

use std::sync::Arc;

use contactd_conformance::Memory;

async fn open() -> Arc<Memory> {
    Arc::new(Memory::new())
}

contactd_conformance::conformance!(open);
