//! The message for a profile URL that is refused.

use contactd_core::Reason;

/// Tells an operator why a profile URL is refused and what to do.
pub(crate) fn refusal(reason: Reason) -> String {
    let reason = contactd_server::invalid_reason(reason);
    format!("this profile URL cannot be used ({}): {} {}", reason.code, reason.meaning, reason.hint)
}
