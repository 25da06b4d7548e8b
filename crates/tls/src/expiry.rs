//! Warns before a certificate ends.

use std::time::Duration;

use contactd_core::Timestamp;
use contactd_core::services::Finding;

use crate::Pair;

const DAY: Duration = Duration::from_secs(86_400);

/// From this long before its end, a certificate should be renewed.
const EARLY: Duration = Duration::from_secs(14 * 86_400);

const CHECK: &str = "certificate";
const ADVICE: &str = "renew it; a running server takes over the new files by itself";

/// What `doctor` says about a pair.
pub fn findings(pair: &Pair, now: Timestamp) -> Vec<Finding> {
    let file = pair.files.cert.display();
    let validity = match words(pair, now) {
        None => Finding::ok(CHECK, format!("{file} ends {}", pair.ends)),
        Some(words) if pair.ends <= now => Finding::fail(CHECK, words, ADVICE),
        Some(words) => Finding::warn(CHECK, words, ADVICE),
    };
    let mut findings = vec![validity];
    if pair.group_can_read() {
        let key = pair.files.key.display();
        let advice = format!("chmod 600 {key}, unless the group has to read it");
        findings.push(Finding::warn(CHECK, format!("the group can read {key}"), &advice));
    }
    findings
}

/// What to warn about: a certificate that has ended, or ends soon.
fn words(pair: &Pair, now: Timestamp) -> Option<String> {
    let (file, ends) = (pair.files.cert.display(), pair.ends);
    if ends <= now {
        return Some(format!("the certificate in {file} ended {ends}: clients refuse it"));
    }
    (ends <= now.plus(EARLY)).then(|| {
        let left = (ends.millis() - now.millis()) / i64::try_from(DAY.as_millis()).unwrap_or(1);
        let left = match left {
            0 => "less than a day".to_owned(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        };
        format!("the certificate in {file} ends {ends}, in {left}")
    })
}

/// Warns in the log: at once, and then once a day.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    next: Option<Timestamp>,
}

impl Warnings {
    pub(crate) fn look(&mut self, pair: &Pair, now: Timestamp) {
        match words(pair, now) {
            Some(words) if self.next.is_none_or(|next| now >= next) => {
                tracing::warn!("{words}; {ADVICE}");
                self.next = Some(now.plus(DAY));
            }
            Some(_) => {}
            None => self.next = None,
        }
    }
}
