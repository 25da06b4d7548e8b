//! `contactd suppress`, `contactd unsuppress`

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use contactd_core::store::Suppressions;
use contactd_core::{ContactValue, Kind, Profile, Subject};
use serde::Serialize;

use crate::cli::SubjectArgs;
use crate::context::Context;
use crate::output;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    In,
    Back,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    read: u64,
    changed: u64,
    rejected: Vec<Reject>,
}

#[derive(Serialize)]
struct Reject {
    /// The line of the list, or the number of the argument.
    line: u64,
    reason: String,
}

/// What was named: a person, a number or an address.
enum Named {
    Person(Profile),
    Value(Kind, ContactValue),
}

impl Named {
    fn subject(&self) -> Subject<'_> {
        match self {
            Self::Person(profile) => Subject::Profile(profile),
            Self::Value(kind, value) => Subject::Value(*kind, value),
        }
    }
}

pub(crate) async fn run(context: &Context, args: &SubjectArgs, way: Way) -> anyhow::Result<ExitCode> {
    let mut named = Vec::new();
    let mut report = Report { read: 0, changed: 0, rejected: Vec::new() };
    let mut take = |line: u64, result: anyhow::Result<Named>| {
        report.read += 1;
        match result {
            Ok(name) => named.push(name),
            Err(error) => report.rejected.push(Reject { line, reason: format!("{error:#}") }),
        }
    };
    let person = |url: &str| context.profile(url).map(Named::Person);
    for (number, url) in (1..).zip(&args.urls) {
        take(number, person(url));
    }
    for (number, text) in (1..).zip(&args.phone) {
        let value = phone(text).with_context(|| format!("--phone, number {number}"));
        take(number, value.map(|value| Named::Value(Kind::Phone, value)));
    }
    for (number, text) in (1..).zip(&args.email) {
        let value = email(text).with_context(|| format!("--email, number {number}"));
        take(number, value.map(|value| Named::Value(Kind::Email, value)));
    }
    if let Some(file) = &args.list {
        for (line, text) in lines(file)? {
            take(line, recognize(&text, person));
        }
    }
    // Those that can be read are dealt with even if others cannot: nobody waits for
    // somebody else's typing error.
    report.changed = match way {
        Way::In => {
            let digests: Vec<_> =
                named.iter().filter_map(|name| context.keys.digest(name.subject())).collect();
            context.store.suppress(&digests, context.now()).await?
        }
        Way::Back => {
            let digests: Vec<_> =
                named.iter().flat_map(|name| context.keys.all_digests(name.subject())).collect();
            context.store.unsuppress(&digests).await?
        }
    };
    let confirmed = context.announce();
    tell(&report, way, args.json)?;
    confirmed?;
    Ok(if report.rejected.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(report: &Report, way: Way, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(report);
    }
    let (done, already) = match way {
        Way::In => ("suppressed", "were so already"),
        Way::Back => ("no longer suppressed", "were not"),
    };
    let accepted = report.read - report.rejected.len() as u64;
    output::words(format_args!(
        "{} {done}, {} {already}",
        report.changed,
        accepted.saturating_sub(report.changed)
    ));
    for reject in report.rejected.iter().take(20) {
        output::words(format_args!("not understood, number or line {}: {}", reject.line, reject.reason));
    }
    if report.rejected.len() > 20 {
        output::words(format_args!("and {} more; --json lists all", report.rejected.len() - 20));
    }
    Ok(())
}

fn lines(file: &Path) -> anyhow::Result<Vec<(u64, String)>> {
    let input: Box<dyn BufRead> = match file.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => {
            let what = || format!("cannot read {}", file.display());
            let open = std::fs::File::open(file).with_context(what)?;
            if open.metadata().with_context(what)?.is_dir() {
                anyhow::bail!("{} is a directory; name a file", file.display());
            }
            Box::new(BufReader::new(open))
        }
    };
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(input.split(b'\n')) {
        let line = line?;
        if number == 1
            && (line.contains(&0) || line.starts_with(b"\x1F\x8B") || line.starts_with(b"\x28\xB5\x2F\xFD"))
        {
            anyhow::bail!(
                "{} is compressed or not UTF-8; unpack it, or save it as UTF-8 text",
                file.display()
            );
        }
        let line = String::from_utf8_lossy(&line).trim_matches(['\u{FEFF}', '\r', ' ', '\t']).to_owned();
        // An address may begin with # too.
        let is_comment = line.starts_with('#') && email(&line).is_err();
        if !line.is_empty() && !is_comment {
            lines.push((number, line));
        }
    }
    Ok(lines)
}

/// A line of a list: a number has digits and no letters; an address has an @ and reads as one; the rest is a profile.
fn recognize(line: &str, person: impl Fn(&str) -> anyhow::Result<Named>) -> anyhow::Result<Named> {
    let has_digits = line.chars().any(|c| c.is_ascii_digit());
    if has_digits && !line.contains('@') && !line.chars().any(char::is_alphabetic) {
        return phone(line).map(|value| Named::Value(Kind::Phone, value));
    }
    if line.contains('@') {
        let address = email(line);
        if address.is_ok() || !line.contains('/') {
            return address.map(|value| Named::Value(Kind::Email, value));
        }
    }
    person(line)
}

pub(crate) fn phone(text: &str) -> anyhow::Result<ContactValue> {
    ContactValue::known_phone(text).map_err(|error| {
        anyhow::anyhow!("this phone number cannot be read ({error}); write it with + and its country code")
    })
}

pub(crate) fn email(text: &str) -> anyhow::Result<ContactValue> {
    ContactValue::email(text).map_err(|error| {
        anyhow::anyhow!("this e-mail address cannot be read ({error}); write it like ada@example.com")
    })
}
