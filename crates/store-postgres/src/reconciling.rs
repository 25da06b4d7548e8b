//! Putting back what a node holds, after somebody changed rows of the database.
//!
//! Opt-outs that came into the database after what the node holds stay, and so do revocations and restrictions of tokens: somebody may
//! have made them by a command, and they disclose nothing. Everything else becomes what the node holds, under a new seal.

use std::collections::BTreeMap;

use contactd_core::store::copying::{AccessChanges, ChangePoint, CopiedSuppression};
use contactd_core::store::sealing::{BoundRow, RowSum, StateKey};
use contactd_core::store::{EntityRow, EntityTable, StoreError, Stored, TakenOver, Withdrawals};
use contactd_core::{AdminEntry, MOST_SUBJECTS, SubjectDigest, Timestamp};
use serde::Serialize;

use crate::database::{Counter, Work, random_id};
use crate::entities::{list_since, put};
use crate::failure::Tried;
use crate::maintenance::take_over;
use crate::sealed_rows::seal_all;
use crate::sealing::changes_between;
use crate::suppressions::copied;
use crate::{PostgresStore, outbox};

/// A row of the database that is not as the node holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DifferentRow {
    /// `token` or `opt-out`.
    pub what: &'static str,
    /// The id of the token; the digest of the opt-out as the journal names it.
    pub id: String,
    /// How it differs.
    pub how: Difference,
}

/// How a row differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// The database does not have it. It is put back.
    Missing,
    /// It was changed. It is changed back.
    Changed,
    /// Somebody added it. It is removed.
    Added,
    /// The database had it and lost it. It is put back.
    Lost,
    /// It is newer than what the node holds, and stays: an opt-out, or a restriction of a token. A new token is revoked.
    Newer,
}

/// What has to be done.
#[derive(Default)]
struct Plan {
    differences: Vec<DifferentRow>,
    stored_tokens: Vec<EntityRow>,
    removed_tokens: Vec<String>,
    stored: Vec<CopiedSuppression>,
    removed: Vec<CopiedSuppression>,
    /// All rows that there are afterwards.
    all: AccessChanges,
}

impl PostgresStore {
    /// How tokens and suppressions differ from what a node holds. Fails if its copy is not what was sealed.
    pub async fn compare_access(&self, held: &AccessChanges, now: Timestamp) -> Stored<Vec<DifferentRow>> {
        let read = move |work: Work| async move {
            if let Some(keys) = self.keys() {
                let number = held.at.number;
                let changes = changes_between(&work, Counter::Access, number - 1, number).await?;
                let sealed = changes.last().filter(|last| last.id == held.at.id);
                let opened = sealed.map(|last| last.open(changes.iter().rev().nth(1), keys));
                if let Some(Ok((key, sum))) = opened
                    && key.sum(held.rows()) != sum
                {
                    let what =
                        "this node's own copy is not what contactd stored either: run this on another node";
                    return Err(StoreError::Tampered(what.to_owned()).into());
                }
            }
            Ok(plan(&work, held, now).await?.differences)
        };
        self.database.read(read).await
    }

    /// Puts back what a node holds, and seals it. Without anything that is held, what the database has is sealed as it is.
    pub async fn put_back(
        &self,
        held: Option<&AccessChanges>,
        entry: &AdminEntry,
        now: Timestamp,
    ) -> Stored<Vec<DifferentRow>> {
        let key = &self.sealing_key()?;
        self.mend_counter(Counter::Access, held.map(|held| &held.at)).await?;
        let change = move |work: Work| async move {
            let Some(held) = held else {
                work.seal_anew(key, RowSum::default());
                seal_all(&work, Counter::Access).await?;
                outbox::add(&work, Some(entry), &[]).await?;
                return Ok(Vec::new());
            };
            let plan = plan(&work, held, now).await?;
            plan.apply(&work).await?;
            work.seal_anew(key, key.sum(plan.all.rows()));
            let count = |how| plan.differences.iter().filter(|row| row.how == how).count() as u64;
            let counts = [
                ("missing", count(Difference::Missing)),
                ("changed", count(Difference::Changed)),
                ("added", count(Difference::Added)),
                ("newer", count(Difference::Newer)),
            ];
            let opt_outs = plan.differences.iter().filter(|row| row.what == OPT_OUT);
            let subjects = opt_outs.take(MOST_SUBJECTS).map(|row| row.id.clone()).collect();
            outbox::add(&work, Some(&AdminEntry { subjects, ..entry.clone() }), &counts).await?;
            Ok(plan.differences)
        };
        self.database.change(Counter::Access, change).await
    }

