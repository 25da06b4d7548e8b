//! The second half of an import: what was read and sorted is joined by profile and put into one transaction.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context as _, bail};
use contactd_core::store::{Details, Import, StoreError};
use contactd_core::{Detail, Profile, SuppressionList};
use contactd_store_sqlite::SqliteStore;

use super::load::{Load, stop_if_wanted};
use super::report::Report;
use super::sort::Sorted;
use super::{is_out, packed};
use crate::context::Context;
use crate::output;
use crate::progress::Progress;

/// Profiles that are handed on in one go.
const BATCH: usize = 1_000;

/// More details of one person than anyone has; the store has room for about twice as many.
const MAX_DETAILS: usize = 30_000;

impl Load {
    /// Puts everything into an import that can still be dropped. With the sources that are replaced, and how long the details
    /// of the rows' sources are held, if that is said.
    pub(crate) async fn put<'a>(
        self,
        context: &'a Context,
        (replaced, max_age): (&[String], Option<Duration>),
        progress: &Progress,
    ) -> anyhow::Result<Put<'a>> {
        let Self { sorter, suppressions, sources, report, .. } = self;
        let import = begin(context).await?;
        let mut put = Put { import, suppressions, sources, report };
        put.sources.extend(replaced.iter().cloned());
        let count = sorter.count;
        put.import.expect(count, replaced)?;
        if let Some(max_age) = max_age {
            put.import.set_max_age(&put.sources.iter().cloned().collect::<Vec<_>>(), max_age)?;
        }
        let sorted = sorter.finish().context("cannot sort the rows")?;
        std::thread::scope(|scope| {
            let (groups, coming) = sync_channel(4);
            // Reading and joining take as long as writing: a thread of their own.
            scope.spawn(move || {
                if let Err(error) = join_rows(sorted, &groups) {
                    let _ = groups.send(Err(error));
                }
            });
            let mut written = 0;
            for batch in coming {
                let Batch { groups, rows } = batch?;
                for (profile, details) in groups {
                    put.report.add(put.import.put(&profile, &details)?);
                }
                written += rows;
                stop_if_wanted()?;
                progress.show_share("writing", written, count);
            }
            anyhow::Ok(())
        })?;
        if !replaced.is_empty() {
            put.report.add(put.import.withdraw()?);
        }
        Ok(put)
    }
}

/// An import under way with everything in it.
pub(crate) struct Put<'a> {
    import: <SqliteStore as Details>::Import<'a>,
    suppressions: Arc<SuppressionList>,
    sources: BTreeSet<String>,
    pub(crate) report: Report,
}

impl Put<'_> {
    /// Commits, without those who opted out while the import ran.
    pub(crate) async fn commit(mut self, context: &Context) -> anyhow::Result<Report> {
        let now = context.suppressions().await?;
        if now.differs_from(&self.suppressions) {
            let taken = self.import.take_back(|profile, kind, value| is_out(&now, profile, kind, value))?;
            self.report.take_back(taken);
        }
        stop_if_wanted()?;
        self.import.commit(&self.report.summary(self.sources))?;
        self.report.committed = true;
        Ok(self.report)
    }
}

/// Everything about some profiles, in order, and how many rows that was.
struct Batch {
    groups: Vec<(Profile, Vec<Detail>)>,
    rows: u64,
}

/// Joins the rows of a profile, which come one behind the other but for those that share its place, and hands them on in batches.
fn join_rows(mut sorted: Sorted, batches: &SyncSender<anyhow::Result<Batch>>) -> anyhow::Result<()> {
    let mut batch = Batch { groups: Vec::with_capacity(BATCH), rows: 0 };
    // Where in the batch those begin that have the same place, nearly always one.
    let mut of_place = (0, 0);
    while let Some(bytes) = sorted.next().context("cannot read the sorted rows")? {
        let record = packed::unpack(bytes).context("a sorted row came back damaged; is the disk failing?")?;
        let place = SqliteStore::place(&record.profile);
        if of_place.0 != place {
            of_place = (place, batch.groups.len());
        }
        let same = batch.groups[of_place.1..].iter_mut().find(|(profile, _)| *profile == record.profile);
        match same {
            Some((_, details)) => {
                details.extend(record.details);
                if details.len() > MAX_DETAILS {
                    bail!("one profile has more than {MAX_DETAILS} details; nothing was loaded");
                }
            }
            None => {
                if batch.groups.len() >= BATCH && of_place.1 == batch.groups.len() {
                    of_place.1 = 0;
                    let next = Batch { groups: Vec::with_capacity(BATCH), rows: 0 };
                    // If nobody takes it, whoever did has told why.
                    if batches.send(Ok(std::mem::replace(&mut batch, next))).is_err() {
                        return Ok(());
                    }
                }
                batch.groups.push((record.profile, record.details));
            }
        }
        batch.rows += 1;
    }
    let _ = batches.send(Ok(batch));
    Ok(())
}

/// Begins an import as soon as nobody else writes, however long that takes.
async fn begin(context: &Context) -> anyhow::Result<<SqliteStore as Details>::Import<'_>> {
    let mut is_said = false;
    loop {
        match context.store.begin_import(context.now()).await {
            Err(StoreError::Busy) => {}
            begun => return Ok(begun?),
        }
        stop_if_wanted()?;
        if !std::mem::replace(&mut is_said, true) {
            output::words(format_args!("waiting: another command is writing to the store"));
        }
    }
}
