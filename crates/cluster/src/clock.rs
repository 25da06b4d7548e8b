//! Whether the clock of this node is right.
//!
//! The end of a token and the day of a quota depend on it. Each node compares its clock with the database's. If they differ, the clocks of
//! the other nodes say which of the two is wrong.

use std::time::Duration;

use contactd_store_postgres::NodeClock;

/// A difference that is worth a warning.
pub(crate) const NOTABLE: Duration = Duration::from_secs(2);
/// A difference with which a node does not serve.
pub(crate) const WRONG: Duration = Duration::from_secs(30);

/// What to do if nobody can say which clock is wrong.
pub(crate) const COMPARE_CLOCKS: &str =
    "compare both with a clock that is right, and set the wrong one. Days of quotas follow the database's";

/// What a clock is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ClockState {
    /// It was not compared yet.
    #[default]
    Unknown,
    /// It agrees with the database's.
    Right,
    /// It differs a little.
    Off,
    /// It differs from the database's and from those of the other nodes: this node does not serve.
    Wrong,
    /// It differs from the database's and agrees with those of other nodes, or there are none.
    DatabaseWrong,
}

impl ClockState {
    pub(crate) fn of(clock: &NodeClock) -> Self {
        let differs = |by: i64, most: Duration| {
            // Half of the round trip may be in either direction.
            let by = Duration::from_millis(by.unsigned_abs());
            by.saturating_sub(clock.round_trip / 2) > most
        };
        if !differs(clock.ahead_ms, WRONG) {
            return if differs(clock.ahead_ms, NOTABLE) { Self::Off } else { Self::Right };
        }
        let mut others = clock.others.clone();
        others.sort_unstable();
        match others.get(others.len() / 2) {
            Some(median) if differs(clock.ahead_ms - median, WRONG) => Self::Wrong,
            _ => Self::DatabaseWrong,
        }
    }

    pub(crate) const fn may_serve(self) -> bool {
        !matches!(self, Self::Unknown | Self::Wrong)
    }

    /// Says what is wrong, when that has changed.
    pub(crate) fn tell(self, before: Self, ahead_ms: i64) {
        let seconds = ahead_ms as f64 / 1_000.0;
        match self {
            Self::Unknown => {}
            _ if self == before => {}
            Self::Right if before == Self::Unknown => {}
            Self::Right => tracing::info!("the clock of this node agrees with the database's again"),
            Self::Off => {
                tracing::warn!(
                    seconds,
                    "the clock of this node differs from the database's: set it, or let NTP do so"
                );
            }
            Self::Wrong => tracing::error!(
                seconds,
                "the clock of this node differs from the database's and from those of the other nodes, so it answers no lookups: set it, \
                 or let NTP do so"
            ),
            Self::DatabaseWrong => tracing::error!(
                seconds,
                "the clocks of this node and of the database differ, and no other node's clock contradicts this node's: {COMPARE_CLOCKS}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(ahead: i64, others: &[i64]) -> ClockState {
        let others = others.iter().map(|seconds| seconds * 1_000).collect();
        let round_trip = Duration::from_millis(100);
        ClockState::of(&NodeClock { ahead_ms: ahead * 1_000, round_trip, others })
    }

    #[test]
    fn the_other_nodes_say_whose_clock_is_wrong() {
        for ahead in [-1, 0, 2] {
            assert_eq!(state(ahead, &[0, 0]), ClockState::Right, "{ahead}");
        }
        assert_eq!(state(-3, &[]), ClockState::Off);
        assert_eq!(state(86_400, &[0, 1, 2]), ClockState::Wrong);
        assert_eq!(state(-40, &[0]), ClockState::Wrong);
        // Two of three agree, so the database is wrong.
        assert_eq!(state(3_600, &[3_599, 0, 3_601]), ClockState::DatabaseWrong);
        assert_eq!(state(3_600, &[]), ClockState::DatabaseWrong);
    }
}
