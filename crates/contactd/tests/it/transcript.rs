//! Commands and all that they print, as it is written in `transcripts/`: whoever changes a text sees it as a whole.
//!
//! A line that begins with `$` is run by a shell (`>` continues it). What follows is what it printed, after `|`, what it said on
//! stderr, after `!`, and a code other than 0, after `?`. What differs in every run has a name instead: `TIME`, `tok_1`. Such a
//! name in a command stands for the same.

use std::process::Command;
use std::time::SystemTime;

use crate::fixture::{ADA, EVE, MIRA, NOBODY, PEOPLE};
use crate::service::{Output, Service, Site};

/// Where `api` is.
const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/transcripts/bin");

/// Tests that are a transcript and nothing else, each on a line.
macro_rules! transcripts {
    ($(fn $name:ident() { $check:expr })+) => {
        $(#[test]
        fn $name() {
            $check;
        })+
    };
}
pub(crate) use transcripts;

/// Fails unless everything is as the file says.
pub(crate) fn check(site: &Site, name: &str) {
    Transcript { site, names: Vec::new() }.check(name, &[]);
}

/// As [`check`], with a server that `contactd lookup` asks with this token.
pub(crate) fn check_serving((service, token): &(Service, String), name: &str) {
    let url = format!("http://{}", service.public);
    let env = [("CONTACTD_URL", url.as_str()), ("CONTACTD_TOKEN", token.as_str())];
    Transcript { site: &service.site, names: Vec::new() }.check(name, &env);
}

/// As [`check_serving`], with the invented people in it.
pub(crate) fn check_with_people(name: &str) {
    check_serving(&Service::with_people(), name);
}

/// As [`check_serving`], with a new admin token of this role for `api`, which asks the admin API.
pub(crate) fn check_api((service, token): &(Service, String), role: &str, name: &str) {
    let urls = [service.public, service.admin].map(|address| format!("http://{address}"));
    let admin = service.site.issue("admin-token", role, &["--role", role]);
    let env = [
        ("CONTACTD_URL", urls[0].as_str()),
        ("CONTACTD_TOKEN", token),
        ("ADMIN_URL", &urls[1]),
        ("ADMIN_TOKEN", &admin),
    ];
    Transcript { site: &service.site, names: Vec::new() }.check(name, &env);
}

struct Transcript<'a> {
    site: &'a Site,
    /// What differs in every run, and its name.
    names: Vec<(String, String)>,
}

