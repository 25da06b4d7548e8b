//! `contactd usage`

use std::process::ExitCode;

use contactd_services::views::UsageView;

use crate::cli::UsageArgs;
use crate::commands::audit;
use crate::context::Context;
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &UsageArgs) -> anyhow::Result<ExitCode> {
    let counting = context.services.audits.usage(&context.actor, args.token.as_deref());
    let (usage, index) = progress::during("indexing the journal", counting).await?;
    audit::warn(&index);
    audit::warn_of_superseded(context).await?;
    if args.json {
        output::json(&usage)?;
    } else if args.csv {
        output::csv(UsageView::COLUMNS, usage.iter().map(UsageView::cells))?;
    } else if usage.is_empty() {
        output::words(format_args!("nothing has been looked up yet"));
    } else {
        let rows: Vec<_> = usage.iter().map(|row| row.cells().to_vec()).collect();
        output::table(&["DAY", "TOKEN", "NAME", "HITS", "MISSES", "REFUSED"], &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}
