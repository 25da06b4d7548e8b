//! What `doctor` has to say about the database itself, also when it cannot be used.

use std::time::Duration;

use contactd_core::Finding;
use contactd_core::store::StoreError;
use contactd_store_postgres::Condition;

/// A round trip that makes every change slow.
const SLOW: Duration = Duration::from_millis(100);

/// What there is to say after a look at the database, and whether it is worth looking on: what would wait is not asked.
pub fn database_findings(looked: Result<Condition, StoreError>, hosts: usize) -> (Vec<Finding>, bool) {
    let condition = match looked {
        Ok(condition) => condition,
        Err(error) => {
            let advice = "check the database, its URL and the network. Tokens and opt-outs were not checked";
            return (vec![Finding::fail("database", error.to_string(), advice)], false);
        }
    };
    if let Some(obstacle) = condition.obstacle() {
        let advice = "until then no change is made, and nodes answer 503 when their leases end. Tokens and opt-outs were not checked";
        return (vec![Finding::fail("database", obstacle, advice)], false);
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
    if condition.synchronous.is_empty() && (condition.standbys > 0 || hosts > 1) {
        let message =
            "it acknowledges changes before a standby has them: a failover can lose opt-outs and revocations";
        findings.push(Finding::warn(
            "database",
            message.to_owned(),
            "set synchronous_standby_names, or synchronous_mode of Patroni; docs/cluster.md says what that costs",
        ));
    }
    (findings, true)
}