    /// Seals users and admin tokens as they were listed. If they are others by now, their fault stays.
    pub async fn accept_accounts(
        &self,
        listed: &[(EntityTable, Vec<EntityRow>)],
        entry: &AdminEntry,
    ) -> Stored<()> {
        let key = &self.sealing_key()?;
        self.mend_counter(Counter::Accounts, None).await?;
        let bound = |(table, rows): &(EntityTable, Vec<EntityRow>)| {
            key.sum(rows.iter().map(|row| BoundRow::Entity(*table, row)))
        };
        let sum = listed.iter().map(bound).fold(RowSum::default(), RowSum::plus);
        let change = move |work: Work| async move {
            work.seal_anew(key, sum);
            outbox::add(&work, Some(entry), &[]).await
        };
        self.database.change(Counter::Accounts, change).await
    }

    /// Puts back opt-outs and limits of tokens that the database has lost.
    pub async fn put_back_lost(
        &self,
        lost: &Withdrawals,
        entry: &AdminEntry,
        now: Timestamp,
    ) -> Stored<TakenOver> {
        let change = move |work: Work| async move {
            let mut taken = TakenOver::default();
            take_over(&work, Counter::Access, lost, now, &mut taken).await?;
            let counts = [
                ("optOuts", taken.suppressions),
                ("revocations", taken.revocations),
                ("restrictions", taken.restrictions),
            ];
            let subjects = lost.suppressions.iter().take(MOST_SUBJECTS).map(|(subject, _)| subject.name());
            let entry = AdminEntry { subjects: subjects.collect(), ..entry.clone() };
            outbox::add(&work, Some(&entry), &counts).await?;
            Ok(taken)
        };
        self.database.change(Counter::Access, change).await
    }

    fn sealing_key(&self) -> Stored<StateKey> {
        let key = self.keys().and_then(|keys| keys.state_key(keys.newest_id()));
        key.ok_or_else(|| StoreError::Unavailable("there is no digest key".to_owned()))
    }

    /// Gives a counter the number of its newest change, and a row for that: with the next one, the seals go on from there. The
    /// change that is held is put back if it is missing.
    async fn mend_counter(&self, counter: Counter, held: Option<&ChangePoint>) -> Stored<()> {
        let id = &random_id()?;
        let mend = move |work: Work| async move {
            let name = counter.name();
            work.execute("INSERT INTO counters VALUES ($1, 0) ON CONFLICT DO NOTHING", &[&name]).await?;
            work.execute("SELECT 1 FROM counters WHERE counter = $1 FOR UPDATE", &[&name]).await?;
            if let Some(ChangePoint { number, id }) = held.filter(|held| held.number > 0) {
                let wrong = "DELETE FROM changes WHERE counter = $1 AND number = $2 AND id <> $3";
                work.execute(wrong, &[&name, number, id]).await?;
                let known =
                    "INSERT INTO changes (counter, number, id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
                work.execute(known, &[&name, number, id]).await?;
                let number = "UPDATE counters SET number = (SELECT max(number) FROM changes WHERE counter = $1) WHERE counter = $1";
                work.execute(number, &[&name]).await?;
            }
            let newest = "INSERT INTO changes (counter, number, id)
                SELECT counter, number, $2 FROM counters WHERE counter = $1 AND number > 0 ON CONFLICT DO NOTHING";
            work.execute(newest, &[&name, id]).await?;
            Ok(())
        };
        self.database.prepare(mend).await
    }
}

impl DifferentRow {
    /// What the database has lost.
    pub fn of_lost(lost: &Withdrawals) -> Vec<Self> {
        let tokens = lost.tokens.iter().map(|(_, token)| ("token", token.id.clone()));
        let opt_outs = lost.suppressions.iter().map(|(subject, _)| (OPT_OUT, subject.name()));
        tokens.chain(opt_outs).map(|(what, id)| Self { what, id, how: Difference::Lost }).collect()
    }
}

const OPT_OUT: &str = "opt-out";

async fn plan(work: &Work, held: &AccessChanges, now: Timestamp) -> Tried<Plan> {
    let mut plan = Plan::default();
    let (there, newer) = (
        list_since(work, EntityTable::Tokens, -1).await?,
        list_since(work, EntityTable::Tokens, held.at.number).await?,
    );
    plan.decide_tokens(held, &there, newer, now)?;
    let rows =
        "SELECT digest, key, suppressed_at, is_removed, number > $1 FROM suppressions WHERE NOT is_removed";
    let rows = work.query(rows, &[&held.at.number]).await?;
    let there = rows.iter().map(|row| (copied(row), row.get(4)));
    plan.decide_suppressions(held, there);
    Ok(plan)
}

