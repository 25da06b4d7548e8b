//! Warns before a certificate ends.

use std::time::Duration;

use contactd_core::Finding;
use contactd_core::Timestamp;

use crate::Pair;

const DAY: Duration = Duration::from_secs(86_400);

/// From this long before its end, a certificate should be renewed.
const EARLY: Duration = Duration::from_secs(14 * 86_400);

const CHECK: &str = "certificate";
const ADVICE: &str = "renew it; a running server takes over the new files by itself";

/// What `doctor` says about a pair.
pub fn findings(pair: &Pair, now: Timestamp) -> Vec<Finding> {
    let validity = match words(pair, now) {
        None => Finding::ok(CHECK, format!("{} ends {}", pair.files.cert.display(), pair.ends)),
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

/// When to warn in the log: at once, and then once a day.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    next: Option<Timestamp>,
}

impl Warnings {
    /// The warning of this moment, if there is one.
    pub(crate) fn due(&mut self, pair: &Pair, now: Timestamp) -> Option<String> {
        let Some(words) = words(pair, now) else {
            self.next = None;
            return None;
        };
        if self.next.is_some_and(|next| now < next) {
            return None;
        }
        self.next = Some(now.plus(DAY));
        Some(format!("{words}; {ADVICE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Made;

    #[test]
    fn a_certificate_that_ends_soon_is_warned_about_once_a_day_until_it_is_renewed() {
        let (made, renewed) = (Made::ending_in_days(30), Made::ending_in_days(60));
        let (pair, mut warnings) = (made.pair(), Warnings::default());
        let hour = Duration::from_secs(3_600);
        let days_before = |days: u32| pair.ends.minus(days * DAY);
        let warning =
            |when: String| Some(format!("the certificate in {} {when}; {ADVICE}", pair.files.cert.display()));
        assert_eq!(warnings.due(&pair, days_before(14).minus(hour)), None);
        let ends = pair.ends;
        assert_eq!(warnings.due(&pair, days_before(14)), warning(format!("ends {ends}, in 14 days")));
        assert_eq!(warnings.due(&pair, days_before(13).minus(hour)), None, "not a day later");
        assert_eq!(warnings.due(&pair, days_before(13)), warning(format!("ends {ends}, in 13 days")));
        assert_eq!(warnings.due(&pair, days_before(1)), warning(format!("ends {ends}, in 1 day")));
        assert_eq!(warnings.due(&renewed.pair(), days_before(1).plus(hour)), None);
        let late = ends.minus(hour);
        assert_eq!(warnings.due(&pair, late), warning(format!("ends {ends}, in less than a day")));
        assert_eq!(warnings.due(&pair, ends.plus(DAY)), warning(format!("ended {ends}: clients refuse it")));
    }
}
