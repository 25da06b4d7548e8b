//! The byte stream of a connection.

use tokio::io::{AsyncRead, AsyncWrite};

/// A stream of bytes in both directions: TCP, TLS, or memory in tests.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin {}
impl<S: AsyncRead + AsyncWrite + Unpin> Stream for S {}
