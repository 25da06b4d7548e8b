//! `contactd import`: all or nothing, and every row accounted for.

pub(crate) mod csv_rows;
mod input;
mod json_rows;
mod load;
mod packed;
mod parquet_rows;
mod put;
mod rejects;
mod report;
pub(crate) mod rows;
mod sort;

use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::bail;
use contactd_core::store::{Aged, Details};
use contactd_core::{ContactValue, Kind, Profile, Subject, SuppressionList};

use crate::cli::{ImportArgs, MaxRejects};
use crate::context::Context;
use crate::misuse::Misuse;
use crate::progress::Progress;
use crate::span::Span;
use crate::{control, output};
use load::{Inputs, Load, Plan};
use rejects::Rejects;
use report::Report;
use rows::Defaults;

/// How long an import that was asked to stop may take to notice.
const STOP_PATIENCE: Duration = Duration::from_millis(700);

pub(crate) async fn run(context: &Context, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if let Some((column, _)) =
        args.map.iter().enumerate().find_map(|(at, map)| args.map[..at].iter().find(|other| other.0 == map.0))
    {
        return Err(Misuse(format!("--map names {column} twice; a column has one header")).into());
    }
    let is_served = control::is_served(&context.dir);
    if is_served {
        leave_a_core_to_the_server();
    }
    stop_on_ctrl_c()?;
    let is_only_a_try = args.dry_run && args.rejects.is_none();
    let mut rejects = if is_only_a_try {
        Rejects::nowhere()
    } else {
        Rejects::to(load::rejects_file(args.rejects.as_deref(), &args.files), &args.files)?
    };
    let plan = Plan {
        inputs: Inputs::Files(&args.files),
        format: args.format,
        defaults: Defaults {
            source: args.source.as_deref(),
            region: args.region.as_deref(),
            mapping: &args.map,
            room: Some(context.dir.path()),
        },
        threads: load::threads(),
    };
    let progress = Progress::new(input::size(&args.files));
    let carried_out = carry_out(context, args, &plan, &mut rejects, &progress).await;
    progress.end();
    let report = carried_out?;
    let confirmed = if report.committed { context.announce() } else { Ok(()) };
    if args.json {
        output::json(&report)?;
    } else {
        report.show(args.dry_run)?;
    }
    if let Some(file) = rejects.finish()? {
        output::words(format_args!("the rejected rows are in {}", file.display()));
    }
    confirmed?;
    if too_many_rejects(&report, args.max_rejects) {
        output::words(format_args!(
            "contactd: nothing was loaded: {} of {} rows were rejected, more than --max-rejects allows",
            report.rejected, report.rows
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes this process and the threads it will have go behind the server: not on the first core, and last on the
/// others. Where the system does not allow that, the import goes on without.
fn leave_a_core_to_the_server() {
    let _ = rustix::process::nice(19);
    let Ok(mut cores) = rustix::thread::sched_getaffinity(None) else { return };
    let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|&core| cores.is_set(core));
    if let Some(first) = first.filter(|_| cores.count() > 1) {
        cores.unset(first);
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    }
}

/// Lets Ctrl-C end the import in its own words. The runtime is busy, so a thread listens.
fn stop_on_ctrl_c() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("ctrl-c".to_owned()).spawn(move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            load::STOP.store(true, Ordering::Relaxed);
            // Whoever waits for a line that does not come does not look. Nothing has been written by then.
            std::thread::sleep(STOP_PATIENCE);
            if load::IS_READING.load(Ordering::Relaxed) {
                output::words(format_args!("contactd: stopped; nothing was changed"));
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the main thread waits for input that may never come"
                )]
                std::process::exit(1);
            }
        }
    })?;
    Ok(())
}

async fn carry_out(
    context: &Context,
    args: &ImportArgs,
    plan: &Plan<'_>,
    rejects: &mut Rejects,
    progress: &Progress,
) -> anyhow::Result<Report> {
    let load = Load::read(context, plan, rejects, progress).await?;
    // What is not loaded is kept before anything is.
    rejects.finish()?;
    if too_many_rejects(&load.report, args.max_rejects) {
        return Ok(load.report);
    }
    if args.replace_source && load.report.rows == load.report.rejected && !args.allow_empty {
        bail!(
            "the files hold no row that is good, so everything of their source would go; nothing was changed. If \
             that is meant, say --allow-empty"
        );
    }
    let replaced = if args.replace_source { load.replaced(args.source.as_deref()) } else { Vec::new() };
    let max_age = args.max_age.map(|Span(max_age)| max_age);
    let put = load.put(context, (&replaced, max_age), progress).await?;
    if args.dry_run {
        return Ok(put.report);
    }
    let report = put.commit(context).await?;
    if max_age.is_some()
        && let Err(error) = context.store.sweep(context.now(), Aged::Policies).await
    {
        output::words(format_args!(
            "contactd: loaded, but what is older than --max-age could not be removed now ({error}); run `contactd sweep`"
        ));
    }
    Ok(report)
}

/// Loads people that come with the program; says how many profiles there are then.
pub(crate) async fn load_built_in(context: &Context, csv: &'static str) -> anyhow::Result<u64> {
    let plan = Plan { inputs: Inputs::BuiltIn(csv), format: None, defaults: Defaults::default(), threads: 1 };
    let progress = Progress::new(None);
    let load = Load::read(context, &plan, &mut Rejects::nowhere(), &progress).await?;
    if load.report.rejected > 0 {
        bail!("{} of the built-in rows are not valid", load.report.rejected);
    }
    load.put(context, (&[], None), &progress).await?.commit(context).await?;
    Ok(context.store.totals().await?.profiles)
}

/// Whether a detail's person, number or address has opted out.
pub(crate) fn is_out(
    suppressions: &SuppressionList,
    profile: &Profile,
    kind: Kind,
    value: &ContactValue,
) -> bool {
    suppressions.contains(Subject::Profile(profile)) || suppressions.contains(Subject::Value(kind, value))
}

fn too_many_rejects(report: &Report, max: MaxRejects) -> bool {
    match max {
        MaxRejects::Rows(rows) => report.rejected > rows,
        // Just as many as allowed are not too many, whatever the share's last binary digit says.
        MaxRejects::Share(share) => report.rejected as f64 > share * report.rows as f64 + 1e-6,
    }
}
