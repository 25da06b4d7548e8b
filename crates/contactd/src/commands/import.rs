//! `contactd import`: all or nothing, and every row accounted for.

mod csv_rows;
mod rejects;
mod report;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::store::{Details, Import};
use contactd_core::{Record, RecordError, Subject, SuppressionList};

use crate::cli::{ImportArgs, MaxRejects};
use crate::context::Context;
use crate::output;
use csv_rows::{CsvRows, Defaults};
use rejects::Rejects;
use report::Report;

pub(crate) async fn run(context: &Context, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let mut rejects = Rejects::to(rejects_file(args), args.dry_run);
    let mut load = Load::begin(context).await?;
    for file in &args.files {
        let defaults =
            Defaults { source: args.source.as_deref(), region: args.region.as_deref(), mapping: &args.map };
        let rows = CsvRows::read(open(file)?, defaults).with_context(|| name(file))?;
        load.add(context, rows, &mut rejects).with_context(|| name(file))?;
    }
    let Load { import, mut report, sources, .. } = load;
    let rejects_file = rejects.finish()?;
    let too_many = too_many_rejects(&report, args.max_rejects);
    report.changed = !too_many && !args.dry_run;
    if report.changed {
        import.commit(&report.summary(sources))?;
        context.announce()?;
    } else {
        drop(import);
    }
    if args.json {
        output::json(&report)?;
    } else {
        report.show(args.dry_run)?;
    }
    if let Some(file) = rejects_file {
        output::words(format_args!("the rejected rows are in {}", file.display()));
    }
    if too_many {
        output::words(format_args!(
            "contactd: nothing was loaded: {} of {} rows were rejected, more than --max-rejects allows",
            report.rejected, report.rows
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Loads people that come with the program; says how many profiles there are then.
pub(crate) async fn load_built_in(context: &Context, csv: &'static str) -> anyhow::Result<u64> {
    let mut load = Load::begin(context).await?;
    let mut rejects = Rejects::to(None, true);
    let rows = CsvRows::read(Box::new(csv.as_bytes()), Defaults::default())?;
    load.add(context, rows, &mut rejects)?;
    if load.report.rejected > 0 {
        bail!("{} of the built-in rows are not valid", load.report.rejected);
    }
    let Load { import, report, sources, .. } = load;
    import.commit(&report.summary(sources))?;
    Ok(context.store.totals().await?.profiles)
}

/// An import under way, and what has been seen of it.
struct Load<'a> {
    import: <contactd_store_sqlite::SqliteStore as Details>::Import<'a>,
    suppressions: SuppressionList,
    sources: Vec<String>,
    report: Report,
}

impl<'a> Load<'a> {
    async fn begin(context: &'a Context) -> anyhow::Result<Self> {
        Ok(Self {
            import: context.store.begin_import(context.now()).await?,
            suppressions: context.suppressions().await?,
            sources: Vec::new(),
            report: Report::default(),
        })
    }

    fn add(&mut self, context: &Context, mut rows: CsvRows<'_>, rejects: &mut Rejects) -> anyhow::Result<()> {
        while let Some(row) = rows.next()? {
            self.report.rows += 1;
            match row.record(&context.networks) {
                Ok(record) => self.put(record)?,
                Err(error) => self.reject(row.line(), error, rejects, &row)?,
            }
        }
        Ok(())
    }

    fn put(&mut self, record: Record) -> anyhow::Result<()> {
        let Record { profile, mut details } = record;
        let all = details.len();
        if self.suppressions.contains(Subject::Profile(&profile)) {
            details.clear();
        }
        details.retain(|detail| !self.suppressions.contains(Subject::Value(detail.kind, &detail.value)));
        self.report.suppressed += (all - details.len()) as u64;
        for detail in &details {
            if !self.sources.contains(&detail.source) {
                self.sources.push(detail.source.clone());
            }
        }
        if !details.is_empty() {
            self.report.add(self.import.put(&profile, &details)?);
        }
        Ok(())
    }

    fn reject(
        &mut self,
        line: u64,
        error: RecordError,
        rejects: &mut Rejects,
        row: &csv_rows::Row<'_>,
    ) -> anyhow::Result<()> {
        self.report.reject(line, error);
        rejects.add(line, error, row)
    }
}

fn too_many_rejects(report: &Report, max: MaxRejects) -> bool {
    match max {
        MaxRejects::Rows(rows) => report.rejected > rows,
        MaxRejects::Share(share) => report.rejected as f64 > share * report.rows as f64,
    }
}

fn open(file: &Path) -> anyhow::Result<Box<dyn Read>> {
    if file == Path::new("-") {
        return Ok(Box::new(io::stdin()));
    }
    let open = File::open(file).with_context(|| format!("cannot read {}", file.display()))?;
    if open.metadata()?.is_dir() {
        bail!("{} is a directory; name the CSV files in it", file.display());
    }
    Ok(Box::new(open))
}

fn name(file: &Path) -> String {
    if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() }
}

/// Where rejected rows go: where the operator says, or beside the first file.
fn rejects_file(args: &ImportArgs) -> Option<PathBuf> {
    let beside = || {
        let first = args.files.first()?;
        let name = if first == Path::new("-") { "stdin".into() } else { first.as_os_str().to_owned() };
        let mut name = name;
        name.push(".rejects.csv");
        Some(PathBuf::from(name))
    };
    args.rejects.clone().or_else(beside)
}
