//! What operators do, each as a task that can be given up at any point.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use contactd_services::{
    Changed, Clearing, EraseOptions, ImportError, ImportOptions, IssuedToken, MaxRejects, NewToken,
    OptOutOptions, Services,
};

use contactd_core::store::{Aged, DetailFilter};
use contactd_core::{
    AccessTables, Actor, Cancel, DiskBudget, Kind, Lifetime, Quota, RawRecord, Scopes, Via, unobserved,
};
use contactd_import::{Files, Input, ReadOptions, Rejects};

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
        live: Arc<AccessTables<Faulty>>,
        token_id: Option<String>,
    ) -> Task {
        Box::pin(async move { self.run(&services, &live, token_id.as_deref().unwrap_or_default()).await })
    }

    async fn run(self, services: &Services, live: &AccessTables<Faulty>, token_id: &str) -> Ended {
        let actor = Actor::new("olga", Via::Console);
        let Services { tokens, opt_outs, subjects, imports, .. } = services;
        match self {
            Self::Suppress(who) => {
                ended(opt_outs.suppress(&actor, &[who.name()], OptOutOptions::default()).await)
            }
            Self::Unsuppress(who) => ended(opt_outs.unsuppress(&actor, &[who.name()]).await),
            Self::Erase(person) => {
                let options = EraseOptions::default();
                let named = Who::Person(person).name();
                ended(subjects.erase(&actor, &named, options, &unobserved).await)
            }
            Self::Remove(person) => {
                let profile = model::profile(person);
                ended(subjects.remove(&actor, &profile, &DetailFilter::all(), &unobserved).await)
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
                ended(subjects.correct(&actor, &row, &unobserved).await)
            }
            Self::Import { rows, source, replaces } => {
                let mut rows = files(&rows, source);
                let options = ImportOptions {
                    replace_source: replaces,
                    max_rejects: MaxRejects::Rows(0),
                    ..ImportOptions::default()
                };
                let done = imports.run(&actor, &mut rows, &options, &unobserved, &Cancel::default()).await;
                match done {
                    Ok(done) if !done.done.committed => Ended::Refused,
                    done => ended(done),
                }
            }
            Self::Undo(id) => match imports.undo(&actor, id, &unobserved, &Cancel::default()).await {
                Err(error) if !matches!(error, ImportError::Store(_)) => Ended::Refused,
                done => ended(done),
            },
            Self::Sweep => {
                let cancel = Cancel::default();
                let sweep = imports.sweep(&actor, Aged::Not, Clearing::Always, &unobserved, &cancel);
                ended(sweep.await)
            }
            Self::Create(limit) => {
                let quota: Quota = format!("{limit}/day").parse().expect("a quota");
                let rate = Some("2/s".parse().expect("a rate"));
                let (scopes, lifetime) = (Scopes::ALL, Lifetime::For(Duration::from_secs(30 * 3_600)));
                let (name, quota) = ("crm".to_owned(), Some(quota));
                let new = NewToken { name, scopes, sandbox: false, lifetime, rate, quota };
                let Ok(committed) = tokens.create(&actor, new).await else { return Ended::Failed };
                Ended::Created(KnownToken::of(&committed.announce().await, limit))
            }
            Self::Revoke(_) => ended(tokens.revoke(&actor, token_id).await),
            Self::Rotate(_, overlap) => {
                let Ok(committed) = tokens.rotate(&actor, token_id, overlap, None).await else {
                    return Ended::Failed;
                };
                let changed = committed.announce().await;
                let issued = &changed.done;
                let limit = issued.token.quota.map_or(0, |quota| quota.limit);
                let ends = issued.rotated.as_ref().and_then(|old| old.expires_at);
                Ended::Rotated(KnownToken::of(&changed, limit), ends)
            }
            Self::Refresh => live.refresh().await.map_or(Ended::Failed, |()| Ended::Done),
            Self::Flush => live.flush_usage().await.map_or(Ended::Failed, |()| Ended::Done),
        }
    }
}

fn ended<T, E>(result: Result<Changed<T>, E>) -> Ended {
    match result {
        Ok(changed) if changed.confirmed.is_ok() => Ended::Done,
        Ok(_) => Ended::NotConfirmed,
        Err(_) => Ended::Failed,
    }
}

impl KnownToken {
    fn of(changed: &Changed<IssuedToken>, quota: u32) -> Box<Self> {
        let IssuedToken { secret, token, .. } = &changed.done;
        Box::new(Self {
            id: token.id.clone(),
            secret: secret.expose().to_owned(),
            family: token.family.clone(),
            quota,
            is_revoked: false,
            expires_at: token.expires_at,
            is_unknown: changed.confirmed.is_err(),
        })
    }
}

/// Rows of an import.
fn files(rows: &[(usize, Kind, usize)], source: &str) -> Files {
    let mut csv = "profileUrl,phone,email,confidence,expiresAt,source\n".to_owned();
    for &(person, kind, number) in rows {
        let detail = model::detail(kind, number, source);
        let (phone, email) = match kind {
            Kind::Phone => (detail.value.expose(), ""),
            Kind::Email => ("", detail.value.expose()),
        };
        let (url, expires_at) = (model::url(person), detail.expires_at.map(|at| at.to_string()));
        let expires_at = expires_at.unwrap_or_default();
        csv += &format!("{url},{phone},{email},{},{expires_at},{source}\n", detail.confidence);
    }
    let inputs = vec![Input::Csv("rows.csv", csv.into())];
    Files::new(
        inputs,
        None,
        ReadOptions::default(),
        DiskBudget::new(std::env::temp_dir()),
        Rejects::nowhere(),
    )
}
