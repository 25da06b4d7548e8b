//! The same fault again and again: it is logged at once, and then only now and then with a count.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long a fault that was logged is only counted.
const REPEAT_PAUSE: Duration = Duration::from_secs(5);

/// Decides which of many equal faults are logged: the first at once, then one every five seconds, with a count of
/// the ones in between. So a fault that every request meets does not fill the log.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<HashMap<String, Logged>>);

/// When a fault was logged last, and how often it was there since.
#[derive(Debug)]
struct Logged {
    at: Instant,
    more: u64,
}

impl Repeats {
    /// A fault is there. Returns whether it is logged now; otherwise it is counted, and [`due`](Self::due) returns
    /// it later.
    pub fn is_new(&self, fault: &str, now: Instant) -> bool {
        let mut logged = self.0.lock();
        match logged.get_mut(fault) {
            Some(logged) => {
                logged.more += 1;
                false
            }
            None => {
                logged.insert(fault.to_owned(), Logged { at: now, more: 0 });
                true
            }
        }
    }

    /// The faults that were there again, with how often, once their pause is over. Those that were not are forgotten: when
    /// they return, they are new.
    pub fn due(&self, now: Instant) -> Vec<(String, u64)> {
        let mut due = Vec::new();
        self.0.lock().retain(|fault, logged| {
            if now.saturating_duration_since(logged.at) < REPEAT_PAUSE {
                return true;
            }
            let more = std::mem::take(&mut logged.more);
            logged.at = now;
            if more > 0 {
                due.push((fault.clone(), more));
            }
            more > 0
        });
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_logged_at_once_then_counted_and_forgotten_when_it_is_over() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let later = |seconds| start + Duration::from_secs(seconds);
        assert!(repeats.is_new("disk", start));
        assert!(!repeats.is_new("disk", later(1)) && !repeats.is_new("disk", later(2)));
        assert!(repeats.is_new("lock", later(2)), "another fault");
        assert_eq!(repeats.due(later(4)), []);
        assert_eq!(repeats.due(later(5)), [("disk".to_owned(), 2)]);
        assert!(!repeats.is_new("disk", later(6)));
        assert_eq!(repeats.due(later(10)), [("disk".to_owned(), 1)]);
        assert_eq!(repeats.due(later(15)), [], "it is over");
        assert!(repeats.is_new("disk", later(16)), "it is there again");
    }
}
