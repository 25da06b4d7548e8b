//! `contactd doctor`

use std::process::ExitCode;

use contactd_core::services::{Finding, Severity};

use crate::cli::Everywhere;
use crate::config::Config;
use crate::context::Context;
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
    if !config.data.exists() {
        let message = format!("{} does not exist yet", config.data.display());
        let advice = "the first command that needs it creates it, such as `contactd import`";
        findings.push(Finding::warn("data", message, advice));
        return findings;
    }
    findings.extend(surroundings::permissions(&config));
    findings.push(surroundings::disk(&config.data));
    match Context::open(config).await {
        Ok(context) => {
            findings.extend(context.services.health.findings(&context.actor).await);
            findings.extend(surroundings::unwritable_journal(&context.dir));
            findings.push(surroundings::server(&context.dir));
        }
        Err(error) => {
            let advice = "run this as the user the data belongs to; restore the data directory from a backup if its files \
                          are damaged";
            findings.push(Finding::fail("store", format!("{error:#}"), advice));
        }
    }
    findings
}
