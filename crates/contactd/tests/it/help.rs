//! The help of every command, as it is written in `help.txt`: whoever changes a text sees it as a whole.

use std::process::Command;

use crate::transcript::assert_text;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/help.txt");

/// What `--help` prints for a command, and for those below it. The global options stand once, at the top.
fn help(path: &[&str], text: &mut String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_contactd"));
    let output = command.args(path).arg("--help").env_clear().env("COLUMNS", "100").output().expect("runs");
    let all = String::from_utf8(output.stdout).expect("text");
    let sections: Vec<&str> = all.trim_end().split("\n\n").collect();
    let is_global = |section: &&str| section.starts_with("Global options:");
    let shown: Vec<&str> =
        sections.iter().filter(|section| path.is_empty() || !is_global(section)).copied().collect();
    let shown = shown.join("\n\n").lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    text.push_str(&format!("$ contactd {}\n{shown}\n\n", [path, &["--help"]].concat().join(" ")));
    let listed = sections.iter().find_map(|section| section.strip_prefix("Commands:\n"));
    let names = listed
        .into_iter()
        .flat_map(str::lines)
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        help(&[path, &[name]].concat(), text);
    }
}

#[test]
fn every_help_text_is_the_one_that_was_agreed_on() {
    let mut text = String::new();
    help(&[], &mut text);
    assert!(text.matches("\n$ contactd ").count() > 40, "every command is there");
    for help in text.split("\n$ ").skip(1).filter(|help| !help.contains("\nCommands:\n")) {
        assert!(help.contains("Example"), "{help}");
    }
    assert_text(FILE, &text);
    let run = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_contactd")).args(args).output().expect("runs");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]).stdout;
        assert!(String::from_utf8_lossy(&script).contains("canonicalize"), "{shell}");
    }
    assert!(run(&["--version"]).stdout.starts_with(b"contactd "));
    assert_eq!(run(&["frobnicate"]).status.code(), Some(2));
}
