//! Why a profile URL is refused, in words.

use contactd_core::Reason;

/// What to say to an operator about a profile URL that is refused.
pub(crate) fn refusal(reason: Reason) -> String {
    let reason = contactd_server::invalid_reason(reason);
    format!("this profile URL cannot be used ({}): {} {}", reason.code, reason.meaning, reason.hint)
}
