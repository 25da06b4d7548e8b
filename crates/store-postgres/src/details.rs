//! Details: listing, finding, removing.

use std::borrow::Cow;
use std::collections::HashMap;

use async_trait::async_trait;
use contactd_core::store::merge::TotalChanges;
use contactd_core::store::place::{IDS_OF_PLACE, first_id_of_key, kind};
use contactd_core::store::{
    DetailFilter, Details, Noted, ScanLimits, SourceRetention, Stored, SweepPlan, Swept, Totals, VisitDetails,
};
use contactd_core::{ContactValue, Detail, Kind, Profile, SlugParts, Timestamp};
use futures_util::StreamExt;

use crate::database::{Counter, Work};
use crate::failure::Tried;
use crate::places::{Place, take_away, write_totals};
use crate::rows::{COLUMNS, Sources, read_detail};
use crate::{PostgresStore, former, outbox, totals};

/// Rows fetched at a time when all are visited.
const CHUNK: usize = 5_000;

#[async_trait]
impl Details for PostgresStore {
    async fn list_details(&self, profile: &Profile) -> Stored<Vec<Detail>> {
        let read = move |work: Work| async move {
            let sources = Sources::read(&work).await?;
            let rows = Place::rows(&work, &sources, &Place::of_profiles([profile])).await?;
            let of_profile = rows.into_iter().filter(|row| row.profile == profile.key());
            Ok(of_profile.map(|row| row.held.detail).collect())
        };
        self.database.read(read).await
    }

    async fn remove_details(&self, profile: &Profile, which: &DetailFilter, entry: Noted<'_>) -> Stored<u64> {
        let change = move |work: Work| async move {
            let mut totals = TotalChanges::default();
            let sources = Sources::read(&work).await?;
            let is_gone = |of: &str, held: &contactd_core::store::merge::HeldDetail| {
                of == profile.key() && which.matches(&held.detail)
            };
            let places = Place::of_profiles([profile]);
            let taken = take_away(&work, &sources, &mut totals, &places, is_gone).await?;
            write_totals(&work, totals).await?;
            let mut kept = former::remove(&work, profile, which).await?;
            kept.retain(|kept| !taken.iter().any(|gone| gone.detail.is_same(&kept.detail)));
            let removed = (taken.len() + kept.len()) as u64;
            outbox::add(&work, entry.filter(|_| removed > 0), &[("details", removed)]).await?;
            Ok(removed)
        };
        self.database.change(Counter::Details, change).await
    }

    async fn visit_all(&self, visit: VisitDetails<'_>) -> Stored<()> {
        // It goes out detail by detail, so it cannot be repeated.
        let mut visit = Some(visit);
        let mut once = |work: Work| {
            let visit = visit.take();
            async move {
                match visit {
                    Some(visit) => visit_in_order(&work, visit).await,
                    None => Ok(()),
                }
            }
        };
        self.database.read_once(&mut once).await.map_err(Into::into)
    }

    async fn find_holders(&self, values: &[(Kind, ContactValue)]) -> Stored<Vec<(Profile, usize)>> {
        self.database.read(move |work| async move { find_holders(&work, values).await }).await
    }

    async fn find_by_slug(&self, parts: &SlugParts, limits: ScanLimits) -> Stored<Vec<Profile>> {
        self.database.read(move |work| async move { find_by_slug(&work, parts, limits).await }).await
    }

    async fn are_held(&self, profiles: &[Profile]) -> Stored<Vec<bool>> {
        self.database.read(move |work| async move { are_held(&work, profiles).await }).await
    }

    async fn removal_time(&self, now: Timestamp) -> Stored<Timestamp> {
        let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let row = self.database.query_one(clock, &[]).await?;
        Ok(now.min(Timestamp::from_millis(row.get(0))))
    }

    async fn sweep(&self, plan: SweepPlan<'_>, entry: Noted<'_>) -> Stored<Swept> {
        self.sweep_all(plan, entry).await
    }

    async fn list_retention(&self, now: Timestamp) -> Stored<Vec<SourceRetention>> {
        self.database.read(move |work| async move { totals::retention(&work, now).await }).await
    }

    async fn totals(&self) -> Stored<Totals> {
        self.database.read(move |work| async move { totals::read(&work).await }).await
    }
}

