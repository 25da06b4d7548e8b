//! The files in packaging/: what they name exists.

use std::collections::BTreeSet;
use std::path::Path;

use contactd_testing::TestServer;

use crate::fixture::ADA;
use crate::http::{Request, profile_body};
use crate::service::{PHONE, Site};
use crate::tls_client::{Client, make_certificates};

fn packaged(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(name);
    std::fs::read_to_string(file).expect("reads")
}

/// The metrics that an expression names.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("contactd_") || word.starts_with("process_")).collect()
}

/// The expressions of a dashboard.
fn expressions(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
            Some(text) if name == "expr" || name == "query" => found.push(text.to_owned()),
            _ => expressions(value, found),
        }),
        serde_json::Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        _ => {}
    }
}

#[test]
fn every_metric_of_the_dashboard_and_the_alerts_is_in_the_metrics_of_a_server() {
    // With TLS, because its metrics are absent without it.
    let site = Site::with_people();
    make_certificates(&site);
    let token = site.token(&["--quota", "100/day", "--expires", "10d"]);
    let service = site.serve_with(&["--tls-cert", "server.pem", "--tls-key", "server.key"], "");
    let mut connection = Client::of(&service.site).connect(service.public).expect("a handshake");
    assert_eq!(connection.ask(&Request::lookup(PHONE, profile_body(ADA)).token(&token)).status, 200);
    service.site.ok(&["backup", "copy.tar.zst"]);
    // And a node, because an embedded store has no lease.
    let node = Site::on(&TestServer::shared().database()).serve();
    let shown = service.metrics() + &node.metrics();
    let samples = shown.lines().filter(|line| !line.starts_with('#'));
    let there: BTreeSet<&str> = samples.filter_map(|line| line.split(['{', ' ']).next()).collect();
    let mut dashboard = Vec::new();
    expressions(&serde_json::from_str(&packaged("grafana-dashboard.json")).expect("JSON"), &mut dashboard);
    assert!(dashboard.len() > 20, "{dashboard:?}");
    let alerts = packaged("prometheus-alerts.yml");
    let rules: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("expr: ")).collect();
    assert_eq!(rules.len(), alerts.matches("- alert: ").count());
    let named: Vec<&str> = dashboard.iter().map(String::as_str).chain(rules).collect();
    for expression in named {
        let missing: Vec<&str> = metrics_in(expression).difference(&there).copied().collect();
        assert!(missing.is_empty(), "{missing:?} of {expression} is not in /metrics:\n{shown}");
        assert!(!metrics_in(expression).is_empty() || expression == "prometheus", "{expression}");
    }
    let used = shown.lines().find(|line| line.starts_with("contactd_token_quota_used{")).expect("a quota");
    assert!(used.ends_with(" 1"), "{used}");
}

#[test]
fn every_alert_says_what_has_happened_and_what_to_do() {
    let alerts = packaged("prometheus-alerts.yml");
    for alert in alerts.split("- alert: ").skip(1) {
        for field in ["expr: ", "severity: ", "summary: ", "description: "] {
            assert_eq!(alert.matches(field).count(), 1, "{field} of {alert}");
        }
    }
}
