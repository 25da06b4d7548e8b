//! `contactd token create`, `list`, `revoke`, `rotate`

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use contactd_core::store::Tokens;
use contactd_core::{Kind, Rate, Scopes, Timestamp, Token, TokenSecret};
use serde::Serialize;

use crate::cli::{TokenCommand, TokenCreateArgs, TokenRotateArgs};
use crate::context::Context;
use crate::output;
use crate::span::Lifetime;

pub(crate) async fn run(context: &Context, command: TokenCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokenCommand::Create(args) => create(context, &args).await?,
        TokenCommand::List(args) => list(context, args.json).await?,
        TokenCommand::Revoke { id } => revoke(context, &id).await?,
        TokenCommand::Rotate(args) => rotate(context, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What is known about a token, as it is printed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: String,
    name: String,
    scopes: Vec<&'static str>,
    created_at: String,
    expires_at: Option<String>,
    last_used_at: Option<String>,
    hits: u64,
    revoked_at: Option<String>,
    rate: Option<String>,
    burst: Option<u32>,
    quota: Option<String>,
    state: &'static str,
    /// Only when it was just made.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

impl Shown {
    fn new(token: &Token, now: Timestamp, secret: Option<&TokenSecret>) -> Self {
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        Self {
            id: token.id.clone(),
            name: token.name.clone(),
            scopes: token.scopes.names().collect(),
            created_at: token.created_at.to_string(),
            expires_at: time(token.expires_at),
            last_used_at: time(token.last_used_at),
            hits: token.hits,
            revoked_at: time(token.revoked_at),
            rate: token.rate.map(|rate| rate.to_string()),
            burst: token.rate.map(|rate| rate.burst),
            quota: token.quota.map(|quota| quota.to_string()),
            state: state(token, now),
            token: secret.map(|secret| secret.expose().to_owned()),
        }
    }
}

fn state(token: &Token, now: Timestamp) -> &'static str {
    if token.revoked_at.is_some() {
        "revoked"
    } else if !token.is_live(now) {
        "expired"
    } else if token.ends_soon(now) {
        "ends soon"
    } else {
        "live"
    }
}

async fn create(context: &Context, args: &TokenCreateArgs) -> anyhow::Result<()> {
    let scopes = match args.scope.as_slice() {
        [] => Scopes::ALL,
        kinds => Scopes { phone: kinds.contains(&Kind::Phone), email: kinds.contains(&Kind::Email) },
    };
    let made = Token {
        scopes,
        expires_at: end(args.expires, context.now()),
        rate: args.rate.map(|rate| Rate { burst: args.burst.unwrap_or(rate.burst), ..rate }),
        quota: args.quota,
        ..new_token(&args.name, context.now())?
    };
    let secret = new_secret()?;
    context.store.create_token(&secret.hash(), &made).await?;
    show_new(context, &made, &secret, args.json)?;
    context.announce()
}

fn new_token(name: &str, now: Timestamp) -> anyhow::Result<Token> {
    Token::new(name, now).map_err(|error| anyhow::anyhow!("no randomness from the system: {error}"))
}

fn new_secret() -> anyhow::Result<TokenSecret> {
    TokenSecret::generate().map_err(|error| anyhow::anyhow!("no randomness from the system: {error}"))
}

fn end(lifetime: Lifetime, now: Timestamp) -> Option<Timestamp> {
    match lifetime {
        Lifetime::For(length) => Some(now.plus(length)),
        Lifetime::Forever => None,
    }
}

/// The token alone on stdout; what else there is to say, on stderr.
fn show_new(context: &Context, token: &Token, secret: &TokenSecret, json: bool) -> anyhow::Result<()> {
    if json {
        return output::json(&Shown::new(token, context.now(), Some(secret)));
    }
    output::data(format_args!("{}", secret.expose()))?;
    let until = token.expires_at.map_or("without an end".to_owned(), |end| format!("until {end}"));
    output::words(format_args!("{} for {}, {until}. It is shown only this once.", token.id, token.name));
    Ok(())
}

async fn list(context: &Context, json: bool) -> anyhow::Result<()> {
    let now = context.now();
    let tokens = context.store.list_tokens().await?;
    let shown: Vec<Shown> = tokens.iter().map(|(_, token)| Shown::new(token, now, None)).collect();
    if json {
        return output::json(&shown);
    }
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|token| {
            vec![
                token.id.clone(),
                token.name.clone(),
                token.scopes.join("+"),
                token.created_at.clone(),
                token.expires_at.clone().unwrap_or_else(|| "never".to_owned()),
                or_dash(&token.last_used_at),
                token.hits.to_string(),
                or_dash(&token.rate),
                or_dash(&token.quota),
                token.state.to_owned(),
            ]
        })
        .collect();
    output::table(
        &["ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "HITS", "RATE", "QUOTA", "STATE"],
        &rows,
    )?;
    let ending = tokens.iter().filter(|(_, token)| token.ends_soon(now)).count();
    if ending > 0 {
        output::words(format_args!(
            "{ending} of them end within 14 days; `contactd token rotate ID` makes another"
        ));
    }
    Ok(())
}

async fn revoke(context: &Context, id: &str) -> anyhow::Result<()> {
    let token = context.store.revoke_token(id, context.now()).await?.with_context(|| unknown(id))?;
    context.announce()?;
    output::words(format_args!("{} for {} is revoked", token.id, token.name));
    Ok(())
}

async fn rotate(context: &Context, args: &TokenRotateArgs) -> anyhow::Result<()> {
    let now = context.now();
    let tokens = context.store.list_tokens().await?;
    let old = tokens.iter().map(|(_, token)| token).find(|token| token.id == args.id);
    let old = old.with_context(|| unknown(&args.id))?;
    if !old.is_live(now) {
        bail!("{} has ended; `contactd token create` makes a new one", old.id);
    }
    let same_lifetime = || {
        let millis = old.expires_at?.millis() - old.created_at.millis();
        Some(Timestamp::from_millis(now.millis() + millis))
    };
    let fresh = new_token(&old.name, now)?;
    let made = Token {
        scopes: old.scopes,
        rate: old.rate,
        quota: old.quota,
        expires_at: args.expires.map_or_else(same_lifetime, |lifetime| end(lifetime, now)),
        ..fresh
    };
    let secret = new_secret()?;
    if !context.store.rotate_token(&old.id, now.plus(args.overlap.0), &secret.hash(), &made).await? {
        bail!(unknown(&args.id));
    }
    show_new(context, &made, &secret, args.json)?;
    context.announce()
}

fn unknown(id: &str) -> String {
    format!("there is no token {id}; `contactd token list` shows them")
}
