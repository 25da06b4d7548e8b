//! `contactd usage`

use std::io;
use std::process::ExitCode;

use contactd_core::Timestamp;
use contactd_core::store::{AuditIndex, AuditUsage};
use serde::Serialize;

use crate::cli::UsageArgs;
use crate::commands::audit::{named_tokens, token_names};
use crate::context::Context;
use crate::{indexer, output};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    day: String,
    token: String,
    name: Option<String>,
    hits: u64,
    misses: u64,
    refused: u64,
}

pub(crate) async fn run(context: &Context, args: &UsageArgs) -> anyhow::Result<ExitCode> {
    indexer::catch_up(&context.store, &context.dir.audit()).await?;
    let names = token_names(context).await?;
    let tokens = args.token.as_deref().map(|wanted| named_tokens(&names, wanted)).transpose()?;
    let usage: Vec<Shown> = context
        .store
        .audit_usage()
        .await?
        .into_iter()
        .map(|AuditUsage { token, day, hits, misses, refused }| Shown {
            day: Timestamp::start_of_day(day).to_string()[.."2026-05-01".len()].to_owned(),
            name: names.get(&token).cloned(),
            token,
            hits,
            misses,
            refused,
        })
        .filter(|shown| tokens.as_ref().is_none_or(|tokens| tokens.contains(&shown.token)))
        .collect();
    if args.json {
        output::json(&usage)?;
    } else if args.csv {
        let mut writer = csv::Writer::from_writer(io::stdout());
        writer.write_record(["day", "token", "name", "hits", "misses", "refused"])?;
        for row in &usage {
            let [hits, misses, refused] = [row.hits, row.misses, row.refused].map(|count| count.to_string());
            let name = row.name.as_deref().unwrap_or_default();
            writer.write_record([&row.day, &row.token, name, &hits, &misses, &refused])?;
        }
        writer.flush()?;
    } else if usage.is_empty() {
        output::words(format_args!("nothing has been looked up yet"));
    } else {
        let row = |shown: &Shown| {
            let counts = [shown.hits, shown.misses, shown.refused].map(|count| count.to_string());
            let name = shown.name.clone().unwrap_or_default();
            [vec![shown.day.clone(), shown.token.clone(), name], counts.to_vec()].concat()
        };
        let rows: Vec<_> = usage.iter().map(row).collect();
        output::table(&["DAY", "TOKEN", "NAME", "HITS", "MISSES", "REFUSED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
