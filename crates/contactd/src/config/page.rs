//! docs/settings.md, compared with the settings that there are.

use std::collections::BTreeMap;

use clap::{CommandFactory, Parser};

use super::{Config, EXAMPLE, Named};
use crate::cli::{Cli, Command};

const PAGE: &str = include_str!("../../../../docs/settings.md");

/// What the page says of a setting.
#[derive(Debug)]
struct Row {
    default: &'static str,
    reload: &'static str,
    record: &'static str,
}

/// The settings on the page, by name.
fn described() -> BTreeMap<&'static str, Row> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, default, _, reload, record, _, ""] = cells[..] else { return None };
        let name = name.strip_prefix('`')?.strip_suffix('`')?;
        Some((name, Row { default, reload, record }))
    };
    PAGE.lines().filter_map(row).collect()
}

/// The settings of the example, with their values.
fn of_example() -> BTreeMap<String, &'static str> {
    let mut section = String::new();
    let mut found = BTreeMap::new();
    for line in EXAMPLE.lines().filter_map(|line| line.strip_prefix("# ")) {
        if line.starts_with('[') {
            section = format!("{}.", line.trim_matches(['[', ']']));
        } else if let Some((name, value)) = line.split_once(" = ")
            && name.chars().all(|c| c.is_ascii_lowercase() || c == '_')
        {
            found.insert(format!("{section}{name}"), value);
        }
    }
    found
}

/// The settings of a server that is a node of a cluster.
fn of_code() -> Vec<Named> {
    let line = ["contactd", "serve", "--store", "postgres://contactd@127.0.0.1/contacts"];
    let cli = Cli::try_parse_from(line).expect("a command line");
    let Command::Serve(args) = &cli.command else { panic!("{cli:?}") };
    Config::resolve(&cli.everywhere).and_then(|config| config.serve(args)).expect("a configuration").named
}

#[test]
fn the_page_has_every_setting_with_its_default_and_no_other() {
    let (described, example) = (described(), of_example());
    let names: Vec<&str> = example.keys().map(String::as_str).collect();
    assert_eq!(described.keys().copied().collect::<Vec<_>>(), names);
    for (name, row) in described {
        // Words, or a dash, are for a default that cannot be written in a file.
        let value = row.default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
        assert!(value.is_none_or(|value| value == example[name]), "{name}: {row:?}");
    }
}

#[test]
fn the_page_says_which_settings_reload_and_whose_change_is_recorded() {
    let code = of_code();
    for (name, row) in described() {
        let section = name.split('.').next().unwrap_or_default();
        // A burst is a part of its rate.
        let reported = if name == "limits.burst" { "limits.rate" } else { name };
        let named = code.iter().find(|named| named.name == reported || named.name == section);
        let named = named.unwrap_or_else(|| panic!("a server does not name {name}"));
        let reload = if named.reloads { "yes" } else { "no" };
        let record = if named.is_noted { "yes" } else { "" };
        assert_eq!((row.reload, row.record), (reload, record), "{name}");
    }
}

#[test]
fn the_page_has_every_flag_of_serve_and_every_variable() {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").expect("serve");
    for flag in cli.get_arguments().chain(serve.get_arguments()).filter_map(clap::Arg::get_long) {
        let is_setting = !["demo", "help", "version"].contains(&flag);
        assert!(!is_setting || PAGE.contains(&format!("`--{flag}`")), "--{flag}");
    }
    let mut variables = vec!["CONTACTD_DIGEST_KEYS".to_owned()];
    for command in std::iter::once(&cli).chain(cli.get_subcommands()) {
        let named = command.get_arguments().filter_map(|argument| argument.get_env());
        variables.extend(named.map(|name| name.to_string_lossy().into_owned()));
    }
    for variable in &variables {
        assert!(PAGE.contains(&format!("`{variable}`")), "{variable}");
    }
    for named in PAGE.split('`').filter(|text| text.starts_with("CONTACTD_")) {
        assert!(variables.iter().any(|variable| variable == named), "there is no {named}");
    }
}
