//! Copies of the journals of all nodes.
//!
//! Who adds to the copy of a node locks the row of its name, as for the index. A step says where it begins and ends, which
//! makes it happen once.

use async_trait::async_trait;
use contactd_core::store::{
    CopiedLine, CopyStep, EntryPlace, JournalCopies, ShippedJournal, StoreError, Stored,
};
use contactd_core::{AuditPosition, ShortDigest, SignedLine, Timestamp};
use tokio_postgres::Row;

use crate::PostgresStore;
use crate::audit::{lock_node, place, position_in};
use crate::database::Work;
use crate::failure::{Failure, Tried};
use crate::usage::{signed, unsigned};

/// How many lines one statement adds.
const CHUNK: usize = 5_000;
/// How many lines one transaction removes.
const REMOVED: i64 = 20_000;

/// By the index of entries, in the newest copy of each node.
const FIND_ENTRIES: &str =
    "SELECT substring(line FROM '\"entry\":\"([0-9a-f]+)\"'), node, lines.seq
    FROM journal_lines AS lines JOIN journal_copies AS copies ON copies.id = lines.copy
    WHERE line LIKE '%\"actor\":%' AND substring(line FROM '\"entry\":\"([0-9a-f]+)\"') = ANY($1)
        AND NOT EXISTS (SELECT 1 FROM journal_copies AS later WHERE later.node = copies.node AND later.id > copies.id)";
const LAST: &str =
    "SELECT id, segment, \"offset\", seq, chain FROM journal_copies WHERE node = $1 ORDER BY id DESC LIMIT 1";
const BEGIN: &str = "INSERT INTO journal_copies (node, name)
    VALUES ($1, coalesce((SELECT name FROM nodes WHERE id = $1), '')) RETURNING id";
const MOVE: &str =
    "UPDATE journal_copies SET segment = $2, \"offset\" = $3, seq = $4, chain = $5, shipped_at = now(),
        name = coalesce((SELECT name FROM nodes WHERE id = journal_copies.node), name),
        removed_through = greatest(removed_through, $6)
    WHERE id = $1";
/// A number that is there already can only have been put there by somebody else: what the node says counts.
const ADD_LINES: &str = "INSERT INTO journal_lines (copy, seq, begins_segment, line)
    SELECT $1, * FROM unnest($2::bigint[], $3::boolean[], $4::text[])
    ON CONFLICT (copy, seq) DO UPDATE SET begins_segment = excluded.begins_segment, line = excluded.line";
const ADD_LIST: &str = "INSERT INTO journal_lists (name, part, digests) VALUES ($1, $2, $3)
    ON CONFLICT (name, part) DO UPDATE SET added_at = now()";
const ADD_SEALS: &str =
    "INSERT INTO journal_seals (copy, seq, line) SELECT $1, * FROM unnest($2::bigint[], $3::text[])
    ON CONFLICT (copy, seq) DO UPDATE SET line = excluded.line";

#[async_trait]
impl JournalCopies for PostgresStore {
    async fn copy_position(&self, node: &str) -> Stored<Option<AuditPosition>> {
        let read = move |work: Work| async move {
            self.check_claim(&work, node).await?;
            let last = work.query_opt(LAST, &[&node]).await?;
            Ok(Some(last.map(|row| position_in(&row, 1)).transpose()?.unwrap_or_default()))
        };
        self.database.read(read).await
    }

    async fn add_to_copy(&self, step: CopyStep<'_>) -> Stored<bool> {
        self.database.prepare(move |work| async move { add(self, &work, step).await }).await
    }

    async fn begin_journal_copy(&self, node: &str) -> Stored<()> {
        let prepare = move |work: Work| async move {
            lock_node(&work, node).await?;
            self.check_claim(&work, node).await?;
            // One that nothing was added to is a new one.
            let last = work.query_opt(LAST, &[&node]).await?;
            if last.is_some_and(|row| row.get::<_, i64>(3) > 0) {
                work.query_one(BEGIN, &[&node]).await?;
            }
            Ok(())
        };
        self.database.prepare(prepare).await
    }

    async fn trim_copy(&self, node: &str) -> Stored<bool> {
        let remove = "DELETE FROM journal_lines USING journal_copies
            WHERE journal_copies.node = $1 AND copy = id AND journal_lines.seq <= removed_through
                AND journal_lines.seq < $2 + (SELECT min(seq) FROM journal_lines WHERE copy = id)";
        Ok(self.database.execute(remove, &[&node, &REMOVED]).await? > 0)
    }

