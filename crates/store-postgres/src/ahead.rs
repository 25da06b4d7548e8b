//! Reading what is held at the places of an import, which come in order.
//!
//! A large import, or one that replaces a source, scans the table once, in step with its own records; the next rows are read
//! while it works on these. A small import looks its places up. An import into an empty store reads nothing.
//!
//! All this is read on a connection of its own: the import has the lock, so nobody else changes what is read.

use std::collections::VecDeque;

use contactd_core::store::place::{IDS_OF_PLACE, place_of};
use tokio::task::JoinHandle;
use tokio_postgres::Row;

use crate::database::{Database, Work};
use crate::failure::{Failure, Tried};
use crate::places::Place;
use crate::rows::{COLUMNS, HeldRow, Sources};

/// Rows read at a time.
const CHUNK: i64 = 20_000;

/// Looking up one profile costs about as much as scanning this many.
const SCAN_WORTH: u64 = 20;

pub(crate) struct Ahead {
    rows: VecDeque<HeldRow>,
    strategy: Strategy,
}

enum Strategy {
    Nothing,
    Lookups(Work),
    Scan { reader: Work, coming: Option<Coming> },
}

/// The next rows of a scan, which are on their way.
type Coming = JoinHandle<Tried<Vec<Row>>>;

impl Ahead {
    /// For about `records` records in order, with `held` profiles in the store. `all`: every row has to be read.
    pub(crate) async fn new(database: &Database, records: u64, held: u64, all: bool) -> Tried<Self> {
        let strategy = if held == 0 {
            Strategy::Nothing
        } else {
            let reader = database.reader().await?;
            if all || records.saturating_mul(SCAN_WORTH) > held {
                // In the order of the index, whatever the server knows about the table. This connection is for nothing else.
                let plan = "SET enable_seqscan TO off; SET enable_sort TO off";
                reader.batch_execute(plan).await?;
                let coming = Some(fetch(database, &reader, 0));
                Strategy::Scan { reader, coming }
            } else {
                Strategy::Lookups(reader)
            }
        };
        Ok(Self { rows: VecDeque::new(), strategy })
    }

    /// Prepares for these places, which come next. They have to be in order, each once.
    pub(crate) async fn look_up(
        &mut self,
        sources: &Sources,
        places: impl FnOnce() -> Vec<i64>,
    ) -> Tried<()> {
        if let Strategy::Lookups(reader) = &self.strategy {
            self.rows.extend(Place::rows(reader, sources, &places()).await?);
        }
        Ok(())
    }

    /// The next place before the id `end` that holds something. A scan gives all places, lookups only those that were
    /// prepared.
    pub(crate) async fn next_place(
        &mut self,
        database: &Database,
        sources: &Sources,
        end: i64,
    ) -> Tried<Option<Place>> {
        loop {
            let Some(first) = self.rows.front().map(|row| place_of(row.id)) else {
                if self.fetch_more(database, sources).await? {
                    continue;
                }
                return Ok(None);
            };
            if first >= end {
                return Ok(None);
            }
            // The rest of the place may not have been read yet.
            let is_whole = self.rows.back().is_some_and(|row| place_of(row.id) > first);
            if !is_whole && self.fetch_more(database, sources).await? {
                continue;
            }
            let rows = &mut self.rows;
            let here = std::iter::from_fn(|| rows.pop_front_if(|row| place_of(row.id) == first));
            return Ok(Some(Place::of(first, here)));
        }
    }

    /// Reads the next rows of a scan; returns whether there were any.
    async fn fetch_more(&mut self, database: &Database, sources: &Sources) -> Tried<bool> {
        let Strategy::Scan { reader, coming } = &mut self.strategy else { return Ok(false) };
        let Some(fetched) = coming.take() else { return Ok(false) };
        let rows = fetched.await.unwrap_or(Err(Failure::Silent))?;
        let Some(last) = rows.last() else { return Ok(false) };
        *coming = Some(fetch(database, reader, last.get::<_, i64>(0) + 1));
        for row in &rows {
            self.rows.push_back(HeldRow::read(row, sources)?);
        }
        Ok(true)
    }
}

fn fetch(database: &Database, reader: &Work, from: i64) -> Coming {
    let reader = reader.clone();
    database.spawn(async move {
        let select = format!("SELECT {COLUMNS} FROM details WHERE id >= $1 ORDER BY id LIMIT {CHUNK}");
        Ok(reader.query(&select, &[&from]).await?)
    })
}

/// Everything is before this id.
pub(crate) const END: i64 = i64::MAX - IDS_OF_PLACE;
