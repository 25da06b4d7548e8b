//! What operators do, each as a task that can be given up at any point.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use contactd_core::services::{
    Clearing, EraseOptions, ImportOptions, MaxRejects, NewToken, OptOutOptions, ReadRows, RecordBatch,
    RecordSource, RowChecks, RowsError, Services,
};
use contactd_core::store::{Aged, DetailFilter};
use contactd_core::{
    Actor, Cancel, Kind, Lifetime, Live, Observer, Quota, RawRecord, Record, Scopes, Via, unobserved,
};

use crate::faulty::Faulty;
use crate::model::{self, KnownToken, Who};

/// What is under way.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Suppress(Who),
    Unsuppress(Who),
    Erase(usize),
    Remove(usize),
    Put(usize, Kind, usize),
    Import { rows: Vec<(usize, Kind, usize)>, source: &'static str, replaces: bool },
    Undo(i64),
    Sweep,
    Create(u32),
    Revoke(usize),
    Rotate(usize, Duration),
    Refresh,
    Flush,
}

/// How it ended.
pub(crate) enum Ended {
    /// It returned, and the change is in force.
    Done,
    /// A token was created, and is in force.
    Created(Box<KnownToken>),
    /// A token was rotated, and that is in force: the new one, and when the old one ends.
    Rotated(Box<KnownToken>, Option<contactd_core::Timestamp>),
    /// It returned, but is not confirmed.
    NotConfirmed,
    /// It returned without a change, for a reason that is not a fault.
    Refused,
    Failed,
}

pub(crate) type Task = Pin<Box<dyn Future<Output = Ended>>>;

impl Action {
    /// Whether it may change details. Only one of these runs at a time.
    pub(crate) const fn changes_details(&self) -> bool {
        matches!(
            self,
            Self::Erase(_)
                | Self::Remove(_)
                | Self::Put(..)
                | Self::Import { .. }
                | Self::Undo(_)
                | Self::Sweep
        )
    }

    /// Whether it may change tokens or opt-outs.
    pub(crate) const fn changes_access(&self) -> bool {
        matches!(
            self,
            Self::Suppress(_)
                | Self::Unsuppress(_)
                | Self::Erase(_)
                | Self::Create(_)
                | Self::Revoke(_)
                | Self::Rotate(..)
        )
    }

    /// Whose opt-out it may change.
    pub(crate) const fn opts_out(&self) -> Option<Who> {
        match self {
            Self::Suppress(who) | Self::Unsuppress(who) => Some(*who),
            Self::Erase(person) => Some(Who::Person(*person)),
            _ => None,
        }
    }

    pub(crate) const fn token(&self) -> Option<usize> {
        match self {
            Self::Revoke(token) | Self::Rotate(token, _) => Some(*token),
            _ => None,
        }
    }

