//! `serve --demo`: invented people, a token for one day, and commands to paste.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use contactd_contract::Operation;
use contactd_core::{Actor, Cancel, Lifetime, Role, Scopes, TokenSecret, User, unobserved};
use contactd_import::ReadOptions;
use contactd_import::{Files, Input, Rejects};
use contactd_services::{ImportOptions, NewToken, Services, TokenError};

/// The invented people.
const PEOPLE: &str = include_str!("../../../fixtures/people.csv");

const PHONE_URL: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";
const EMAIL_URL: &str = "https://www.xing.com/profile/Mira_Quellbach2";
const REFUSED_URL: &str = "https://www.linkedin.com/company/quellcorp";
const SANDBOX_URL: &str = "https://www.linkedin.com/in/sandbox-hit";

/// The user of the console.
const USER: &str = "demo";

const TOKEN_LIFE: Duration = Duration::from_secs(86_400);

/// A store with the invented people in it.
pub(crate) struct Demo {
    secret: TokenSecret,
    sandbox: TokenSecret,
    profiles: u64,
    /// An admin of the console, whose password nobody knows.
    pub(crate) user: User,
}

impl Demo {
    pub(crate) async fn prepare(services: &Services, room: PathBuf) -> anyhow::Result<Self> {
        let actor = Actor::service();
        let own = Some(actor.to_string());
        if services.imports.list(&actor).await?.iter().any(|listed| listed.actor != own) {
            bail!(
                "{} holds data that is not the demo's; choose another directory, or leave out --data",
                room.display()
            );
        }
        let inputs = vec![Input::Csv("the invented people", PEOPLE.into())];
        let mut people =
            Files::new(inputs, None, ReadOptions::default(), services.imports.disk(), Rejects::nowhere());
        let (options, cancel) = (ImportOptions::default(), Cancel::default());
        let loaded = services.imports.run(&actor, &mut people, &options, &unobserved, &cancel).await;
        let loaded = loaded.context("cannot load the invented people")?.done;
        if !loaded.committed {
            bail!("{} of the invented people are not valid", loaded.rejected);
        }
        let create = async |name: &str, sandbox| {
            let new = NewToken {
                name: name.to_owned(),
                scopes: Scopes::ALL,
                sandbox,
                lifetime: Lifetime::For(TOKEN_LIFE),
                rate: None,
                quota: None,
            };
            let issued = match services.tokens.create(&actor, new).await {
                // Of an earlier demo in the same directory. Nobody can read that token any more.
                Err(TokenError::Taken(id)) => {
                    let lifetime = Some(Lifetime::For(TOKEN_LIFE));
                    services.tokens.rotate(&actor, &id, Duration::ZERO, lifetime).await?
                }
                issued => issued?,
            };
            anyhow::Ok(issued.announce().await.done.secret)
        };
        let (secret, sandbox) = (create("demo", false).await?, create("demo-sandbox", true).await?);
        let profiles = services.health.stats(&actor).await?.profiles;
        let user = match services.users.find(USER).await? {
            Some(user) => user,
            None => services.users.create(&actor, USER, Role::Admin).await?.done.user,
        };
        Ok(Self { secret, sandbox, profiles, user })
    }

    /// Prints the commands to paste, for the service at this URL, and a link that opens the console once.
    pub(crate) fn show(&self, url: &str, link: &str) -> io::Result<()> {
        let is_tls = url.starts_with("https:");
        let curl = |operation: Operation, token: &TokenSecret, profile_url: &str| {
            let insecure = if is_tls { " --insecure" } else { "" };
            format!(
                "curl -sS{insecure} {url}{} -H 'Authorization: Bearer {}' \
                 -H 'Content-Type: application/json' -d '{{\"profileUrl\":\"{profile_url}\"}}'",
                operation.path(),
                token.expose()
            )
        };
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "# {} invented people; this token expires in one day. Look up a phone number:",
            self.profiles
        )?;
        if is_tls {
            writeln!(out, "# (--insecure, because your certificate may not have the name of this address)")?;
        }
        writeln!(out, "{}", curl(Operation::FetchPhoneNumber, &self.secret, PHONE_URL))?;
        writeln!(out, "# Look up an e-mail address:")?;
        writeln!(out, "{}", curl(Operation::FetchPersonalEmail, &self.secret, EMAIL_URL))?;
        writeln!(out, "# A refused URL; the header X-Invalid-Reason gives the reason:")?;
        writeln!(
            out,
            "{}",
            curl(Operation::FetchPhoneNumber, &self.secret, REFUSED_URL).replacen("curl -sS", "curl -sSi", 1)
        )?;
        let path = Operation::FetchPhoneNumber.path();
        let (call, token) = (format!("{url}{path}"), self.secret.expose());
        writeln!(out, "# The same from Python, and from JavaScript:")?;
        let (import, context) = match is_tls {
            true => (", ssl", ", context=ssl._create_unverified_context()"),
            false => ("", ""),
        };
        writeln!(
            out,
            "python3 -c 'import json, urllib.request as web{import}; print(web.urlopen(web.Request(\"{call}\", \
             json.dumps({{\"profileUrl\": \"{PHONE_URL}\"}}).encode(), {{\"Authorization\": \"Bearer {token}\", \
             \"Content-Type\": \"application/json\"}}){context}).read().decode())'"
        )?;
        let insecure = if is_tls { "NODE_TLS_REJECT_UNAUTHORIZED=0 " } else { "" };
        writeln!(
            out,
            "{insecure}node -e 'fetch(\"{call}\", {{ method: \"POST\", headers: {{ Authorization: \"Bearer {token}\", \
             \"Content-Type\": \"application/json\" }}, body: JSON.stringify({{ profileUrl: \"{PHONE_URL}\" }}) }})\
             .then((answer) => answer.text()).then(console.log)'"
        )?;
        writeln!(
            out,
            "# The sandbox, for tests without real people: its answers are made up, and say so in a header:"
        )?;
        let sandbox = curl(Operation::FetchPhoneNumber, &self.sandbox, SANDBOX_URL);
        writeln!(out, "{}", sandbox.replacen("curl -sS", "curl -sSi", 1))?;
        writeln!(out, "# The console, as an admin; this link works once, within an hour:")?;
        writeln!(out, "{link}")?;
        out.flush()
    }
}
