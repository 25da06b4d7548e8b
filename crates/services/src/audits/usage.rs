//! How much was looked up, by token and by day.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use contactd_core::store::Store;
use contactd_core::{Actor, Moment, Timestamp};

use super::reading::up_to_date;
use super::{named_tokens, token_names};
use crate::views::{DayLookups, TokenLookups, UsageView};
use crate::{AuditError, Audits, IndexState};

/// UTC days, from the first to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Days(RangeInclusive<i64>);

/// More days than this are not counted one by one: about ten years.
pub const MOST_DAYS: i64 = 3_660;

/// Why a period has no days that can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DaysError {
    /// It ends before it begins.
    #[error("the period ends before it begins")]
    Empty,
    /// It is too long.
    #[error("the period is longer than {MOST_DAYS} days; choose a shorter one")]
    TooLong,
}

impl Days {
    /// The last `count` days, with today.
    pub fn last(count: i64, now: Timestamp) -> Self {
        Self(now.day() - count + 1..=now.day())
    }

    /// The days of a period that ends before `until`, or today. "30 days ago" means the last 30 days, with today.
    pub fn between(since: Moment, until: Option<Moment>, now: Timestamp) -> Result<Self, DaysError> {
        let today = now.day();
        // Nothing was looked up in the future.
        let last = until.map_or(today, |until| {
            Timestamp::from_millis(until.when(now).millis().saturating_sub(1)).day().min(today)
        });
        let first = match since {
            Moment::At(time) => time.day(),
            Moment::Ago(length) => now.minus(length).day() + i64::from(length.as_secs() >= 86_400),
        };
        match last.saturating_sub(first) {
            ..0 => Err(DaysError::Empty),
            MOST_DAYS.. => Err(DaysError::TooLong),
            _ => Ok(Self(first..=last)),
        }
    }

    /// The name of a day.
    pub fn name(day: i64) -> String {
        Timestamp::start_of_day(day).to_string().split('T').next().unwrap_or_default().to_owned()
    }

    /// Sums up usage by day: every day is there, also those on which nothing was looked up.
    pub fn by_day<'a>(&self, usage: impl IntoIterator<Item = &'a UsageView>) -> Vec<DayLookups> {
        let mut counts: HashMap<&str, [u64; 3]> = HashMap::new();
        for UsageView { day, hits, misses, refused, .. } in usage {
            let sums = counts.entry(day).or_default();
            sums.iter_mut().zip([hits, misses, refused]).for_each(|(sum, count)| *sum += count);
        }
        let lookups = |day: String| {
            let [hits, misses, refused] = counts.get(&*day).copied().unwrap_or_default();
            DayLookups { day, hits, misses, refused }
        };
        self.0.clone().map(Self::name).map(lookups).collect()
    }
}

/// Sums up usage by token, the one that received most first.
pub fn by_token(usage: Vec<UsageView>) -> Vec<TokenLookups> {
    let mut sums: BTreeMap<String, TokenLookups> = BTreeMap::new();
    for UsageView { token, name: token_name, hits, misses, refused, .. } in usage {
        let empty = TokenLookups { token: token.clone(), token_name, hits: 0, misses: 0, refused: 0 };
        let sum = sums.entry(token).or_insert(empty);
        (sum.hits, sum.misses, sum.refused) = (sum.hits + hits, sum.misses + misses, sum.refused + refused);
    }
    let mut sums: Vec<TokenLookups> = sums.into_values().collect();
    sums.sort_by_key(|sum| std::cmp::Reverse((sum.hits, sum.misses, sum.refused)));
    sums
}

impl Audits {
    /// Usage by token and day; only of one token, by id or name, if one is given.
    pub async fn usage(
        &self,
        actor: &Actor,
        token: Option<&str>,
    ) -> Result<(Vec<UsageView>, IndexState), AuditError> {
        self.usage_of(actor, token, &Days(i64::MIN..=i64::MAX)).await
    }

