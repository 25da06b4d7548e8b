//! What `doctor` has to say about the database itself, also when it cannot be used.

use std::time::Duration;

use contactd_core::Finding;
use contactd_core::store::StoreError;
use contactd_store_postgres::{Condition, SLOW};

/// How long the rest may take over a slow link, after a look that took long already.
const REST_OF_SLOW: Duration = Duration::from_secs(1);

/// What there is to say after a look at the database, and how long the rest may take; `None` if it would wait.
pub fn database_findings(looked: Result<Condition, StoreError>) -> (Vec<Finding>, Option<Duration>) {
    let condition = match looked {
        Ok(condition) => condition,
        Err(error) => {
            let advice = "check the database, its URL and the network. Tokens and opt-outs were not checked";
            return (vec![Finding::fail("database", error.to_string(), advice)], None);
        }
    };
    if let Some(obstacle) = condition.obstacle() {
        let advice = "until then changes wait or fail; a node answers lookups as long as it can renew its lease (readyz says so). Tokens and opt-outs were not checked";
        return (vec![Finding::fail("database", obstacle, advice)], None);
    }
    let mut findings = vec![Finding::ok("database", "it answers, and takes changes".to_owned())];
    let (used, most) = condition.connections;
    if used * 10 >= most * 9 {
        let message = format!("{used} of its {most} connections are in use");
        findings.push(Finding::warn(
            "database",
            message,
            "raise max_connections, or find out who has so many",
        ));
    }
    if condition.round_trip > SLOW {
        let message = format!("an answer takes {} ms", condition.round_trip.as_millis());
        findings.push(Finding::warn(
            "database",
            message,
            "look at the network between here and the database; every change takes several round trips",
        ));
    }
    if let Some(risk) = condition.risk() {
        findings.push(Finding::warn(
            "database",
            risk.to_owned(),
            "set synchronous_standby_names, or synchronous_mode of Patroni; docs/cluster.md says what that costs",
        ));
    }
    let is_slow = condition.round_trip > SLOW;
    (findings, Some(if is_slow { REST_OF_SLOW } else { Duration::MAX }))
}
