//! `contactd token create`, `list`, `revoke`, `rotate`

use std::process::ExitCode;

use contactd_core::services::{IssuedToken, NewToken};
use contactd_core::{Committed, Kind, Rate, Scopes, Timestamp, Token};
use serde::Serialize;

use crate::cli::{TokenCommand, TokenCreateArgs, TokenRotateArgs};
use crate::context::Context;
use crate::output;

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
struct ShownToken<'a> {
    id: &'a str,
    name: &'a str,
    scopes: Vec<&'static str>,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
    hits: u64,
    revoked_at: Option<Timestamp>,
    rate: Option<String>,
    burst: Option<u32>,
    quota: Option<String>,
    state: &'static str,
    /// Only if the token was just created.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
}

impl<'a> ShownToken<'a> {
    fn new(token: &'a Token, now: Timestamp) -> Self {
        Self {
            id: &token.id,
            name: &token.name,
            scopes: token.scopes.names().collect(),
            created_at: token.created_at,
            expires_at: token.expires_at,
            last_used_at: token.last_used_at,
            hits: token.hits,
            revoked_at: token.revoked_at,
            rate: token.rate.map(|rate| rate.to_string()),
            burst: token.rate.map(|rate| rate.burst),
            quota: token.quota.map(|quota| quota.to_string()),
            state: token.state(now),
            token: None,
        }
    }

    fn cells(&self) -> Vec<String> {
        let or = |text: Option<String>, otherwise: &str| text.unwrap_or_else(|| otherwise.to_owned());
        let time = |at: Option<Timestamp>| at.map(|at| at.to_string());
        vec![
            self.id.to_owned(),
            self.name.to_owned(),
            self.scopes.join("+"),
            self.created_at.to_string(),
            or(time(self.expires_at), "never"),
            or(time(self.last_used_at), "-"),
            self.hits.to_string(),
            or(self.rate.clone(), "-"),
            or(self.quota.clone(), "-"),
            self.state.to_owned(),
        ]
    }
}

async fn create(context: &Context, args: &TokenCreateArgs) -> anyhow::Result<()> {
    let scopes = match args.scope.as_slice() {
        [] => Scopes::ALL,
        kinds => Scopes { phone: kinds.contains(&Kind::Phone), email: kinds.contains(&Kind::Email) },
    };
    let new = NewToken {
        name: args.name.clone(),
        scopes,
        lifetime: args.expires,
        rate: args.rate.map(|rate| Rate { burst: args.burst.unwrap_or(rate.burst), ..rate }),
        quota: args.quota,
    };
    show_new(context, context.services.tokens.create(&context.actor, new).await?, args.json).await
}

/// Prints only the token to stdout, and everything else to stderr.
async fn show_new(context: &Context, issued: Committed<IssuedToken>, json: bool) -> anyhow::Result<()> {
    // Printed first: the token is valid, and nobody can read it anywhere else. Announced even if it cannot be printed.
    let printed = print_new(context, &issued.done, json);
    let changed = issued.announce().await;
    output::unrecorded(&changed.recorded);
    printed?;
    Ok(changed.confirmed?)
}

fn print_new(
    context: &Context,
    IssuedToken { secret, token }: &IssuedToken,
    json: bool,
) -> anyhow::Result<()> {
    if json {
        let shown = ShownToken::new(token, context.clock.now());
        output::json(&ShownToken { token: Some(secret.expose()), ..shown })?;
    } else {
        output::data(format_args!("{}", secret.expose()))?;
    }
    let until = token.expires_at.map_or("with no expiry".to_owned(), |end| format!("valid until {end}"));
    let (id, name) = (&token.id, &token.name);
    output::changed(&context.dir, format_args!("{id} for {name}, {until}; the token is shown only once"));
    Ok(())
}

async fn list(context: &Context, json: bool) -> anyhow::Result<()> {
    let now = context.clock.now();
    let tokens = context.services.tokens.list(&context.actor).await?;
    let shown: Vec<ShownToken<'_>> = tokens.iter().map(|token| ShownToken::new(token, now)).collect();
    if json {
        return output::json(&shown);
    }
    let header =
        ["ID", "NAME", "SCOPES", "CREATED", "EXPIRES", "LAST USED", "HITS", "RATE", "QUOTA", "STATE"];
    output::table(&header, &shown.iter().map(ShownToken::cells).collect::<Vec<_>>())?;
    let ending = tokens.iter().filter(|token| token.ends_soon(now)).count();
    if ending > 0 {
        output::words(format_args!(
            "{} within 14 days; `contactd token rotate ID` makes a new one in place of one that is still needed",
            if ending == 1 { "1 of them ends".to_owned() } else { format!("{ending} of them end") }
        ));
    }
    Ok(())
}

async fn revoke(context: &Context, id: &str) -> anyhow::Result<()> {
    let revoked = context.services.tokens.revoke(&context.actor, id).await?;
    let token = &revoked.done;
    output::unrecorded(&revoked.recorded);
    if revoked.confirmed.is_ok() {
        output::changed(&context.dir, format_args!("{} for {} is revoked", token.id, token.name));
    }
    Ok(revoked.confirmed?)
}

async fn rotate(context: &Context, args: &TokenRotateArgs) -> anyhow::Result<()> {
    let rotated =
        context.services.tokens.rotate(&context.actor, &args.id, args.overlap.0, args.expires).await?;
    show_new(context, rotated, args.json).await
}
