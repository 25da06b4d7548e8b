//! A client of a running service, using its public API.

mod answer;

use std::path::Path;
use std::time::Duration;

use answer::{BatchBody, described, retry_after};
use anyhow::{Context, bail};
use contactd_contract::{Operation, header, path};
use contactd_core::{Kind, TokenHash};
use serde::Serialize;
use serde_json::json;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

pub(crate) use self::answer::LookupAnswer;
use crate::cli::ServiceArgs;
use crate::output;

/// The most lookups of a batch, unless the operator has set less.
pub(crate) const MOST_IN_BATCH: usize = 100;

/// The most connections that are kept open: one for each request of `enrich --concurrency`.
const MOST_CONNECTIONS: usize = 256;

/// A service and the token for it.
pub(crate) struct Client {
    base: String,
    token: String,
    agent: Agent,
}

#[derive(Serialize)]
struct Batch<'a> {
    lookups: Vec<BatchLookup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchLookup<'a> {
    operation: &'static str,
    profile_url: &'a str,
}

/// What a batch came to.
pub(crate) enum BatchReply {
    /// An answer for each lookup, in order.
    Answers(Vec<LookupAnswer>),
    /// The batch was refused as a whole, or the answer is not one to a batch.
    Refused(LookupAnswer),
}

/// What came back for a request.
struct Reply {
    code: u16,
    reason: Option<String>,
    retry_after: Option<Duration>,
    body: String,
}

impl Reply {
    fn into_answer(self, operation: Operation, submitted: &str) -> LookupAnswer {
        let body = serde_json::from_str(&self.body).unwrap_or_default();
        LookupAnswer::new(operation, submitted, self.code, body, self.reason, self.retry_after)
    }

    /// The answer to a batch that has no results.
    fn into_refusal(self) -> LookupAnswer {
        // A 200 without results is not from contactd, whatever is in it.
        let body = if self.code == 200 { String::new() } else { self.body };
        Self { body, ..self }.into_answer(Operation::FetchPhoneNumber, "")
    }
}

/// The certificates in a PEM file.
fn authorities(file: &Path) -> anyhow::Result<RootCerts> {
    let pem =
        std::fs::read(file).with_context(|| format!("cannot read the certificates in {}", file.display()))?;
    let certificates: Vec<Certificate<'static>> = parse_pem(&pem)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    if certificates.is_empty() {
        bail!("{} has no certificate in it; --cacert needs a file in PEM form", file.display());
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

fn operation(kind: Kind) -> Operation {
    match kind {
        Kind::Phone => Operation::FetchPhoneNumber,
        Kind::Email => Operation::FetchPersonalEmail,
    }
}

/// Says why there was no answer.
fn unreached(url: &str, error: anyhow::Error) -> anyhow::Error {
    let is_untrusted = format!("{error:#}").contains("invalid peer certificate");
    error.context(match is_untrusted {
        true => format!(
            "the certificate of {url} is not trusted; if it is from an authority of your own, name that authority's certificate \
             with --cacert"
        ),
        false => format!("cannot reach {url}; is the service running there?"),
    })
}

impl Client {
    pub(crate) fn new(ServiceArgs { url, token, cacert }: &ServiceArgs) -> anyhow::Result<Self> {
        if !url.starts_with("http://") && !url.starts_with("https://") {
            bail!("--url {url} must begin with http:// or https://");
        }
        let roots = cacert.as_deref().map(authorities).transpose()?.unwrap_or(RootCerts::WebPki);
        let agent = Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .max_idle_connections(MOST_CONNECTIONS)
            .max_idle_connections_per_host(MOST_CONNECTIONS)
            .timeout_global(Some(Duration::from_secs(30)))
            .build()
            .into();
        let (base, token) = (url.trim_end_matches('/').to_owned(), token.trim().to_owned());
        if TokenHash::of_sandbox(&token).is_some() {
            output::words(format_args!(
                "the token is of the sandbox: all answers are made up, also that nothing is on file"
            ));
        }
        Ok(Self { base, token, agent })
    }

    /// Sends one lookup, without retries.
    pub(crate) fn ask(&self, kind: Kind, profile_url: &str) -> anyhow::Result<LookupAnswer> {
        let operation = operation(kind);
        let body = json!({ "profileUrl": profile_url }).to_string();
        Ok(self.post(operation.path(), &body, &[])?.into_answer(operation, profile_url))
    }

    /// Sends lookups in one request, without retries.
    pub(crate) fn ask_many(&self, lookups: &[(Kind, &str)]) -> anyhow::Result<BatchReply> {
        let lookup = |&(kind, profile_url)| BatchLookup { operation: operation(kind).name(), profile_url };
        let batch = Batch { lookups: lookups.iter().map(lookup).collect() };
        let reply = self.post(path::BATCH, &serde_json::to_string(&batch)?, &[])?;
        let results = match reply.code {
            200 => serde_json::from_str::<BatchBody>(&reply.body).ok().map(|body| body.results),
            _ => None,
        };
        Ok(match results.filter(|results| results.len() == lookups.len()) {
            Some(results) => {
                let answer = |(result, &(kind, url))| LookupAnswer::in_batch(operation(kind), url, result);
                BatchReply::Answers(results.into_iter().zip(lookups).map(answer).collect())
            }
            None => BatchReply::Refused(reply.into_refusal()),
        })
    }

    /// Sends a message of the Model Context Protocol, with these headers. Returns the HTTP status and the body.
    pub(crate) fn send_message(
        &self,
        message: &str,
        headers: &[(&str, String)],
    ) -> anyhow::Result<(u16, String)> {
        let accept = ("Accept", "application/json, text/event-stream".to_owned());
        let headers = [headers, &[accept]].concat();
        let Reply { code, body, .. } = self.post(path::MCP, message, &headers)?;
        Ok((code, body))
    }

    fn post(&self, path: &str, body: &str, headers: &[(&str, String)]) -> anyhow::Result<Reply> {
        let url = format!("{}{path}", self.base);
        self.try_post(&url, body, headers).map_err(|error| unreached(&url, error))
    }

    fn try_post(&self, url: &str, body: &str, headers: &[(&str, String)]) -> anyhow::Result<Reply> {
        let request = self
            .agent
            .post(url)
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json");
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
        let mut response = request.send(body)?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let reason = header(header::INVALID_REASON).or_else(|| described(&header("www-authenticate")?));
        let retry_after = header("retry-after").and_then(|text| retry_after(&text));
        let code = response.status().as_u16();
        Ok(Reply { code, reason, retry_after, body: response.body_mut().read_to_string()? })
    }
}
