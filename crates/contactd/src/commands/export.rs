//! `contactd export`: prints everything that is held, in a format that can be imported again.

use std::io::{self, BufWriter};
use std::process::ExitCode;

use contactd_admin::ExportWriter;
use contactd_core::{Detail, Profile};

use crate::cli::{ExportArgs, ExportFormat};
use crate::context::Context;
use crate::output;
use crate::progress::Working;

pub(crate) async fn run(context: &Context, args: &ExportArgs) -> anyhow::Result<ExitCode> {
    let format = match args.format {
        ExportFormat::Csv => contactd_admin::ExportFormat::Csv,
        ExportFormat::Jsonl if args.json => contactd_admin::ExportFormat::JsonArray,
        ExportFormat::Jsonl => contactd_admin::ExportFormat::Jsonl,
    };
    let mut writer = ExportWriter::new(format, BufWriter::with_capacity(1 << 16, io::stdout()))?;
    let mut failed = None;
    let working = Working::beside_data("exporting");
    let visit = |profile: &Profile, details: &[Detail]| {
        failed = writer.write(profile, details).err();
        if let Some(working) = &working {
            working.count("exporting", Some((writer.written().0, "profiles")), None);
        }
        failed.is_none()
    };
    let actor = context.actor_for(args.ticket.as_deref());
    let exported = context.services.subjects.export(&actor, args.source.as_deref(), visit).await;
    drop(working);
    exported?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let (profiles, _) = writer.written();
    writer.finish()?;
    if let (0, Some(source)) = (profiles, &args.source) {
        output::words(format_args!("nothing of source {source} is held; `contactd stats` lists the sources"));
    }
    Ok(ExitCode::SUCCESS)
}
