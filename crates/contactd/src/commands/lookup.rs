//! `contactd lookup`: asks a running service, as any client would.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use contactd_contract::{Operation, header};
use contactd_core::Kind;
use serde::Serialize;
use serde_json::Value;
use ureq::Agent;

use crate::cli::LookupArgs;
use crate::output;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    submitted: String,
    /// The HTTP status.
    code: u16,
    /// `ok`, or the service's error code.
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl Answered {
    fn value(&self) -> Option<&String> {
        self.phone_number.as_ref().or(self.email.as_ref())
    }
}

pub(crate) fn run(args: &LookupArgs) -> anyhow::Result<ExitCode> {
    let operation = match args.kind {
        Kind::Phone => Operation::FetchPhoneNumber,
        Kind::Email => Operation::FetchPersonalEmail,
    };
    if !args.url.starts_with("http://") && !args.url.starts_with("https://") {
        anyhow::bail!("--url {} has to begin with http:// or https://", args.url);
    }
    let token = args.token.trim();
    let url = format!("{}{}", args.url.trim_end_matches('/'), operation.path());
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(30)))
        .build()
        .into();
    let mut answers = Vec::new();
    for profile_url in &args.profile_urls {
        let answer = ask(&agent, &url, token, profile_url)
            .with_context(|| format!("cannot ask {url}; is the service running there?"))?;
        if !args.json {
            show(&answer)?;
        }
        answers.push(answer);
    }
    if args.json {
        output::json(&answers)?;
    }
    let all_found = answers.iter().all(|answer| answer.value().is_some());
    Ok(if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn ask(agent: &Agent, url: &str, token: &str, profile_url: &str) -> anyhow::Result<Answered> {
    let body = serde_json::json!({ "profileUrl": profile_url }).to_string();
    let mut response = agent
        .post(url)
        .header("Authorization", format!("Bearer {token}"))
        .header("Content-Type", "application/json")
        .send(body)?;
    let reason = response.headers().get(header::INVALID_REASON).and_then(|reason| reason.to_str().ok());
    let reason = reason.map(str::to_owned);
    let code = response.status().as_u16();
    let body: Value = serde_json::from_str(&response.body_mut().read_to_string()?).unwrap_or_default();
    let text = |field: &str| body[field].as_str().map(str::to_owned);
    let status = match code {
        200 => "ok".to_owned(),
        _ => text("status").unwrap_or_else(|| "internal_error".to_owned()),
    };
    Ok(Answered {
        submitted: profile_url.to_owned(),
        code,
        status,
        phone_number: text("phoneNumber"),
        email: text("email"),
        profile_url: text("profileUrl"),
        reason,
        message: text("message"),
    })
}

/// The value on stdout, or an empty line in its place and the reason on stderr: lines stay
/// in step with the URLs.
fn show(answer: &Answered) -> anyhow::Result<()> {
    match answer.value() {
        Some(value) => output::data(format_args!("{value}"))?,
        None => {
            output::data(format_args!(""))?;
            let reason = answer.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
            let message = answer.message.as_deref().unwrap_or("the service said nothing more");
            output::words(format_args!("{} {}{reason}: {message}", answer.code, answer.status));
        }
    }
    Ok(())
}
