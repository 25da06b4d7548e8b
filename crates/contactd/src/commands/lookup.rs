//! `contactd lookup`: sends lookups to a running service, as any client would.

use std::process::ExitCode;

use crate::cli::LookupArgs;
use crate::client::{Client, LookupAnswer};
use crate::output;

pub(crate) fn run(args: &LookupArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.service)?;
    let mut answers = Vec::new();
    for profile_url in &args.profile_urls {
        let answer = client.ask(args.kind, profile_url)?;
        if !args.json {
            show(&answer)?;
        }
        answers.push(answer);
    }
    if args.json {
        output::json(&answers)?;
    }
    let all_found = answers.iter().all(|answer| answer.value().is_some());
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the value to stdout, or an empty line and the reason to stderr, so that each URL has
/// exactly one line of output.
fn show(answer: &LookupAnswer) -> anyhow::Result<()> {
    match answer.value() {
        Some(value) => output::data(format_args!("{value}"))?,
        None => {
            output::data(format_args!(""))?;
            let reason = answer.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let message = answer.message.as_deref().unwrap_or("the service gave no further explanation");
            output::words(format_args!("{} {}{reason}: {message}", answer.code, answer.status));
        }
    }
    Ok(())
}
