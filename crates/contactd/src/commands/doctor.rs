//! `contactd doctor`

use std::process::ExitCode;

use contactd_core::services::{Finding, Severity, clock_finding};
use contactd_core::{Clock, SystemClock};

use crate::cli::Everywhere;
use crate::config::Config;
use crate::context::Context;
use crate::data_dir::{DataDir, NoDataDir};
use crate::{output, surroundings};

pub(crate) async fn run(everywhere: &Everywhere, json: bool) -> anyhow::Result<ExitCode> {
    let findings = examine(everywhere).await;
    if json {
        output::json(&findings)?;
    } else {
        findings.iter().try_for_each(show)?;
    }
    let failed = findings.iter().any(|finding| finding.severity == Severity::Fail);
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
    let config = match Config::resolve(everywhere) {
        Ok(config) => config,
        Err(error) => {
            let advice = "correct the file; `contactd config example` shows every setting";
            return vec![Finding::fail("configuration", format!("{error:#}"), advice)];
        }
    };
    let mut findings = vec![Finding::ok("configuration", "no errors".to_owned())];
    findings.push(clock_finding(SystemClock.now()));
    if let Err(none) = DataDir::require(&config.data) {
        findings.push(Finding::fail("data", none.message(), NoDataDir::ADVICE));
        return findings;
    }
    findings.extend(surroundings::permissions(&config));
    findings.push(surroundings::disk(&config.data));
    let (path, keys) = (config.data.clone(), config.keys.clone());
    match Context::open(config).await {
        Ok(context) => {
            findings.extend(context.services.health.findings(&context.actor).await);
            findings.extend(surroundings::unwritable_journal(&context.dir));
            findings.push(surroundings::server(&context.dir));
        }
        Err(error) => {
            let advice = "if it is a question of permissions, run this as the user the data belongs to; if files are damaged or \
                          missing, restore them from a backup. Tokens and opt-outs were not checked";
            findings.push(Finding::fail("store", format!("{error:#}"), advice));
            let dir = DataDir::existing(&path);
            findings.push(surroundings::journal(&dir, &keys));
            findings.push(surroundings::server(&dir));
        }
    }
    findings
}