impl Transcript<'_> {
    fn check(mut self, name: &str, env: &[(&str, &str)]) {
        let file = format!("{}/tests/it/transcripts/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let known = std::fs::read_to_string(&file).expect("a transcript");
        let mut text = String::new();
        let mut lines = known.lines().peekable();
        while let Some(line) = lines.next() {
            let is_output = line.starts_with(['|', '!', '?']);
            if !is_output {
                text.push_str(&format!("{line}\n"));
            }
            let Some(first) = line.strip_prefix("$ ") else { continue };
            let mut command = first.to_owned();
            while let Some(more) = lines.next_if(|line| line.starts_with('>')) {
                text.push_str(&format!("{more}\n"));
                command.push_str(&format!("\n{}", more[1..].strip_prefix(' ').unwrap_or_default()));
            }
            text.push_str(&self.run(&command, env));
        }
        assert_text(&file, &text);
    }

    /// Runs a command, and gives what belongs under it.
    fn run(&mut self, command: &str, env: &[(&str, &str)]) -> String {
        let real =
            |word: &str| self.names.iter().find(|(_, name)| name == word).map(|(real, _)| real.clone());
        let command = with_words(command, |word| real(word).unwrap_or_else(|| word.to_owned()));
        let mut shell = Command::new("/bin/sh");
        self.site.prepare(&mut shell);
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_contactd")).parent().expect("a directory");
        shell.args(["-c", &command]).env("PATH", format!("{}:{API}:/usr/bin:/bin", bin.display()));
        shell
            .envs([("ADA", ADA), ("EVE", EVE), ("MIRA", MIRA), ("NOBODY", NOBODY), ("PEOPLE", PEOPLE)])
            .envs(env.iter().copied());
        let Output { code, stdout, stderr } = Output::from(shell.output().expect("runs"));
        let code = if code == 0 { String::new() } else { code.to_string() };
        [("|", stdout), ("!", without_progress(&self.site.as_embedded(stderr))), ("?", code)]
            .map(|(mark, text)| {
                self.masked(&text)
                    .lines()
                    .map(|line| format!("{mark} {line}").trim_end().to_owned() + "\n")
                    .collect::<String>()
            })
            .concat()
    }

    /// A text with names for what differs in every run. What the width of a column depends on may differ too.
    fn masked(&mut self, text: &str) -> String {
        let dir = self.site.path("");
        let text = text.replace(dir.to_str().expect("UTF-8"), "DIR/");
        let mut masked = with_words(&text, |word| self.name_of(word));
        while masked != text && masked.contains("   ") {
            masked = masked.replace("   ", "  ");
        }
        let user = user();
        ["by @", "  @  ", "\"actor\":\"@\"", ",@,"]
            .iter()
            .fold(masked, |text, place| text.replace(&place.replace('@', &user), &place.replace('@', "USER")))
    }

    fn name_of(&mut self, word: &str) -> String {
        if let Some((_, name)) = self.names.iter().find(|(real, _)| real == word) {
            return name.clone();
        }
        if is_about_now(word) {
            return "TIME".to_owned();
        }
        let groups = word.split('-').map(str::len);
        let kind = match word.split_once('_') {
            Some((kind @ ("tok" | "ctd" | "adm" | "cta"), rest)) if rest.len() > 5 => kind,
            None if groups.clone().eq([5; 5]) && !word.contains(['0', '1', 'i', 'l', 'o']) => "password",
            None if groups.eq([8, 4, 4, 4, 12]) => "request",
            _ => return word.to_owned(),
        };
        let number = 1 + self.names.iter().filter(|(_, name)| name.starts_with(kind)).count();
        let name = format!("{kind}_{number}");
        self.names.push((word.to_owned(), name.clone()));
        name
    }
}

/// A text without the lines that a command adds if it takes long, such as `erasing: 5 s`.
fn without_progress(text: &str) -> String {
    let is_progress = |line: &&str| {
        let seconds = line.trim_end().strip_suffix(" s").and_then(|line| line.rsplit(' ').next());
        seconds.is_some_and(|seconds| seconds.parse::<u32>().is_ok())
    };
    text.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

/// A text with other words.
fn with_words(text: &str, mut other: impl FnMut(&str) -> String) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-:.".contains(c);
    let replaced = |part: &str| {
        let word = part.trim_end_matches(|c| !is_part(c) || ".:".contains(c));
        other(word) + &part[word.len()..]
    };
    text.split_inclusive(|c| !is_part(c)).map(replaced).collect()
}

/// Who runs the tests, and so the commands.
pub(crate) fn user() -> String {
    let name = Command::new("id").arg("-un").output().expect("id is there").stdout;
    String::from_utf8(name).expect("ASCII").trim().to_owned()
}

/// Whether it is a time of the last or the next year, and not just a day.
fn is_about_now(word: &str) -> bool {
    let is_time = word.len() >= 20 && word.as_bytes()[10] == b'T' && word.ends_with('Z');
    let year = |time: &str| time.get(..4).and_then(|year| year.parse::<u64>().ok());
    let now = 1970 + SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() / 31_556_952;
    is_time && !word.ends_with("T00:00:00Z") && year(word).is_some_and(|year| year.abs_diff(now) <= 1)
}

/// Fails unless a text is what is in its file. With `CONTACTD_WRITE_TEXTS`, it is written there.
#[expect(
    clippy::disallowed_methods,
    reason = "a developer who changed a text asks for the file to be written"
)]
pub(crate) fn assert_text(file: &str, text: &str) {
    if std::env::var_os("CONTACTD_WRITE_TEXTS").is_some() {
        std::fs::write(file, text).expect("writes");
    }
    let known = std::fs::read_to_string(file).expect("a file");
    let same = text.lines().zip(known.lines()).take_while(|(new, old)| new == old).count();
    let (new, old) = (text.lines().nth(same), known.lines().nth(same));
    assert!(
        text == known,
        "{file}, line {}: {new:?}, not {old:?}; CONTACTD_WRITE_TEXTS=1 writes it anew",
        same + 1
    );
}