    async fn remove_earlier_copies(&self, node: &str) -> Stored<()> {
        let find = "SELECT id FROM journal_copies WHERE node = $1
            AND id < (SELECT max(id) FROM journal_copies WHERE node = $1)";
        self.remove_copies(&self.database.query(find, &[&node]).await?).await
    }

    async fn remove_old_copies(&self, before: Timestamp) -> Stored<()> {
        let find = "SELECT id FROM journal_copies AS copies
            WHERE shipped_at < to_timestamp($1::bigint / 1000.0)
                AND (NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = copies.node)
                    OR id < (SELECT max(id) FROM journal_copies WHERE node = copies.node))";
        self.remove_copies(&self.database.query(find, &[&before.millis()]).await?).await
    }

    async fn list_copies(&self) -> Stored<Vec<ShippedJournal>> {
        let list =
            "SELECT copies.id, segment, \"offset\", seq, chain, node, coalesce(nodes.name, copies.name),
                floor(extract(epoch FROM shipped_at) * 1000)::bigint,
                copies.id = max(copies.id) OVER (PARTITION BY node)
            FROM journal_copies AS copies LEFT JOIN nodes ON nodes.id = copies.node ORDER BY node, copies.id";
        self.database.query(list, &[]).await?.iter().map(|row| Ok(shipped(row)?)).collect()
    }

    async fn copied_segments(&self, copy: i32) -> Stored<Vec<u64>> {
        // Whatever comes before the first one belongs to none, and must not be overlooked.
        let list = "WITH kept AS (SELECT removed_through FROM journal_copies WHERE id = $1)
            SELECT seq FROM journal_lines, kept WHERE copy = $1 AND seq > removed_through AND begins_segment
            UNION SELECT min(seq) FROM journal_lines, kept WHERE copy = $1 AND seq > removed_through ORDER BY 1";
        let rows = self.database.query(list, &[&copy]).await?;
        Ok(rows.iter().filter_map(|row| row.get::<_, Option<i64>>(0)).map(unsigned).collect())
    }

    async fn copied_lines(&self, copy: i32, from: u64, most: u32) -> Stored<Vec<CopiedLine>> {
        let list = "SELECT seq, begins_segment, line FROM journal_lines WHERE copy = $1 AND seq >= $2
            AND seq > (SELECT removed_through FROM journal_copies WHERE id = $1) ORDER BY seq LIMIT $3";
        let rows = self.database.query(list, &[&copy, &signed(from), &i64::from(most)]).await?;
        let line = |row: &Row| CopiedLine {
            seq: unsigned(row.get(0)),
            begins_segment: row.get(1),
            text: row.get(2),
        };
        Ok(rows.iter().map(line).collect())
    }

    async fn add_list_part(&self, list: &str, part: u32, digests: &[u8]) -> Stored<()> {
        self.database.execute(ADD_LIST, &[&list, &number(part), &digests]).await.map(drop)
    }

    async fn list_part(&self, list: &str, part: u32) -> Stored<Option<Vec<u8>>> {
        let find = "SELECT digests FROM journal_lists WHERE name = $1 AND part = $2";
        let rows = self.database.query(find, &[&list, &number(part)]).await?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    async fn lists_with(&self, digests: &[ShortDigest]) -> Stored<Option<Vec<String>>> {
        let find = "SELECT DISTINCT name FROM journal_lists, unnest($1::bytea[]) AS wanted
            WHERE wanted >= substring(digests FOR 16)
                AND wanted <= substring(digests FROM octet_length(digests) - 15)
                AND position(wanted IN digests) > 0";
        let wanted: Vec<&[u8]> = digests.iter().map(|digest| &digest.0[..]).collect();
        Ok(Some(self.database.query(find, &[&wanted]).await?.iter().map(|row| row.get(0)).collect()))
    }

    async fn lists_before(&self, time: Timestamp) -> Stored<Vec<String>> {
        let find = "SELECT name FROM journal_lists GROUP BY name
            HAVING max(added_at) < to_timestamp($1::bigint / 1000.0)";
        Ok(self.database.query(find, &[&time.millis()]).await?.iter().map(|row| row.get(0)).collect())
    }

    async fn remove_list(&self, list: &str) -> Stored<()> {
        self.database.execute("DELETE FROM journal_lists WHERE name = $1", &[&list]).await.map(drop)
    }

    async fn find_copied(&self, ids: &[String]) -> Stored<Vec<EntryPlace>> {
        let rows = self.database.query(FIND_ENTRIES, &[&ids]).await?;
        Ok(rows.iter().map(place).collect())
    }

    async fn copied_seals(&self, copy: i32) -> Stored<Vec<String>> {
        let list = "SELECT line FROM journal_seals WHERE copy = $1 ORDER BY seq";
        Ok(self.database.query(list, &[&copy]).await?.iter().map(|row| row.get(0)).collect())
    }
}

