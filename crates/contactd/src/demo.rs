//! `serve --demo`: invented people, a token for a day, and lines to paste.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use contactd_contract::Operation;
use contactd_core::store::Tokens;
use contactd_core::{Token, TokenSecret};

use crate::commands::import;
use crate::context::Context;

/// The invented people.
const PEOPLE: &str = include_str!("../../../fixtures/people.csv");

const PHONE_URL: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";
const EMAIL_URL: &str = "https://www.xing.com/profile/Mira_Quellbach2";
const REFUSED_URL: &str = "https://www.linkedin.com/company/quellcorp";

const TOKEN_LIFE: Duration = Duration::from_secs(86_400);

/// A store with the invented people in it.
pub(crate) struct Demo {
    secret: TokenSecret,
    profiles: u64,
}

impl Demo {
    pub(crate) async fn prepare(context: &Context) -> anyhow::Result<Self> {
        let profiles =
            import::load_built_in(context, PEOPLE).await.context("cannot load the invented people")?;
        let random = |error| anyhow::anyhow!("no randomness from the system: {error}");
        let secret = TokenSecret::generate().map_err(random)?;
        let now = context.now();
        let token =
            Token { expires_at: Some(now.plus(TOKEN_LIFE)), ..Token::new("demo", now).map_err(random)? };
        context.store.create_token(&secret.hash(), &token).await?;
        Ok(Self { secret, profiles })
    }

    /// Prints the lines to paste.
    pub(crate) fn show(&self, address: SocketAddr, base_path: &str) -> io::Result<()> {
        let curl = |operation: Operation, profile_url: &str| {
            format!(
                "curl -sS http://{address}{base_path}{} -H 'Authorization: Bearer {}' \
                 -H 'Content-Type: application/json' -d '{{\"profileUrl\":\"{profile_url}\"}}'",
                operation.path(),
                self.secret.expose()
            )
        };
        let mut out = io::stdout().lock();
        writeln!(out, "# {} invented people; this token ends in a day. A phone number:", self.profiles)?;
        writeln!(out, "{}", curl(Operation::FetchPhoneNumber, PHONE_URL))?;
        writeln!(out, "# An e-mail address:")?;
        writeln!(out, "{}", curl(Operation::FetchPersonalEmail, EMAIL_URL))?;
        writeln!(out, "# A refusal, which says why in X-Invalid-Reason:")?;
        writeln!(
            out,
            "{}",
            curl(Operation::FetchPhoneNumber, REFUSED_URL).replacen("curl -sS", "curl -sSi", 1)
        )?;
        out.flush()
    }
}
