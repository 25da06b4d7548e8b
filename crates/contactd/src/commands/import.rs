//! `contactd import`: all or nothing, and every row accounted for.

pub(crate) mod csv_rows;
mod rejects;
mod report;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::store::{Details, Import};
use contactd_core::{ContactValue, Kind, Profile, Record, Subject, SuppressionList};

use crate::cli::{ImportArgs, MaxRejects};
use crate::context::Context;
use crate::output;
use csv_rows::{CsvRows, Defaults};
use rejects::Rejects;
use report::Report;

pub(crate) async fn run(context: &Context, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let is_only_a_try = args.dry_run && args.rejects.is_none();
    let mut rejects =
        if is_only_a_try { Rejects::nowhere() } else { Rejects::to(rejects_file(args), &args.files)? };
    let mut load = Load::begin(context).await?;
    for file in &args.files {
        let defaults =
            Defaults { source: args.source.as_deref(), region: args.region.as_deref(), mapping: &args.map };
        let rows = CsvRows::read(open(file)?, defaults).with_context(|| name(file))?;
        load.add(context, &name(file), rows, &mut rejects).with_context(|| name(file))?;
    }
    let rejects_file = rejects.finish()?;
    let too_many = too_many_rejects(&load.report, args.max_rejects);
    let report = if too_many || args.dry_run { load.report } else { load.commit(context).await? };
    let confirmed = if report.committed { context.announce() } else { Ok(()) };
    if args.json {
        output::json(&report)?;
    } else {
        report.show(args.dry_run)?;
    }
    if let Some(file) = rejects_file {
        output::words(format_args!("the rejected rows are in {}", file.display()));
    }
    confirmed?;
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
    let rows = CsvRows::read(Box::new(csv.as_bytes()), Defaults::default())?;
    load.add(context, "built-in", rows, &mut Rejects::nowhere())?;
    if load.report.rejected > 0 {
        bail!("{} of the built-in rows are not valid", load.report.rejected);
    }
    load.commit(context).await?;
    Ok(context.store.totals().await?.profiles)
}

/// An import under way, and what has been seen of it.
struct Load<'a> {
    import: <contactd_store_sqlite::SqliteStore as Details>::Import<'a>,
    suppressions: SuppressionList,
    sources: BTreeSet<String>,
    report: Report,
}

impl<'a> Load<'a> {
    async fn begin(context: &'a Context) -> anyhow::Result<Self> {
        Ok(Self {
            import: context.store.begin_import(context.now()).await?,
            suppressions: context.suppressions().await?,
            sources: BTreeSet::new(),
            report: Report::default(),
        })
    }

    fn add(
        &mut self,
        context: &Context,
        file: &str,
        mut rows: CsvRows<'_>,
        rejects: &mut Rejects,
    ) -> anyhow::Result<()> {
        while let Some(row) = rows.next()? {
            self.report.rows += 1;
            match row.record(&context.networks) {
                Ok(record) => self.put(record)?,
                Err(error) => {
                    self.report.reject(file, row.line(), error);
                    rejects.add(file, row.line(), error, &row)?;
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, record: Record) -> anyhow::Result<()> {
        let Record { profile, mut details } = record;
        for detail in &details {
            if !self.sources.contains(&detail.source) {
                self.sources.insert(detail.source.clone());
            }
        }
        let all = details.len();
        details.retain(|detail| !is_out(&self.suppressions, &profile, detail.kind, &detail.value));
        self.report.suppressed += (all - details.len()) as u64;
        if !details.is_empty() {
            self.report.add(self.import.put(&profile, &details)?);
        }
        Ok(())
    }

    /// Commits, without those who opted out while the import ran.
    async fn commit(mut self, context: &Context) -> anyhow::Result<Report> {
        let now = context.suppressions().await?;
        if now.differs_from(&self.suppressions) {
            let taken = self.import.take_back(|profile, kind, value| is_out(&now, profile, kind, value))?;
            self.report.take_back(taken);
        }
        self.import.commit(&self.report.summary(self.sources))?;
        self.report.committed = true;
        Ok(self.report)
    }
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
fn rejects_file(args: &ImportArgs) -> PathBuf {
    if let Some(chosen) = &args.rejects {
        return chosen.clone();
    }
    let first = args.files.first().filter(|file| *file != Path::new("-"));
    let mut name = first.map_or("stdin".into(), |file| file.as_os_str().to_owned());
    name.push(".rejects.csv");
    PathBuf::from(name)
}
