//! What a connection is read from and written to.

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes in both directions: TCP, or memory in tests.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}
