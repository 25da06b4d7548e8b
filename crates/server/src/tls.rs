//! The handshake of a connection, within the time that the connection has for its first request.

use std::pin::pin;

use contactd_tls::{Handshake, HandshakeQueue, Tls, TlsStream};
use tokio::net::TcpStream;

use crate::connection::Exchange;

/// Does the handshake of a connection and counts it. `None` if it failed or took too long: the connection is closed then.
pub(crate) async fn handshake(
    tls: &Tls,
    stream: TcpStream,
    queue: &HandshakeQueue,
    exchange: &Exchange,
) -> Option<TlsStream<TcpStream>> {
    let accepting = pin!(tls.accept(stream, queue));
    let accepted = exchange.within_deadline(accepting).await;
    tls.count(match &accepted {
        Some(Ok(_)) => Handshake::Ok,
        Some(Err(_)) => Handshake::Failed,
        None => Handshake::Timeout,
    });
    accepted?.ok()
}