impl PostgresStore {
    /// Removes copies, their lines bit by bit.
    async fn remove_copies(&self, copies: &[Row]) -> Stored<()> {
        for copy in copies.iter().map(|row| row.get::<_, i32>(0)) {
            let remove = move |work: Work| async move {
                let lines = "DELETE FROM journal_lines WHERE copy = $1
                    AND seq < $2 + (SELECT min(seq) FROM journal_lines WHERE copy = $1)";
                if work.execute(lines, &[&copy, &REMOVED]).await? > 0 {
                    return Ok::<_, Failure>(true);
                }
                work.execute("DELETE FROM journal_seals WHERE copy = $1", &[&copy]).await?;
                work.execute("DELETE FROM journal_copies WHERE id = $1", &[&copy]).await?;
                Ok(false)
            };
            while self.database.prepare(remove).await? {}
        }
        Ok(())
    }
}

fn number(part: u32) -> i32 {
    i32::try_from(part).unwrap_or(i32::MAX)
}

async fn add(store: &PostgresStore, work: &Work, step: CopyStep<'_>) -> Tried<bool> {
    lock_node(work, step.node).await?;
    store.check_claim(work, step.node).await?;
    let (copy, position) = match work.query_opt(LAST, &[&step.node]).await? {
        Some(row) => (row.get::<_, i32>(0), position_in(&row, 1)?),
        None => (work.query_one(BEGIN, &[&step.node]).await?.get(0), AuditPosition::default()),
    };
    if position != step.from {
        // An earlier attempt may have been committed.
        return Ok(position == step.to);
    }
    for lines in step.lines.chunks(CHUNK) {
        let numbers: Vec<i64> = lines.iter().map(|line| signed(line.seq)).collect();
        let begin: Vec<bool> = lines.iter().map(|line| line.begins_segment).collect();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        if work.execute(ADD_LINES, &[&copy, &numbers, &begin, &texts]).await? != lines.len() as u64 {
            return Err(not_kept());
        }
    }
    let earlier = step.seals.iter().map(|(seq, text)| (signed(*seq), text.as_str()));
    let sealed = |line: &&SignedLine| line.is_seal;
    let now = step.lines.iter().filter(sealed).map(|line| (signed(line.seq), line.text.as_str()));
    let (numbers, texts): (Vec<i64>, Vec<&str>) = earlier.chain(now).unzip();
    if !numbers.is_empty() {
        work.execute(ADD_SEALS, &[&copy, &numbers, &texts]).await?;
    }
    let removed = step.lines.iter().filter_map(|line| line.retires).max().unwrap_or(0);
    let AuditPosition { segment, offset, seq, chain } = step.to;
    let (segment, offset, seq, removed) = (signed(segment), signed(offset), signed(seq), signed(removed));
    match work.execute(MOVE, &[&copy, &segment, &offset, &seq, &&chain[..], &removed]).await? {
        1 => Ok(true),
        _ => Err(not_kept()),
    }
}

fn not_kept() -> Failure {
    let why = "the database does not keep what nodes ship of their journals: look for rules and triggers on journal_copies and \
               journal_lines; `contactd doctor` names them";
    StoreError::Tampered(why.to_owned()).into()
}

fn shipped(row: &Row) -> Tried<ShippedJournal> {
    Ok(ShippedJournal {
        copy: row.get(0),
        position: position_in(row, 1)?,
        node: row.get(5),
        name: row.get(6),
        shipped_at: Timestamp::from_millis(row.get(7)),
        is_last: row.get(8),
    })
}
