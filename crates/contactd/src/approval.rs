//! Asking whether to go on with many people at once.

use std::io::{self, BufRead, IsTerminal, Write};

use contactd_core::Profile;

/// Approves if `yes` was given. Otherwise asks, if there is a terminal, and refuses if there is none.
pub(crate) fn asking(what: &'static str, yes: bool) -> impl Fn(&[Profile]) -> bool + Sync {
    move |profiles| yes || (io::stdin().is_terminal() && io::stderr().is_terminal() && ask(what, profiles))
}

fn ask(what: &str, profiles: &[Profile]) -> bool {
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
