//! `contactd doctor`

use std::process::ExitCode;
use std::sync::Arc;

use contactd_cluster::Nodes;
use contactd_core::store::{Maintenance, StoreError};
use contactd_core::{Clock, SystemClock};
use contactd_core::{Finding, Severity};
use contactd_services::clock_finding;

use crate::answered_from::Lookups;
use crate::cli::Everywhere;
use crate::config::{self, Config};
use crate::context::Context;
use crate::data_dir::{DataDir, NoDataDir};
use crate::opening::database_findings;
use crate::{output, progress, surroundings};

pub(crate) async fn run(everywhere: &Everywhere, json: bool) -> anyhow::Result<ExitCode> {
    let findings = examine(everywhere).await;
    let failed = findings.iter().any(|finding| finding.severity == Severity::Fail);
    if json {
        output::json(&findings)?;
    } else {
        findings.iter().try_for_each(show)?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(Finding { check, severity, message, advice }: &Finding) -> anyhow::Result<()> {
    let mark = match severity {
        Severity::Ok => "ok  ",
        Severity::Warn => "warn",
        Severity::Fail => "FAIL",
    };
    output::data(format_args!("{mark}  {check:<13} {message}"))?;
    if let Some(advice) = advice {
        output::data(format_args!("      {:<13} -> {advice}", ""))?;
    }
    Ok(())
}

async fn examine(everywhere: &Everywhere) -> Vec<Finding> {
    let (errors, _) = config::errors(everywhere);
    let advice = "correct it; `contactd config example` shows every setting";
    let mut findings: Vec<Finding> =
        errors.iter().map(|error| Finding::fail("configuration", error.to_string(), advice)).collect();
    let Ok(config) = Config::resolve(everywhere) else { return findings };
    if findings.is_empty() {
        findings.push(Finding::ok("configuration", "no errors".to_owned()));
    }
    let with_password = config::file_of(everywhere).filter(|_| config.has_password_in_file());
    findings.extend(with_password.and_then(|file| surroundings::exposed_password(&file)));
    findings.push(clock_finding(SystemClock.now()));
    // If it cannot be used, the configuration has an error.
    findings.extend(config.pair().iter().flat_map(|pair| contactd_tls::findings(pair, SystemClock.now())));
    let dir = config.data.clone();
    let exists = match dir.try_exists() {
        Ok(exists) => exists,
        Err(error) => {
            let message = format!("{} cannot be reached: {error}", dir.display());
            findings.push(Finding::fail("data", message, "run this as the user the data belongs to"));
            return findings;
        }
    };
    let wrong_user = if exists { surroundings::wrong_user(&dir) } else { None };
    if let Some(finding) = wrong_user {
        findings.push(finding);
        return findings;
    }
    findings.extend(surroundings::leftovers(&dir));
    let is_cluster = config.is_cluster();
    if let Err(none) = DataDir::require(&dir) {
        if is_cluster {
            // A machine without a node, or a node that waits for its database the first time.
            findings.extend(examine_store(config).await);
            findings.extend(Lookups::findings(&DataDir::existing(&dir)));
            return findings;
        }
        findings.push(Finding::fail("data", none.message(), NoDataDir::ADVICE));
        return findings;
    }
    findings.extend(surroundings::permissions(&dir, &config.keys));
    findings.push(surroundings::disk(&dir));
    if let Some(finding) = surroundings::unwritable(&dir) {
        findings.push(finding);
        findings.push(surroundings::journal(&DataDir::existing(&dir)));
        findings.extend(Lookups::findings(&DataDir::existing(&dir)));
        return findings;
    }
    findings.extend(examine_store(config).await);
    findings.extend(surroundings::unwritable_journal(&DataDir::existing(&dir)));
    findings.extend(Lookups::findings(&DataDir::existing(&dir)));
    findings
}

/// Whether tokens, opt-outs and accounts are those that contactd stored.
async fn state_findings(database: &dyn Maintenance) -> Vec<Finding> {
    let advice =
        "keep the data directory of every node, and run `contactd node reconcile` on the machine of one";
    let checked = async {
        let faults = database.check_state(&[]).await?.into_iter();
        let mut findings: Vec<Finding> = faults.map(|fault| Finding::fail("state", fault, advice)).collect();
        if let Some(hooks) = database.find_hooks().await? {
            let message = format!("the database has what contactd did not make on its tables: {hooks}");
            findings.push(Finding::fail(
                "state",
                message,
                "find out who made it, and drop it: it can change or hide what contactd stores",
            ));
        }
        Ok::<_, StoreError>(findings)
    };
    match checked.await {
        Ok(findings) if findings.is_empty() => {
            let message = "nobody has changed tokens, opt-outs or accounts in the database by hand";
            vec![Finding::ok("state", message.to_owned())]
        }
        Ok(findings) => findings,
        Err(error) => vec![Finding::fail("state", error.to_string(), "check the database")],
    }
}

async fn examine_store(config: Config) -> Vec<Finding> {
    let Some((mut findings, rest)) = database_findings(&config).await else {
        return examine_open_store(config).await;
    };
    let Some(rest) = rest else { return findings };
    match tokio::time::timeout(rest, examine_open_store(config)).await {
        Ok(found) => findings.extend(found),
        Err(_) => {
            let message = "it answers so slowly that tokens, opt-outs and nodes were not checked";
            let advice = "run this again on a machine that is nearer to it";
            findings.push(Finding::warn("database", message.to_owned(), advice));
        }
    }
    findings
}

async fn examine_open_store(config: Config) -> Vec<Finding> {
    let (path, is_cluster) = (config.data.clone(), config.is_cluster());
    match Context::open(config).await {
        Ok(context) => {
            let health = &context.services.health;
            let found =
                progress::during("checking the store and the journal", health.findings(&context.actor));
            let mut findings = found.await;
            if let Some(database) = &context.database {
                findings.extend(Nodes::new(Arc::clone(database)).findings().await);
                findings.extend(state_findings(&**database).await);
            }
            findings
        }
        Err(error) => {
            let advice = match is_cluster {
                true => {
                    "check the database, its URL and the digest keys. Tokens and opt-outs were not checked"
                }
                false => {
                    "if files are damaged or missing, restore them from a backup. Tokens and opt-outs were not checked"
                }
            };
            let store = Finding::fail("store", format!("{error:#}"), advice);
            vec![store, surroundings::journal(&DataDir::existing(&path))]
        }
    }
}
