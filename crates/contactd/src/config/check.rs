//! Finds every error in a configuration file, each with its line.
//!
//! A file without errors is read once. Otherwise every setting is read again by itself, so that one error does not hide
//! the others.

use std::fmt;
use std::path::Path;

use contactd_core::Networks;
use serde::Serialize;
use strsim::osa_distance;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::File;

/// One error in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ConfigError {
    /// Where it is: a file, or the environment.
    pub(crate) file: String,
    /// The line in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// The setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) setting: Option<String>,
    /// What is wrong, and what to write instead.
    pub(crate) message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(setting) = &self.setting {
            write!(f, ": {setting}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// The first error, and how many more there are.
pub(super) fn summary(path: &Path, errors: &[ConfigError]) -> anyhow::Error {
    match errors {
        [] => anyhow::anyhow!("{} cannot be used", path.display()),
        [only] => anyhow::anyhow!("{only}"),
        [first, more @ ..] => {
            anyhow::anyhow!("{first} (and {} more: `contactd config check` lists them)", more.len())
        }
    }
}

/// Reads a file. If there are errors, returns all of them, in the order of their lines.
pub(super) fn check(path: &Path) -> Result<File, Vec<ConfigError>> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| {
        let message = format!("the configuration cannot be read: {error}");
        vec![ConfigError { file: name.clone(), line: None, setting: None, message }]
    })?;
    if let Ok(file) = toml::from_str::<File>(&text)
        && file.networks().is_ok()
    {
        let Some((setting, message)) = file.clients.incomplete() else { return Ok(file) };
        let line = lines(&text).into_iter().find(|(name, _)| name == setting).map(|(_, line)| line);
        let (setting, message) = (Some(setting.to_owned()), message.to_owned());
        return Err(vec![ConfigError { file: name, line, setting, message }]);
    }
    let mut checked = Checked { file: name, text: &text, errors: Vec::new() };
    checked.find_all();
    checked.errors.sort_by_key(|error| error.line);
    Err(checked.errors)
}

/// The lines of all settings that a file has, by name.
pub(super) fn lines(text: &str) -> Vec<(String, usize)> {
    let (table, _) = DeTable::parse_recoverable(text);
    let mut lines = Vec::new();
    for (key, value) in table.get_ref() {
        match value.get_ref() {
            DeValue::Table(section) => {
                let name = |setting: &Spanned<_>| format!("{}.{}", key.get_ref(), setting.get_ref());
                lines.extend(section.keys().map(|setting| (name(setting), line(text, setting.span().start))));
            }
            _ => lines.push((key.get_ref().to_string(), line(text, key.span().start))),
        }
    }
    lines.sort_by_key(|(_, line)| *line);
    lines
}

/// The line of a setting, if the file has it.
pub(super) fn line_of(path: &Path, setting: &str) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    lines(&text).into_iter().find(|(name, _)| name == setting).map(|(_, line)| line)
}

fn line(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

struct Checked<'a> {
    file: String,
    text: &'a str,
    errors: Vec<ConfigError>,
}

/// A setting as the file has it.
struct Written<'a> {
    key: &'a str,
    value: &'a str,
    key_at: usize,
    value_at: usize,
}

impl<'a> Checked<'a> {
    fn add(&mut self, at: usize, setting: Option<String>, message: String) {
        let line = Some(line(self.text, at));
        // What a syntax error leaves of its line is not looked at.
        if setting.is_none() || self.errors.iter().all(|error| error.line != line || error.setting.is_some())
        {
            self.errors.push(ConfigError { file: self.file.clone(), line, setting, message });
        }
    }

