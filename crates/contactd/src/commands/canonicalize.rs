//! `contactd canonicalize`

use std::io::{self, BufRead, BufWriter, Write};
use std::process::ExitCode;

use contactd_contract::InvalidReason;
use contactd_core::Networks;
use contactd_server::invalid_reason;
use serde::Serialize;
use serde_json::Value;

use crate::cli::CanonicalizeArgs;

#[derive(Serialize)]
#[serde(untagged)]
enum Told<'a> {
    Canonical { canonical: String, network: Option<&'a str> },
    Refused { canonical: Option<()>, reason: &'static str, hint: &'static str },
}

pub(crate) fn run(networks: &Networks, args: &CanonicalizeArgs) -> anyhow::Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut tell = |line: &[u8]| -> anyhow::Result<()> {
        let told = if args.jsonl { tell_json(networks, line) } else { tell_line(networks, line) };
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
            tell(line.strip_suffix(b"\n").unwrap_or(&line))?;
            line.clear();
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn tell_json<'a>(networks: &'a Networks, line: &[u8]) -> Told<'a> {
    match serde_json::from_slice::<Value>(line) {
        Ok(Value::String(url)) => tell_url(networks, &url),
        Ok(_) => refused(InvalidReason::NOT_STRING),
        Err(_) => refused(InvalidReason::NOT_JSON),
    }
}

fn tell_line<'a>(networks: &'a Networks, line: &[u8]) -> Told<'a> {
    match std::str::from_utf8(line) {
        Ok(url) => tell_url(networks, url),
        Err(_) => refused(InvalidReason::BAD_ENCODING),
    }
}

fn tell_url<'a>(networks: &'a Networks, url: &str) -> Told<'a> {
    match networks.canonicalize(url) {
        Ok(profile) => {
            Told::Canonical { canonical: profile.as_str().to_owned(), network: networks.network_of(&profile) }
        }
        Err(reason) => refused(invalid_reason(reason)),
    }
}

fn refused<'a>(reason: InvalidReason) -> Told<'a> {
    Told::Refused { canonical: None, reason: reason.code, hint: reason.hint }
}