/// Everything in the table, profile by profile. `visit` returns whether to continue. The server sorts, and hands out the rows
/// as they are asked for.
async fn visit_in_order(
    work: &Work,
    mut visit: impl FnMut(&Profile, Vec<Detail>) -> bool + Send,
) -> Tried<()> {
    let sources = Sources::read(work).await?;
    let all = format!("SELECT {COLUMNS} FROM details ORDER BY profile, id");
    let mut all = work.cursor("everything", &all, &[]).await?;
    let mut current: Option<(Profile, Vec<Detail>)> = None;
    loop {
        let rows = all.next(CHUNK).await?;
        for row in &rows {
            let detail = read_detail(row, &sources)?;
            let key: &str = row.get(1);
            match &mut current {
                Some((profile, details)) if profile.key() == key => details.push(detail),
                _ => {
                    if let Some((profile, details)) = current.replace((Profile::from_key(key), vec![detail]))
                        && !visit(&profile, details)
                    {
                        return Ok(());
                    }
                }
            }
        }
        if rows.is_empty() {
            if let Some((profile, details)) = current {
                visit(&profile, details);
            }
            return Ok(());
        }
    }
}

async fn find_holders(work: &Work, values: &[(Kind, ContactValue)]) -> Tried<Vec<(Profile, usize)>> {
    let mut asked: HashMap<(Kind, Cow<'_, str>), Vec<usize>> = HashMap::new();
    for (at, (kind, value)) in values.iter().enumerate() {
        asked.entry((*kind, ContactValue::comparable(*kind, value.expose()))).or_default().push(at);
    }
    let of_kind = |kind: Kind| -> Vec<String> {
        asked.keys().filter(|(of, _)| *of == kind).map(|(_, value)| value.clone().into_owned()).collect()
    };
    let (phones, emails) = (of_kind(Kind::Phone), of_kind(Kind::Email));
    // The server finds addresses of ASCII characters; all others are compared here.
    let wanted = "(kind = 0 AND value = ANY($1)) OR (kind = 1 AND cardinality($2::text[]) > 0
        AND (lower(value) = ANY($2) OR octet_length(value) <> char_length(value)))";
    let find = format!(
        "SELECT profile, kind, value FROM details WHERE {wanted}
         UNION ALL SELECT profile, kind, value FROM former WHERE {wanted}"
    );
    let parameters = [phones, emails];
    let rows = work.query_raw(&find, &parameters).await?;
    let mut rows = std::pin::pin!(rows);
    let mut found = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let kind = kind(row.get::<_, i16>(1).into());
        let held = (kind, ContactValue::comparable(kind, row.get(2)));
        for &at in asked.get(&held).into_iter().flatten() {
            found.push((Profile::from_key(row.get(0)), at));
        }
    }
    found.sort_by(|(a, at), (b, other)| (a.key(), at).cmp(&(b.key(), other)));
    found.dedup();
    Ok(found)
}

async fn find_by_slug(work: &Work, parts: &SlugParts, limits: ScanLimits) -> Tried<Vec<Profile>> {
    // The server finds plain slugs; those with escapes are compared here.
    let spellings: Vec<String> = parts.spellings().iter().map(|part| part.join("|")).collect();
    let most = limits.details;
    let read = |table: &str| format!("(SELECT profile FROM {table} LIMIT {most})");
    let (details, former) = (read("details"), read("former"));
    let find = format!(
        "SELECT DISTINCT profile FROM ({details} UNION ALL {former}) AS scanned
         WHERE lower(profile) ~ ALL($1) OR strpos(profile, '%') > 0 ORDER BY profile"
    );
    let mut rows = work.cursor("slugs", &find, &[&spellings]).await?;
    let mut found = Vec::new();
    while found.len() < limits.profiles {
        let chunk = rows.next(CHUNK).await?;
        if chunk.is_empty() {
            break;
        }
        let keys = chunk.iter().map(|row| row.get::<_, &str>(0));
        found.extend(keys.filter(|key| parts.are_in(key)).map(Profile::from_key));
    }
    found.truncate(limits.profiles);
    Ok(found)
}

async fn are_held(work: &Work, profiles: &[Profile]) -> Tried<Vec<bool>> {
    let places: Vec<i64> = profiles.iter().map(|profile| first_id_of_key(profile.key(), 0)).collect();
    let keys: Vec<&str> = profiles.iter().map(Profile::key).collect();
    let find = format!(
        "SELECT EXISTS (
             SELECT 1 FROM details WHERE id >= asked.place AND id < asked.place + {IDS_OF_PLACE} AND profile = asked.key
         ) OR EXISTS (SELECT 1 FROM former WHERE former.place = asked.place AND profile = asked.key)
         FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS asked (place, key, at) ORDER BY at"
    );
    let rows = work.query(&find, &[&places, &keys]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