    /// The name of the entry that it leaves in the journal if it is done.
    pub(crate) const fn operation(&self) -> Option<&'static str> {
        match self {
            Self::Suppress(_) => Some("suppress"),
            Self::Unsuppress(_) => Some("unsuppress"),
            Self::Erase(_) => Some("erase"),
            Self::Import { .. } => Some("import"),
            Self::Undo(_) => Some("imports undo"),
            Self::Create(_) => Some("token create"),
            Self::Revoke(_) => Some("token revoke"),
            Self::Rotate(..) => Some("token rotate"),
            Self::Remove(_) | Self::Put(..) | Self::Sweep | Self::Refresh | Self::Flush => None,
        }
    }

    pub(crate) fn start(
        self,
        services: Arc<Services>,
        live: Arc<Live<Faulty>>,
        token_id: Option<String>,
    ) -> Task {
        Box::pin(async move { self.run(&services, &live, token_id.as_deref().unwrap_or_default()).await })
    }

    async fn run(self, services: &Services, live: &Live<Faulty>, token_id: &str) -> Ended {
        let actor = Actor::new("olga", Via::Console);
        let Services { tokens, opt_outs, subjects, imports, .. } = services;
        match self {
            Self::Suppress(who) => {
                let done =
                    opt_outs.suppress(&actor, &[who.name()], OptOutOptions::default(), &|_| true).await;
                ended(done.map(|done| done.confirmed.is_ok()))
            }
            Self::Unsuppress(who) => {
                let done = opt_outs.unsuppress(&actor, &[who.name()]).await;
                ended(done.map(|done| done.confirmed.is_ok()))
            }
            Self::Erase(person) => {
                let options = EraseOptions::default();
                let named = Who::Person(person).name();
                let done = subjects.erase(&actor, &named, options, &|_| true, &unobserved).await;
                ended(done.map(|done| done.confirmed.is_ok()))
            }
            Self::Remove(person) => {
                let profile = model::profile(person);
                let done = subjects.remove(&actor, &profile, &DetailFilter::all(), &unobserved).await;
                ended(done.map(|done| done.confirmed.is_ok()))
            }
            Self::Put(person, kind, number) => {
                let (url, value) = (model::url(person), model::value(kind, number));
                let (phone, email) = match kind {
                    Kind::Phone => (value.expose(), ""),
                    Kind::Email => ("", value.expose()),
                };
                let row = RawRecord {
                    profile_url: &url,
                    phone,
                    email,
                    source: "manual",
                    confidence: "100",
                    ..RawRecord::default()
                };
                ended(subjects.correct(&actor, &row, &unobserved).await.map(|done| done.confirmed.is_ok()))
            }
            Self::Import { rows, source, replaces } => {
                let mut rows = Rows { rows, source, left: None };
                let options = ImportOptions {
                    replace_source: replaces,
                    max_rejects: MaxRejects::Rows(0),
                    ..ImportOptions::default()
                };
                let done = imports.run(&actor, &mut rows, &options, &unobserved, &Cancel::default()).await;
                match done {
                    Ok(done) if !done.done.committed => Ended::Refused,
                    done => ended(done.map(|done| done.confirmed.is_ok())),
                }
            }
            Self::Undo(id) => match imports.undo(&actor, id, &unobserved, &Cancel::default()).await {
                Err(contactd_core::services::ImportError::Store(_)) => Ended::Failed,
                Err(_) => Ended::Refused,
                Ok(done) => ended(Ok::<_, ()>(done.confirmed.is_ok())),
            },
            Self::Sweep => {
                let cancel = Cancel::default();
                let sweep = imports.sweep(&actor, Aged::Not, Clearing::Always, &unobserved, &cancel);
                ended(sweep.await.map(|done| done.confirmed.is_ok()))
            }
            Self::Create(limit) => {
                let quota: Quota = format!("{limit}/day").parse().expect("a quota");
                let rate = Some("2/s".parse().expect("a rate"));
                let (scopes, lifetime) = (Scopes::ALL, Lifetime::For(Duration::from_secs(30 * 3_600)));
                let new = NewToken { name: "crm".to_owned(), scopes, lifetime, rate, quota: Some(quota) };
                let Ok(committed) = tokens.create(&actor, new).await else { return Ended::Failed };
                let changed = committed.announce().await;
                let issued = &changed.done;
                let mut token = KnownToken::of(issued.secret.expose(), &issued.token, limit);
                token.is_unknown = changed.confirmed.is_err();
                Ended::Created(Box::new(token))
            }
            Self::Revoke(_) => {
                ended(tokens.revoke(&actor, token_id).await.map(|done| done.confirmed.is_ok()))
            }
            Self::Rotate(_, overlap) => {
                let Ok(committed) = tokens.rotate(&actor, token_id, overlap, None).await else {
                    return Ended::Failed;
                };
                let changed = committed.announce().await;
                let issued = &changed.done;
                let limit = issued.token.quota.map_or(0, |quota| quota.limit);
                let mut token = KnownToken::of(issued.secret.expose(), &issued.token, limit);
                token.is_unknown = changed.confirmed.is_err();
                let ends = issued.rotated.as_ref().and_then(|old| old.expires_at);
                Ended::Rotated(Box::new(token), ends)
            }
            Self::Refresh => ended(live.refresh().await.map(|()| true)),
            Self::Flush => ended(live.flush_usage().await.map(|()| true)),
        }
    }
}

fn ended<E>(result: Result<bool, E>) -> Ended {
    match result {
        Ok(true) => Ended::Done,
        Ok(false) => Ended::NotConfirmed,
        Err(_) => Ended::Failed,
    }
}

impl KnownToken {
    fn of(secret: &str, token: &contactd_core::Token, quota: u32) -> Self {
        Self {
            id: token.id.clone(),
            secret: secret.to_owned(),
            family: token.family.clone(),
            quota,
            is_revoked: false,
            expires_at: token.expires_at,
            is_unknown: false,
        }
    }
}

/// Rows of an import.
struct Rows {
    rows: Vec<(usize, Kind, usize)>,
    source: &'static str,
    left: Option<Vec<Record>>,
}

impl RecordSource for Rows {
    fn read(&mut self, checks: &RowChecks<'_>, _: Observer<'_>, _: &Cancel) -> Result<ReadRows, RowsError> {
        let before = self.rows.len();
        self.rows.retain(|&(person, kind, number)| {
            !checks.suppressions.withholds(&model::profile(person), kind, &model::value(kind, number))
        });
        let (rows, records) = (before as u64, self.rows.len() as u64);
        let sources = [self.source.to_owned()].into();
        self.rewind()?;
        Ok(ReadRows { rows, records, sources, suppressed: rows - records, ..ReadRows::default() })
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, RowsError> {
        let next = self.left.as_mut().and_then(Vec::pop);
        Ok(next.map(|record| RecordBatch { records: vec![record], rows: 1 }))
    }

    fn rewind(&mut self) -> Result<(), RowsError> {
        let record = |person| {
            let of_person = self.rows.iter().filter(|row| row.0 == person);
            let details: Vec<_> = of_person.map(|row| model::detail(row.1, row.2, self.source)).collect();
            Record { profile: model::profile(person), details }
        };
        let records = (0..model::PEOPLE).map(record).filter(|record| !record.details.is_empty());
        self.left = Some(records.collect());
        Ok(())
    }
}
