//! `contactd usage`

use std::io;
use std::process::ExitCode;

use contactd_core::Timestamp;
use contactd_services::NamedUsage;
use serde::Serialize;

use crate::cli::UsageArgs;
use crate::commands::audit;
use crate::context::Context;
use crate::{output, progress};

#[derive(Serialize)]
struct ShownUsage {
    day: String,
    token: String,
    name: Option<String>,
    hits: u64,
    misses: u64,
    refused: u64,
}

impl From<NamedUsage> for ShownUsage {
    fn from(NamedUsage { usage, token_name }: NamedUsage) -> Self {
        Self {
            day: Timestamp::start_of_day(usage.day).to_string()[.."2026-05-01".len()].to_owned(),
            token: usage.token,
            name: token_name,
            hits: usage.hits,
            misses: usage.misses,
            refused: usage.refused,
        }
    }
}

impl ShownUsage {
    fn cells(&self) -> Vec<String> {
        let counts = [self.hits, self.misses, self.refused].map(|count| count.to_string());
        let name = self.name.clone().unwrap_or_default();
        [vec![self.day.clone(), self.token.clone(), name], counts.to_vec()].concat()
    }
}

pub(crate) async fn run(context: &Context, args: &UsageArgs) -> anyhow::Result<ExitCode> {
    let counting = context.services.audits.usage(&context.actor, args.token.as_deref());
    let (usage, index) = progress::during("indexing the journal", counting).await?;
    audit::warn(&index);
    audit::warn_of_superseded(context).await?;
    let usage: Vec<ShownUsage> = usage.into_iter().map(ShownUsage::from).collect();
    if args.json {
        output::json(&usage)?;
    } else if args.csv {
        let mut writer = csv::Writer::from_writer(io::stdout());
        output::csv_row(&mut writer, ["day", "token", "name", "hits", "misses", "refused"])?;
        for row in &usage {
            output::csv_row(&mut writer, row.cells())?;
        }
        writer.flush()?;
    } else if usage.is_empty() {
        output::words(format_args!("nothing has been looked up yet"));
    } else {
        let rows: Vec<_> = usage.iter().map(ShownUsage::cells).collect();
        output::table(&["DAY", "TOKEN", "NAME", "HITS", "MISSES", "REFUSED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
