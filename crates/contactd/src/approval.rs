//! Asking whether to go on with many people at once.

use std::io::{self, BufRead, IsTerminal, Write};

use contactd_core::Profile;

use crate::output;

/// Asks, if there is a terminal. While it asks, nothing else is written to it.
pub(crate) fn ask(what: &str, profiles: &[Profile]) -> bool {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return false;
    }
    output::end_progress();
    let mut out = io::stderr().lock();
    for profile in profiles {
        let _ = writeln!(out, "  {}", profile.as_str());
    }
    let _ = write!(out, "{what} these {} profiles? [y/N] ", profiles.len());
    let _ = out.flush();
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).is_ok()
        && matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
