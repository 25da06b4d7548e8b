//! Metrics of tokens. A token's name is the operator's own text; the documentation says that it names a system and not a
//! person.

use crate::Timestamp;
use crate::access::{Callers, Counts};
use crate::metrics::{Family, Measured, Measuring, MetricKind};

/// How many tokens have metrics of their own. The rest are added up, so that the number of series is limited.
const MOST_TOKENS: usize = 1_000;

impl Measured for Callers {
    fn families(&self) -> Measuring<'_> {
        Box::pin(std::future::ready(families(self)))
    }
}

fn families(callers: &Callers) -> Vec<Family> {
    let mut requests = Family::new(
        "contactd_token_requests_total",
        MetricKind::Counter,
        "Requests of accepted tokens since the start, by token and outcome; those of the sandbox are left out.",
    );
    let mut expiries = Family::new(
        "contactd_token_expires_timestamp_seconds",
        MetricKind::Gauge,
        "When an accepted token ends; tokens without an end are left out.",
    );
    let mut tokens = callers.counts();
    // Always the same ones, as long as no token is added or ends.
    tokens.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    let (own, rest) = tokens.split_at(tokens.len().min(MOST_TOKENS));
    for (token, counts) in own {
        if !token.sandbox {
            requests = with_counts(requests, &token.id, &token.name, *counts);
        }
        let end = token.expires_at.filter(|_| token.revoked_at.is_none());
        if let Some(seconds) = end.and_then(|at| u64::try_from(at.seconds()).ok()) {
            expiries = expiries.with(&[("token", &token.id), ("name", &token.name)], seconds);
        }
    }
    if !rest.is_empty() {
        let mut others = Counts::default();
        rest.iter().filter(|(token, _)| !token.sandbox).for_each(|(_, counts)| others.add(*counts));
        requests = with_counts(requests, "others", "", others);
    }
    vec![requests, expiries]
}

/// The quotas of accepted tokens, and what is used of them.
pub fn quota_families(callers: &Callers, now: Timestamp) -> [Family; 2] {
    let mut limits = Family::new(
        "contactd_token_quota",
        MetricKind::Gauge,
        "The quota of an accepted token; tokens without one are left out.",
    );
    let mut used = Family::new(
        "contactd_token_quota_used",
        MetricKind::Gauge,
        "What is used of the quota in its current day or month; tokens of a family share one.",
    );
    let mut quotas = callers.quotas(now);
    quotas.sort_by(|(a, _), (b, _)| a.id.cmp(&b.id));
    for (token, quota) in quotas.iter().take(MOST_TOKENS) {
        let labels = [("token", token.id.as_str()), ("name", token.name.as_str())];
        limits = limits.with(&labels, quota.limit);
        used = used.with(&labels, quota.limit.saturating_sub(quota.remaining));
    }
    [limits, used]
}

fn with_counts(requests: Family, id: &str, name: &str, counts: Counts) -> Family {
    let Counts { hits, misses, refused } = counts;
    let outcomes = [("hit", hits), ("miss", misses), ("refused", refused)];
    outcomes.into_iter().fold(requests, |requests, (outcome, count)| {
        requests.with(&[("token", id), ("name", name), ("outcome", outcome)], count)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Token, TokenSecret};

    fn now() -> Timestamp {
        Timestamp::parse("2026-05-01").expect("a date")
    }

    #[test]
    fn counts_go_on_after_usage_is_stored_and_when_it_could_not_be_stored() {
        let secret = TokenSecret::generate().expect("random");
        let callers = Callers::default();
        let token = Token::new("crm", now()).expect("random");
        callers.replace(vec![(secret.hash(), token.clone(), 0)], now());
        let caller = callers.find(secret.expose(), now()).expect("known");
        let hits = || callers.counts()[0].1.hits;
        caller.count_hit();
        assert_eq!(hits(), 1);
        let taken = callers.take_usage();
        assert_eq!(hits(), 1);
        callers.return_usage(&taken);
        assert_eq!(hits(), 1);
        callers.take_usage();
        caller.count_hit();
        callers.replace(vec![(secret.hash(), token, 0)], now());
        assert_eq!(hits(), 2);
        callers.replace(Vec::new(), now());
        assert!(callers.counts().is_empty());
    }

    #[test]
    fn at_most_a_thousand_tokens_have_series_of_their_own() {
        let callers = Callers::default();
        let mut tokens = Vec::new();
        for number in 0..MOST_TOKENS + 2 {
            let mut token = Token::new("crm", now()).expect("random");
            token.id = format!("tok_{number:05}");
            tokens.push((TokenSecret::generate().expect("random"), token));
        }
        callers
            .replace(tokens.iter().map(|(secret, token)| (secret.hash(), token.clone(), 0)).collect(), now());
        for (secret, _) in &tokens {
            callers.find(secret.expose(), now()).expect("known").count_hit();
        }
        let families = families(&callers);
        assert_eq!(families[0].samples.len(), 3 * (MOST_TOKENS + 1));
        let others = &families[0].samples[3 * MOST_TOKENS];
        assert_eq!(
            (others.labels[0].1.as_str(), others.value),
            ("others", crate::metrics::MetricValue::Count(2))
        );
    }
}
