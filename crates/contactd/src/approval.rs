//! Asking whether to go on with many people at once.

use std::io::{self, BufRead, IsTerminal, Write};

use contactd_core::Profile;
use contactd_services::Approval;

/// Given with `--yes`.
pub(crate) const fn given(yes: bool) -> Approval {
    if yes { Approval::Given } else { Approval::NotGiven }
}

/// Asks, if there is a terminal.
pub(crate) fn ask<'a>(what: &str, profiles: impl ExactSizeIterator<Item = &'a Profile>) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    let (mut out, count) = (io::stderr().lock(), profiles.len());
    for profile in profiles {
        let _ = writeln!(out, "  {}", profile.as_str());
    }
    let _ = write!(out, "{what} these {count} profiles? [y/N] ");
    let _ = out.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok()
        && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
