//! `contactd canonicalize`

use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;

use contactd_contract::InvalidReason;
use contactd_core::Networks;
use contactd_server::invalid_reason;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::CanonicalizeArgs;

/// What is printed for one input.
#[derive(Serialize)]
struct Told<'a> {
    /// The line or the JSON value, as it was given.
    input: Box<RawValue>,
    #[serde(flatten)]
    result: Canonicalized<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Canonicalized<'a> {
    Canonical { canonical: String, network: Option<&'a str> },
    Refused { canonical: Option<()>, reason: &'static str, hint: &'static str },
}

pub(crate) fn run(networks: &Networks, args: &CanonicalizeArgs) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut tell = |line: &[u8]| -> anyhow::Result<()> {
        let told = if args.jsonl { tell_json(networks, line)? } else { tell_line(networks, line)? };
        serde_json::to_writer(&mut out, &told)?;
        out.write_all(b"\n")?;
        Ok(())
    };
    for url in &args.urls {
        tell(url.as_bytes())?;
    }
    if args.urls.is_empty() {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line)? > 0 {
            let end = line.strip_suffix(b"\n").unwrap_or(&line);
            tell(end.strip_suffix(b"\r").unwrap_or(end))?;
            line.clear();
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn tell_json<'a>(networks: &'a Networks, line: &[u8]) -> serde_json::Result<Told<'a>> {
    let result = match serde_json::from_slice::<Value>(line) {
        Ok(Value::String(url)) => canonicalize(networks, &url),
        Ok(_) => refused(InvalidReason::NOT_STRING),
        Err(_) => return Ok(Told { input: text(line)?, result: refused(InvalidReason::NOT_JSON) }),
    };
    Ok(Told { input: serde_json::from_slice(line)?, result })
}

fn tell_line<'a>(networks: &'a Networks, line: &[u8]) -> serde_json::Result<Told<'a>> {
    let result = match std::str::from_utf8(line) {
        Ok(url) => canonicalize(networks, url),
        Err(_) => refused(InvalidReason::BAD_ENCODING),
    };
    Ok(Told { input: text(line)?, result })
}

/// A line as a JSON string. What is not UTF-8 becomes the replacement character.
fn text(line: &[u8]) -> serde_json::Result<Box<RawValue>> {
    serde_json::value::to_raw_value(&String::from_utf8_lossy(line))
}

fn canonicalize<'a>(networks: &'a Networks, url: &str) -> Canonicalized<'a> {
    match networks.canonicalize(url) {
        Ok(profile) => Canonicalized::Canonical {
            canonical: profile.as_str().to_owned(),
            network: networks.network_of(&profile),
        },
        Err(reason) => refused(invalid_reason(reason)),
    }
}

fn refused<'a>(reason: InvalidReason) -> Canonicalized<'a> {
    Canonicalized::Refused { canonical: None, reason: reason.code, hint: reason.hint }
}
