//! `contactd enrich`: reads a file and writes the same rows with what the service knows.
//!
//! Every distinct URL is looked up once. Answers are first written to a journal next to the output, so that
//! an interrupted run continues where it stopped, and so that they need no memory. The output gets its final
//! name when it is complete, and the journal is then deleted.

mod asking;
mod journal;
mod sheet;
mod urls;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Context, bail};
use asking::{Question, ask_all};
use contactd_core::Kind;
use journal::AnswerLog;
use serde::Serialize;
use sheet::Sheet;

use crate::cli::EnrichArgs;
use crate::client::Client;
use crate::commands::import::advice::read_as;
use crate::output;
use crate::progress::{self, ROWS, Working};

/// What is known about one URL and kind.
pub(crate) struct LookedUp {
    /// `ok`, `not_found`, or `invalid: ` and a reason.
    pub(crate) status: Cow<'static, str>,
    pub(crate) value: Option<String>,
    /// The canonical form of the URL, if the service accepted it.
    pub(crate) canonical: Option<String>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    rows: u64,
    distinct_urls: u64,
    /// Lookups answered in this run.
    asked: u64,
    phone: BTreeMap<Cow<'static, str>, u64>,
    email: BTreeMap<Cow<'static, str>, u64>,
}

pub(crate) fn run(args: &EnrichArgs) -> anyhow::Result<ExitCode> {
    let output = args.output();
    if output.symlink_metadata().is_ok() {
        bail!("{} exists; choose another file name, or move it away", output.display());
    }
    let kinds: Vec<Kind> =
        Kind::ALL.into_iter().filter(|kind| args.only.is_none_or(|only| only == *kind)).collect();
    let client = Client::new(&args.service)?;
    let sheet = Sheet::read(args)?;
    if let Some(how) = read_as(&sheet.about()) {
        output::words(format_args!("{how}"));
    }
    let urls = &sheet.urls;
    let mut journal = AnswerLog::open(output, args.service.url.trim_end_matches('/'), urls)?;
    let questions: Vec<Question> = urls
        .numbers()
        .flat_map(|url| kinds.iter().map(move |&kind| Question { url, kind }))
        .filter(|question| !journal.has(question.url, question.kind))
        .collect();
    let known = urls.len() * kinds.len() - questions.len();
    if known > 0 {
        output::words(format_args!(
            "continuing: {known} answers are already in {}",
            journal.path().display()
        ));
    }
    let working = Working::start("asking");
    let mut asked = 0;
    let all = questions.len() as u64;
    let done = ask_all(&client, urls, &questions, usize::from(args.concurrency), |answered| {
        asked += answered.len() as u64;
        working.count("asking", Some((asked, ROWS)), Some(progress::share(asked, all)));
        journal.add(urls, answered)
    });
    drop(working);
    done.with_context(|| {
        let answers = output::counted(asked, "answer");
        format!("stopped after {answers}, which are kept; once this is solved, run the same command again to continue")
    })?;

    let mut summary = Summary { distinct_urls: urls.len() as u64, asked, ..Summary::default() };
    let mut answers = journal.reader()?;
    let rows = sheet.write(output, &kinds, |kind, url| {
        let looked_up = urls.number(url).map(|url| answers.looked_up(url, kind)).transpose()?.flatten();
        // Only an empty URL has no answer: it was never looked up.
        let looked_up =
            looked_up.unwrap_or(LookedUp { status: "invalid: empty".into(), value: None, canonical: None });
        let counts = if kind == Kind::Phone { &mut summary.phone } else { &mut summary.email };
        *counts.entry(looked_up.status.clone()).or_default() += 1;
        Ok(looked_up)
    })?;
    drop(answers);
    summary.rows = rows;
    journal.remove()?;
    show(&summary, args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn show(summary: &Summary, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(summary);
    }
    for (what, count) in
        [("rows", summary.rows), ("distinct URLs", summary.distinct_urls), ("lookups", summary.asked)]
    {
        output::data(format_args!("{what:<32}{count:>10}"))?;
    }
    for (kind, counts) in [("phone", &summary.phone), ("email", &summary.email)] {
        for (status, count) in counts {
            output::data(format_args!("{:<32}{count:>10}", format!("{kind} {status}")))?;
        }
    }
    Ok(())
}