impl Plan {
    fn note(&mut self, what: &'static str, id: String, how: Difference) {
        self.differences.push(DifferentRow { what, id, how });
    }

    fn decide_tokens(
        &mut self,
        held: &AccessChanges,
        there: &[EntityRow],
        mut newer: Vec<EntityRow>,
        now: Timestamp,
    ) -> Stored<()> {
        // What cannot be read restricts nothing.
        let of = |row: &EntityRow| [vec![row.clone()], Vec::new(), Vec::new()];
        newer.retain(|row| Withdrawals::from_rows(Vec::new(), of(row)).is_ok());
        let withdrawn = Withdrawals::from_rows(Vec::new(), [newer, Vec::new(), Vec::new()])?;
        let restricted =
            withdrawn.decide(EntityTable::Tokens, &held.tokens, now, &mut TakenOver::default())?;
        let mut wanted: BTreeMap<&str, (&EntityRow, bool)> =
            held.tokens.iter().map(|row| (&*row.id, (row, false))).collect();
        wanted.extend(restricted.iter().map(|row| (&*row.id, (row, true))));
        for row in there.iter().filter(|row| !wanted.contains_key(&*row.id)) {
            self.note("token", row.id.clone(), Difference::Added);
            self.removed_tokens.push(row.id.clone());
        }
        for (id, (row, is_newer)) in wanted {
            let found = there.iter().find(|there| there.id == id);
            let how = match found {
                _ if is_newer => Some(Difference::Newer),
                None => Some(Difference::Missing),
                Some(there) => {
                    (there.family != row.family || there.body != row.body).then_some(Difference::Changed)
                }
            };
            if let Some(how) = how {
                self.note("token", id.to_owned(), how);
                self.stored_tokens.push(row.clone());
            }
            self.all.tokens.push(row.clone());
        }
        Ok(())
    }

    fn decide_suppressions(
        &mut self,
        held: &AccessChanges,
        there: impl Iterator<Item = (CopiedSuppression, bool)>,
    ) {
        let key = |row: &CopiedSuppression| (row.digest.clone(), row.key.clone());
        let mut missing: BTreeMap<_, _> = held.suppressions.iter().map(|row| (key(row), row)).collect();
        for (row, is_newer) in there {
            match missing.remove(&key(&row)) {
                Some(held) if *held == row => {}
                Some(held) => {
                    self.note(OPT_OUT, name(held), Difference::Changed);
                    self.stored.push(held.clone());
                }
                None if is_newer => {
                    self.note(OPT_OUT, name(&row), Difference::Newer);
                    self.all.suppressions.push(row);
                }
                None => {
                    self.note(OPT_OUT, name(&row), Difference::Added);
                    self.removed.push(row);
                }
            }
        }
        for row in missing.into_values() {
            self.note(OPT_OUT, name(row), Difference::Missing);
            self.stored.push(row.clone());
        }
        self.all.suppressions.extend(held.suppressions.iter().cloned());
    }

    async fn apply(&self, work: &Work) -> Tried<()> {
        work.execute("DELETE FROM tokens WHERE id = ANY($1)", &[&self.removed_tokens]).await?;
        put(work, EntityTable::Tokens, &[], &self.stored_tokens).await?;
        for CopiedSuppression { digest, key, .. } in &self.removed {
            let remove = "DELETE FROM suppressions WHERE digest = $1 AND key = $2";
            work.execute(remove, &[digest, key]).await?;
        }
        for CopiedSuppression { digest, key, suppressed_at, .. } in &self.stored {
            let store =
                "INSERT INTO suppressions (digest, key, suppressed_at, number) VALUES ($1, $2, $3, $4)
                ON CONFLICT (digest, key) DO UPDATE
                    SET is_removed = FALSE, suppressed_at = excluded.suppressed_at, number = excluded.number";
            work.execute(store, &[digest, key, suppressed_at, &work.number]).await?;
        }
        Ok(())
    }
}

/// How the journal names it.
fn name(row: &CopiedSuppression) -> String {
    let bytes = <[u8; 32]>::try_from(&row.digest[..]).unwrap_or_default();
    SubjectDigest { key: row.key.clone(), bytes }.name()
}