    /// The lookups of a token, by id, on each of these days, also those without any.
    pub async fn days_of_token(
        &self,
        actor: &Actor,
        id: &str,
        days: &Days,
    ) -> Result<Vec<DayLookups>, AuditError> {
        if !token_names(&*self.parts.store).await?.contains_key(id) {
            return Err(AuditError::UnknownToken(id.to_owned()));
        }
        let (usage, _) = self.usage_of(actor, None, days).await?;
        Ok(days.by_day(usage.iter().filter(|usage| usage.token == id)))
    }

    /// Usage by token and day, on these days.
    pub async fn usage_of(
        &self,
        actor: &Actor,
        token: Option<&str>,
        days: &Days,
    ) -> Result<(Vec<UsageView>, IndexState), AuditError> {
        actor.note("usage");
        let state = up_to_date(&self.parts).await?;
        let names = token_names(&*self.parts.store).await?;
        let wanted = token.map(|wanted| named_tokens(&names, wanted)).transpose()?;
        let usage = self.parts.store.audit_usage(*days.0.start()).await?;
        let usage = usage
            .into_iter()
            .filter(|usage| days.0.contains(&usage.day))
            .filter(|usage| wanted.as_ref().is_none_or(|tokens| tokens.contains(&usage.token)))
            .map(|usage| UsageView::of(names.get(&usage.token).cloned(), usage))
            .collect();
        Ok((usage, state))
    }
}

/// Lookups on these days, as far as they are indexed: cheap, however long the journal is.
pub(crate) async fn indexed_lookups(store: &dyn Store, days: &Days) -> Result<Vec<DayLookups>, AuditError> {
    let usage = store.audit_usage(*days.0.start()).await?;
    let usage: Vec<UsageView> = usage.into_iter().map(|usage| UsageView::of(None, usage)).collect();
    Ok(days.by_day(&usage))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(token: &str, day: &str, [hits, misses, refused]: [u64; 3]) -> UsageView {
        UsageView { day: day.to_owned(), token: token.to_owned(), name: None, hits, misses, refused }
    }

    #[test]
    fn every_day_of_a_period_is_there_and_days_outside_are_not() {
        let days = Days::last(3, Timestamp::start_of_day(20_000));
        let counted = [
            usage("a", "2024-10-02", [1, 2, 3]),
            usage("b", "2024-10-02", [1, 0, 0]),
            usage("a", "2024-09-24", [9, 9, 9]),
        ];
        let day =
            |day: &str, hits, misses, refused| DayLookups { day: day.to_owned(), hits, misses, refused };
        assert_eq!(
            days.by_day(&counted),
            [day("2024-10-02", 2, 2, 3), day("2024-10-03", 0, 0, 0), day("2024-10-04", 0, 0, 0)]
        );
    }

    #[test]
    fn thirty_days_ago_means_thirty_days_with_today() {
        let now = Timestamp::from_seconds(20_000 * 86_400 + 7_000);
        let days = |since: &str, until: Option<&str>| {
            let until = until.map(|until| until.parse().expect("a moment"));
            Days::between(since.parse().expect("a moment"), until, now)
        };
        assert_eq!(days("30d", None), Ok(Days(19_971..=20_000)));
        assert_eq!(days("1h", None), Ok(Days(20_000..=20_000)));
        assert_eq!(days("0s", None), Ok(Days(20_000..=20_000)));
        assert_eq!(days("2024-10-01", Some("2024-10-03")), Ok(Days(19_997..=19_998)));
        assert_eq!(days("2024-10-01", Some("2099-01-01")), Ok(Days(19_997..=20_000)));
        assert_eq!(days("2024-10-03", Some("2024-10-03")), Err(DaysError::Empty));
        assert_eq!(days("2024-10-05", None), Err(DaysError::Empty));
        assert_eq!(days("1970-01-01", None), Err(DaysError::TooLong));
        assert_eq!(days("1970-01-01", Some("9999-12-31")), Err(DaysError::TooLong));
    }
}
