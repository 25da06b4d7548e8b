//! Taking over everything of another engine.
//!
//! Rows come in parts, each in a transaction that also notes how far this is: a move that was interrupted goes on from there.

use bytes::Bytes;
use contactd_core::store::Stored;
use contactd_core::store::moving::{MOVED, MovedKey, MovedRows, MovedTable, Part};
use futures_util::SinkExt;

use crate::PostgresStore;
use crate::database::{Counter, Work};
use crate::failure::Tried;
use crate::sealed_rows::seal_all;
use crate::usage::unsigned;

/// The fact that says how far a move is: the node, the table, and the key.
const FACT: &str = "move";

/// The end of that fact when everything is here.
const DONE: &str = " done";

/// The tables with the number of the change in each row.
const NUMBERED: [&str; 6] = ["tokens", "users", "admin_tokens", "suppressions", "sources", "details"];

/// How far a move is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveState {
    /// It can begin, or go on, with this table of [`MOVED`] after this key.
    At(usize, Option<MovedKey>),
    /// Everything is here.
    Done,
    /// The database holds something else, or another store is being moved into it.
    Taken,
}

impl PostgresStore {
    /// How far the move of a node's store is. The first time, notes that it has begun.
    pub async fn begin_move(&self, node: &str) -> Stored<MoveState> {
        let begin = move |work: Work| async move {
            let noted = "SELECT value FROM facts WHERE name = $1";
            if let Some(row) = work.query_opt(noted, &[&FACT]).await? {
                return Ok(parse(row.get(0), node));
            }
            let held = "SELECT EXISTS (SELECT 1 FROM nodes) OR EXISTS (SELECT 1 FROM tokens)
                OR EXISTS (SELECT 1 FROM suppressions) OR EXISTS (SELECT 1 FROM users)
                OR EXISTS (SELECT 1 FROM admin_tokens) OR EXISTS (SELECT 1 FROM details)
                OR EXISTS (SELECT 1 FROM imports) OR EXISTS (SELECT 1 FROM names)
                OR EXISTS (SELECT 1 FROM facts WHERE name = 'digest_key')";
            if work.query_one(held, &[]).await?.get(0) {
                return Ok(MoveState::Taken);
            }
            note(&work, &format(node, 0, None)).await?;
            Ok(MoveState::At(0, None))
        };
        self.database.prepare(begin).await
    }

    /// Whether a move has begun and not ended.
    pub async fn is_half_moved(&self) -> Stored<bool> {
        let noted = self.database.query_opt("SELECT value FROM facts WHERE name = $1", &[&FACT]).await?;
        Ok(noted.is_some_and(|row| !row.get::<_, &str>(0).ends_with(DONE)))
    }

    /// Stores rows of a table, and notes how far the move is.
    pub async fn put_moved(&self, node: &str, table: usize, rows: &MovedRows) -> Stored<()> {
        let counter = match MOVED[table].to {
            "users" | "admin_tokens" => Counter::Accounts,
            _ if MOVED[table].part == Part::Access => Counter::Access,
            _ => Counter::Details,
        };
        let put = move |work: Work| async move {
            copy(&work, &MOVED[table], rows).await?;
            seal_all(&work, counter).await?;
            let next = if rows.next.is_some() { table } else { table + 1 };
            note(&work, &format(node, next, rows.next)).await
        };
        self.database.change(counter, put).await
    }

    /// How many rows a table has.
    pub async fn count_moved(&self, table: &MovedTable) -> Stored<u64> {
        let count = format!("SELECT count(*) FROM {}", table.to);
        Ok(unsigned(self.database.query_one(&count, &[]).await?.get(0)))
    }

    /// Notes that everything is here.
    pub async fn end_move(&self, node: &str) -> Stored<()> {
        let end = move |work: Work| async move {
            for table in ["names", "former"] {
                let set = format!(
                    "SELECT setval(pg_get_serial_sequence('contactd.{table}', 'id'),
                         (SELECT coalesce(max(id), 0) + 1 FROM {table}), FALSE)"
                );
                work.execute(&set, &[]).await?;
            }
            note(&work, &format!("{node}{DONE}")).await
        };
        self.database.prepare(end).await
    }
}

async fn copy(work: &Work, table: &MovedTable, rows: &MovedRows) -> Tried<()> {
    if table.key.is_none() {
        // It comes as a whole, so whatever is there goes.
        work.execute(&format!("DELETE FROM {}", table.to), &[]).await?;
    }
    let mut columns: Vec<String> = rows.columns.iter().map(|column| format!("\"{column}\"")).collect();
    let mut end = "\n".to_owned();
    if NUMBERED.contains(&table.to) {
        columns.push("number".to_owned());
        end = format!("\t{}\n", work.number);
    }
    let copy = format!("COPY {} ({}) FROM STDIN", table.to, columns.join(", "));
    let sink = work.copy_in::<_, Bytes>(&copy).await?;
    let mut sink = std::pin::pin!(sink);
    for lines in rows.lines.chunks(1_000) {
        let mut piece = String::new();
        for line in lines {
            piece.push_str(line);
            piece.push_str(&end);
        }
        sink.send(Bytes::from(piece)).await?;
    }
    sink.as_mut().finish().await?;
    Ok(())
}

async fn note(work: &Work, value: &str) -> Tried<()> {
    let note = "INSERT INTO facts VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    work.execute(note, &[&FACT, &value]).await?;
    Ok(())
}

fn format(node: &str, table: usize, after: Option<MovedKey>) -> String {
    match after {
        Some((first, second)) => format!("{node} {table} {first} {second}"),
        None => format!("{node} {table}"),
    }
}

fn parse(value: &str, node: &str) -> MoveState {
    let mut words = value.split(' ');
    if words.next() != Some(node) {
        return MoveState::Taken;
    }
    let rest: Vec<&str> = words.collect();
    let number = |at: usize| rest.get(at).and_then(|word| word.parse::<i64>().ok());
    match (rest.first(), number(0)) {
        (Some(&"done"), _) => MoveState::Done,
        (_, Some(table)) => MoveState::At(usize::try_from(table).unwrap_or(0), number(1).zip(number(2))),
        _ => MoveState::Taken,
    }
}
