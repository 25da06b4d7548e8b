//! Disclosures by recipient, and long lists of them in short.

use std::collections::{BTreeMap, HashMap};

use contactd_core::Kind;

use crate::views::{AccessReport, Disclosure, HeldDetail, ReceivedBy, ReceivedDetail};

/// Longer lists are shown in short, unless everything is wanted.
const LONG: usize = 50;

/// What a page shows of lists that may be long. With `all`, it shows everything.
impl AccessReport {
    /// The disclosures to list one by one; `None` if there are so many that the summary by recipient is enough.
    pub fn listed_disclosures(&self, all: bool) -> Option<&[Disclosure]> {
        (all || self.disclosures.len() <= LONG).then_some(&self.disclosures)
    }

    /// The profiles to list: the first ones, if there are many.
    pub fn listed_profiles(&self, all: bool) -> &[String] {
        first(&self.profiles, all)
    }

    /// The details to list. What is held about one person is always listed; of a value that many people have, the first
    /// ones.
    pub fn listed_details(&self, all: bool) -> &[HeldDetail] {
        first(&self.held, all || !self.is_about_the_value_only)
    }
}

fn first<T>(list: &[T], all: bool) -> &[T] {
    if all { list } else { &list[..list.len().min(LONG)] }
}

/// Sums up disclosures, which are in order, by recipient: the one who received something last comes first.
pub(super) fn by_recipient(disclosures: &[Disclosure]) -> Vec<ReceivedBy> {
    let mut by_name: HashMap<&str, Vec<&Disclosure>> = HashMap::new();
    let mut newest_first: Vec<&str> = Vec::new();
    for given in disclosures.iter().rev() {
        let received = by_name.entry(&given.token).or_default();
        if received.is_empty() {
            newest_first.push(&given.token);
        }
        received.push(given);
    }
    newest_first.into_iter().filter_map(|token| received_by(token, by_name.get(token)?)).collect()
}

/// What a recipient received, newest first.
fn received_by(token: &str, given: &[&Disclosure]) -> Option<ReceivedBy> {
    let mut details: BTreeMap<(Kind, Option<&String>, bool), ReceivedDetail> = BTreeMap::new();
    let mut token_ids: Vec<String> = Vec::new();
    for one in given.iter().rev() {
        if !token_ids.contains(&one.token_id) {
            token_ids.push(one.token_id.clone());
        }
        let key = (one.operation, one.value.as_ref(), one.is_value_recorded);
        let detail = details.entry(key).or_insert_with(|| ReceivedDetail {
            operation: one.operation,
            value: one.value.clone(),
            is_value_recorded: one.is_value_recorded,
            times: 0,
            first_at: one.time,
            last_at: one.time,
        });
        detail.times += 1;
        detail.last_at = one.time;
    }
    Some(ReceivedBy {
        token: token.to_owned(),
        token_ids,
        times: given.len() as u64,
        first_at: given.last()?.time,
        last_at: given.first()?.time,
        details: details.into_values().collect(),
    })
}
