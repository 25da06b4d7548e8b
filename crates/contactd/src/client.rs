//! A client of a running service, using its public API.

use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use contactd_contract::{ErrorCode, Operation, header};
use contactd_core::{Clock, Kind, SystemClock, TokenHash};
use serde::Serialize;
use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::cli::ServiceArgs;
use crate::output;

/// A service and the token for it.
pub(crate) struct Client {
    base: String,
    token: String,
    agent: Agent,
}

/// The answer of the service about one profile.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LookupAnswer {
    submitted: String,
    /// The HTTP status.
    pub(crate) code: u16,
    /// `ok`, or the service's error code.
    pub(crate) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phone_number: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    /// The canonical form of the URL, also if nothing is on file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// How long to wait before asking again.
    #[serde(skip)]
    pub(crate) retry_after: Option<Duration>,
}

impl LookupAnswer {
    /// The phone number or the address.
    pub(crate) fn value(&self) -> Option<&String> {
        self.phone_number.as_ref().or(self.email.as_ref())
    }
}

/// Parses `Retry-After`: seconds, or the time at which to retry.
fn retry_after(text: &str) -> Option<Duration> {
    const LONGEST: u64 = 366 * 86_400;
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let then = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
            let now = u64::try_from(SystemClock.now().seconds()).ok()?;
            then.as_secs().saturating_sub(now)
        }
    };
    Some(Duration::from_secs(seconds.min(LONGEST)))
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

/// Why a token was refused, from `WWW-Authenticate`.
fn described(challenge: &str) -> Option<String> {
    Some(challenge.split_once("error_description=\"")?.1.split_once('"')?.0.to_owned())
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
        let operation = match kind {
            Kind::Phone => Operation::FetchPhoneNumber,
            Kind::Email => Operation::FetchPersonalEmail,
        };
        let url = format!("{}{}", self.base, operation.path());
        self.post(&url, operation, profile_url).map_err(|error| {
            let is_untrusted = format!("{error:#}").contains("invalid peer certificate");
            error.context(match is_untrusted {
                true => format!(
                    "the certificate of {url} is not trusted; if it is from an authority of your own, name that authority's \
                     certificate with --cacert"
                ),
                false => format!("cannot reach {url}; is the service running there?"),
            })
        })
    }

    fn post(&self, url: &str, operation: Operation, profile_url: &str) -> anyhow::Result<LookupAnswer> {
        let body = serde_json::json!({ "profileUrl": profile_url }).to_string();
        let mut response = self
            .agent
            .post(url)
            .header("Authorization", format!("Bearer {}", self.token))
            .header("Content-Type", "application/json")
            .send(body)?;
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        let reason = header(header::INVALID_REASON).or_else(|| described(&header("www-authenticate")?));
        let retry_after = header("retry-after").and_then(|text| retry_after(&text));
        let code = response.status().as_u16();
        let body: Value = serde_json::from_str(&response.body_mut().read_to_string()?).unwrap_or_default();
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        let status = match code {
            200 => "ok".to_owned(),
            _ => text("status").unwrap_or_else(|| "internal_error".to_owned()),
        };
        let message = text("message");
        let not_on_file = || message.as_deref().and_then(|text| ErrorCode::url_not_on_file(operation, text));
        Ok(LookupAnswer {
            submitted: profile_url.to_owned(),
            code,
            status,
            phone_number: text("phoneNumber"),
            email: text("email"),
            profile_url: text("profileUrl").or_else(|| not_on_file().map(str::to_owned)),
            reason,
            message,
            retry_after,
        })
    }
}
