//! What `doctor` has to say about the database itself, also when it cannot be used.

use std::time::Duration;

use contactd_core::Finding;
use contactd_store_postgres::{Condition, NoCondition, SLOW, StoreUrl, slow_words};

/// How long the rest may take over a slow link, after a look that took long already.
const REST_OF_SLOW: Duration = Duration::from_secs(1);

/// What follows from a database that takes no changes.
const MEANWHILE: &str = "until then changes wait or fail. A node that cannot renew its lease answers lookups until that ends, then 503; it goes on \
    by itself. Tokens and opt-outs were not checked";

/// What there is to say after a look at the database, and how long the rest may take; `None` if it would wait.
pub fn database_findings(
    url: &StoreUrl,
    looked: Result<Condition, NoCondition>,
) -> (Vec<Finding>, Option<Duration>) {
    let condition = match looked {
        Ok(condition) => condition,
        Err(NoCondition { what, is_slow: true }) => {
            return (vec![Finding::warn("database", what, "tokens and opt-outs were not checked")], None);
        }
        Err(NoCondition { what, is_slow: false }) => {
            return (vec![Finding::fail("database", format!("{url}: {what}"), MEANWHILE)], None);
        }
    };
    if let Some(obstacle) = condition.obstacle() {
        return (vec![Finding::fail("database", obstacle, MEANWHILE)], None);
    }
    let mut findings = vec![Finding::ok("database", "it answers, and takes changes".to_owned())];
    let (used, most) = condition.connections;
    if used * 10 >= most * 9 {
        let message = format!("{used} of its {most} connections are in use");
        findings.push(Finding::warn(
            "database",
            message,
            "raise max_connections, or find out in pg_stat_activity who has so many",
        ));
    }
    let is_slow = condition.round_trip > SLOW;
    if is_slow {
        let advice = "run this on a machine that is nearer to it, to see where the time goes";
        findings.push(Finding::warn("database", slow_words(condition.round_trip), advice));
    }
    if let Some(risk) = condition.risk() {
        findings.push(Finding::warn(
            "database",
            risk.to_owned(),
            "set synchronous_standby_names, or synchronous_mode of Patroni; docs/cluster.md says what that costs",
        ));
    }
    (findings, Some(if is_slow { REST_OF_SLOW } else { Duration::MAX }))
}