    fn find_all(&mut self) {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            self.add(error.span().map_or(0, |span| span.start), None, plain(error.message()));
        }
        let mut networks = Networks::built_in();
        for (key, value) in table.get_ref() {
            let (section, at) = (key.get_ref(), key.span().start);
            match value.get_ref() {
                DeValue::Array(elements) if section == "network" => {
                    for element in elements.iter() {
                        self.check_network(element, &mut networks);
                    }
                }
                DeValue::Table(settings) => {
                    if let Err(error) = toml::from_str::<File>(&format!("[{section}]\n")) {
                        self.add(at, Some(section.to_string()), explained(error.message()));
                        continue;
                    }
                    for (key, value) in settings {
                        let (before, name) =
                            (format!("[{section}]\n"), format!("{section}.{}", key.get_ref()));
                        match value.get_ref() {
                            // Each element by itself, so that one error does not hide the others.
                            DeValue::Array(elements) if !elements.is_empty() => {
                                for element in elements.iter() {
                                    let value = format!("[{}]", &self.text[element.span()]);
                                    let one = Written { value: &value, ..self.written(key, element) };
                                    self.check_one(&before, "", &one, Some(name.clone()));
                                }
                            }
                            _ => self.check_one(&before, "", &self.written(key, value), Some(name)),
                        }
                    }
                }
                _ => {
                    let written = self.written(key, value);
                    self.check_one("", "", &written, Some(section.to_string()));
                }
            }
        }
        if self.errors.is_empty() {
            // Every setting is right by itself, so it must be the whole.
            let error = toml::from_str::<File>(self.text).err();
            let (at, message) = match &error {
                Some(error) => (error.span().map_or(0, |span| span.start), explained(error.message())),
                None => (0, "the settings do not fit together".to_owned()),
            };
            self.add(at, None, message);
        }
    }

    fn written(&self, key: &Spanned<impl AsRef<str>>, value: &Spanned<DeValue<'_>>) -> Written<'a> {
        let (key, value) = (key.span(), value.span());
        Written {
            key: &self.text[key.clone()],
            value: &self.text[value.clone()],
            key_at: key.start,
            value_at: value.start,
        }
    }

    /// Reads one setting by itself, between `before` and `after`.
    fn check_one(&mut self, before: &str, after: &str, one: &Written<'_>, name: Option<String>) {
        let text = format!("{before}{} = {}\n{after}", one.key, one.value);
        let value_at = before.len() + one.key.len() + " = ".len();
        if let Err(error) = toml::from_str::<File>(&text) {
            let at = error.span().map_or(0, |span| span.start);
            let at = if at >= value_at { one.value_at + (at - value_at) } else { one.key_at };
            self.add(at.min(self.text.len()), name, explained(error.message()));
        }
    }

    /// Checks a network of the operator: each of its settings, then all together, then beside the other networks.
    fn check_network(&mut self, element: &Spanned<DeValue<'_>>, networks: &mut Networks) {
        const REQUIRED: [(&str, &str); 3] =
            [("name", "\"x\""), ("host", "\"x.example.com\""), ("route", "\"/{slug}\"")];
        let (at, before) = (element.span().start, self.errors.len());
        let DeValue::Table(settings) = element.get_ref() else {
            return self.add(at, Some("network".to_owned()), "write it as [[network]]".to_owned());
        };
        let mut whole = "[[network]]\n".to_owned();
        for (key, value) in settings {
            let written = self.written(key, value);
            let name = key.get_ref();
            let others: String = REQUIRED
                .iter()
                .filter(|(required, _)| required != name)
                .map(|(required, value)| format!("{required} = {value}\n"))
                .collect();
            self.check_one("[[network]]\n", &others, &written, Some(format!("network.{name}")));
            whole.push_str(&format!("{} = {}\n", written.key, written.value));
        }
        for (required, _) in REQUIRED {
            if !settings.keys().any(|key| key.get_ref() == required) {
                self.add(at, Some("network".to_owned()), format!("`{required}` is missing"));
            }
        }
        if self.errors.len() > before {
            return;
        }
        let added =
            match toml::from_str::<File>(&whole) {
                Ok(file) => file.network.into_iter().next().map_or(Ok(()), |own| {
                    networks.add(own.into_inner().0).map_err(|error| error.to_string())
                }),
                Err(error) => Err(explained(error.message())),
            };
        if let Err(message) = added {
            self.add(at, Some("network".to_owned()), message);
        }
    }
}

/// A message in plain words, with a suggestion for a name that does not exist.
fn explained(message: &str) -> String {
    let mut names = message.split('`').skip(1).step_by(2);
    if message.starts_with("unknown field") {
        let wrong = names.next().unwrap_or_default();
        let known: Vec<&str> = names.collect();
        let nearest = known.iter().min_by_key(|name| osa_distance(wrong, name));
        return match nearest.filter(|name| osa_distance(wrong, name) <= 1 + wrong.len() / 4) {
            Some(nearest) => format!("there is no such setting; did you mean `{nearest}`?"),
            None => format!("there is no such setting; there are {}", known.join(", ")),
        };
    }
    if message.contains("expected struct") {
        return "this is a section; write its name in brackets on a line of its own".to_owned();
    }
    plain(message).replace("expected usize", "expected a whole number")
}

/// A message on one line.
fn plain(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}
