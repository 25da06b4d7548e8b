//! Commands that take more than a second show on a terminal that they are at work.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::fixture::many;
use crate::service::Site;

/// Runs a shell command whose stdin and stderr are a terminal, on which somebody types `answer`, and returns what it showed.
pub(crate) fn on_a_terminal(site: &Site, command: &str, answer: &str) -> String {
    let script = "import os, pty, subprocess, sys\n\
         ours, theirs = pty.openpty()\n\
         child = subprocess.Popen(['sh', '-c', sys.argv[1]], stdin=theirs, stderr=theirs)\n\
         os.close(theirs)\n\
         os.write(ours, sys.argv[2].encode())\n\
         shown = b''\n\
         try:\n\
         \x20   while chunk := os.read(ours, 65536):\n\
         \x20       shown += chunk\n\
         except OSError:\n\
         \x20   pass\n\
         child.wait()\n\
         sys.stderr.buffer.write(shown)\n";
    let mut python = Command::new("python3");
    site.prepare(&mut python);
    python.args(["-c", script, command, answer]).env("PATH", "/usr/bin:/bin");
    let output = python.stdout(Stdio::null()).stderr(Stdio::piped()).output().expect("python3 runs");
    String::from_utf8(output.stderr).expect("UTF-8")
}

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_contactd");

/// Holds a database for a while, so that others have to wait for their turn.
pub(crate) fn busy(dir: &Path, database: &str, how: &str, seconds: u32) -> std::process::Child {
    let script = format!(
        "import sqlite3, sys, time\n\
         held = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
         held.executescript('{how}')\n\
         print('held', flush=True)\n\
         time.sleep({seconds})\n\
         held.execute('ROLLBACK')\n"
    );
    let mut python = Command::new("python3");
    python.args(["-c", &script]).arg(dir.join(database)).stdout(Stdio::piped());
    let mut child = python.spawn().expect("python3 runs");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a line");
    assert_eq!(line, "held\n");
    child
}

#[test]
fn a_sweep_that_waits_shows_on_a_terminal_that_it_is_at_work() {
    let site = Site::with_people();
    let mut holder = busy(&site.data(), "details.db", "BEGIN IMMEDIATE", 3);
    let shown = on_a_terminal(&site, &format!("{BINARY} sweep"), "");
    holder.wait().expect("ends");
    assert!(shown.contains("waiting: another command is writing to the store\r\n"), "{shown:?}");
    assert!(shown.contains("\r\u{1b}[Klooking for details to remove: 1 s"), "{shown:?}");
    assert!(
        shown.ends_with(
            "\r\u{1b}[K0 details removed that had expired, 0 that were older than their source allows, 0 that were kept for undo\r\n"
        ) || shown.contains("\r\u{1b}[K1 detail removed that had expired"),
        "{shown:?}"
    );
}

#[test]
fn an_export_to_a_slow_reader_counts_profiles_on_a_terminal_and_leaves_no_trace_of_it() {
    let site = Site::empty();
    site.import("crm", many("slow-quell", 3_000));
    let shown = on_a_terminal(&site, &format!("{BINARY} export | (sleep 3; wc -l > lines)"), "");
    assert!(shown.contains(" profiles, 1 s") && shown.contains("\r\u{1b}[Kexporting: "), "{shown:?}");
    assert!(shown.ends_with("\r\u{1b}[K"), "{shown:?}");
    assert_eq!(std::fs::read_to_string(site.path("lines")).expect("reads").trim(), "3000");
}

#[test]
fn a_backup_to_a_slow_reader_shows_its_share_and_refuses_a_terminal() {
    let site = Site::empty();
    // Numbers that do not repeat, so that the backup is longer than what a pipe holds.
    let row =
        |n: u64| format!("https://linkedin.com/in/slow-quell-{n},l{n}.{}@example.com\n", n * 7_919 % 65_521);
    let rows: String = (0..20_000).map(row).collect();
    site.import("crm", format!("profileUrl,email\n{rows}"));
    let shown = on_a_terminal(&site, &format!("{BINARY} backup - | (sleep 3; cat > a.backup)"), "");
    assert!(shown.contains("#] writing the backup, ") && shown.contains(" %, about "), "{shown:?}");
    let refused = on_a_terminal(&site, &format!("{BINARY} backup - 1>&2"), "");
    assert_eq!(
        refused,
        "contactd: a backup is not text: send it to a file or a command, such as `contactd backup - > FILE`\r\n"
    );
}

#[test]
fn quick_commands_show_no_progress_and_a_pipe_gets_no_control_characters() {
    let site = Site::with_people();
    assert_eq!(on_a_terminal(&site, &format!("{BINARY} stats"), ""), "");
    let mut holder = busy(&site.data(), "details.db", "BEGIN IMMEDIATE", 6);
    let swept = site.run(&["sweep"]);
    holder.wait().expect("ends");
    let lines: Vec<&str> = swept.stderr.lines().collect();
    assert_eq!(
        lines[..2],
        ["waiting: another command is writing to the store", "looking for details to remove: 5 s"]
    );
    assert!(!swept.stderr.contains('\u{1b}'), "{swept:?}");
}
