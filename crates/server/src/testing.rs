//! Shared by the tests of this crate.

use contactd_core::{Caller, Callers, Timestamp, Token, TokenSecret};

pub(crate) fn at() -> Timestamp {
    Timestamp::from_seconds(1_780_000_000)
}

/// Callers with different tokens.
pub(crate) fn callers(count: usize) -> Vec<Caller> {
    let secrets: Vec<_> = (0..count).map(|_| TokenSecret::generate().expect("random")).collect();
    let token = |secret: &TokenSecret| (secret.hash(), Token::new("crm", at()).expect("random"), 0);
    let callers = Callers::default();
    callers.replace(secrets.iter().map(token).collect(), at());
    secrets.iter().map(|secret| callers.find(secret.expose(), at()).expect("known")).collect()
}

/// Runs a test on one thread, with paused time: it only advances while all tasks wait.
pub(crate) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(tokio::task::LocalSet::new().run_until(test));
}
