//! `contactd token create`, `list`, `update`, `revoke`, `rotate`

mod shown;

use std::process::ExitCode;

use contactd_core::{Rate, Scope, ScopeFault, Scopes, TokenUpdate};
use contactd_services::Committed;
use contactd_services::views::ListedToken;
use contactd_services::{IssuedToken, NewToken, TokenError};
use shown::{HEADER, cells, changes};

use crate::cli::{TokenCommand, TokenCreateArgs, TokenRotateArgs, TokenUpdateArgs};
use crate::context::Context;
use crate::misuse::Misuse;
use crate::output;

pub(crate) async fn run(context: &Context, command: TokenCommand) -> anyhow::Result<ExitCode> {
    match command {
        TokenCommand::Create(args) => return create(context, asked(&args)?, args.json).await,
        TokenCommand::List(args) => list(context, args.json).await?,
        TokenCommand::Update(args) => update(context, &args).await?,
        TokenCommand::Revoke(which) => revoke(context, &which.token).await?,
        TokenCommand::Rotate(args) => rotate(context, &args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The token that the flags ask for. Nothing is opened or made before it is clear that they fit.
pub(crate) fn asked(args: &TokenCreateArgs) -> anyhow::Result<NewToken> {
    let scopes = scopes(&args.scope).unwrap_or(Scopes::ALL);
    scopes.check(args.quota.is_some() || args.sandbox).map_err(|fault| {
        Misuse(match fault {
            ScopeFault::McpWithoutQuota => {
                format!("{fault}, such as --quota 100/day: an agent decides by itself how often it asks")
            }
            ScopeFault::McpAlone => format!("{fault}: add --scope phone or --scope email"),
        })
    })?;
    Ok(NewToken {
        name: args.name.clone(),
        scopes,
        sandbox: args.sandbox,
        lifetime: args.expires,
        rate: args.rate.map(|rate| Rate { burst: args.burst.unwrap_or(rate.burst), ..rate }),
        quota: args.quota,
    })
}

pub(crate) async fn create(context: &Context, new: NewToken, json: bool) -> anyhow::Result<ExitCode> {
    show_new(context, context.services.tokens.create(&context.actor, new).await?, json).await?;
    Ok(ExitCode::SUCCESS)
}

/// The scopes that were named; `None` if none were.
fn scopes(named: &[Scope]) -> Option<Scopes> {
    (!named.is_empty()).then(|| Scopes::of(named))
}

/// Prints only the token to stdout, and everything else to stderr.
async fn show_new(context: &Context, issued: Committed<IssuedToken>, json: bool) -> anyhow::Result<()> {
    // Printed first: the token is valid, and nobody can read it anywhere else. Announced even if it cannot be printed.
    let printed = print_new(context, &issued.done, json);
    let changed = issued.announce().await;
    output::remarks(&changed.notes, &changed.recorded);
    printed?;
    Ok(changed.confirmed?)
}

fn print_new(context: &Context, issued: &IssuedToken, json: bool) -> anyhow::Result<()> {
    let (IssuedToken { secret, token, rotated }, now) = (issued, context.clock.now());
    if json {
        let secret = Some(secret.expose().to_owned());
        output::json(&ListedToken { token: secret, ..ListedToken::of(token, now) })?;
    } else {
        output::data(format_args!("{}", secret.expose()))?;
    }
    let sandbox = if token.sandbox { ", in the sandbox: its answers are made up" } else { "" };
    let until = token.expires_at.map_or("with no expiry".to_owned(), |end| format!("valid until {end}"));
    let (id, name) = (&token.id, &token.name);
    output::changed(
        &context.place,
        format_args!("{id} for {name}{sandbox}, {until}; the token is shown only once"),
    );
    match rotated.as_ref().map(|old| (old, old.expires_at)) {
        Some((old, Some(end))) if old.is_live(now) => {
            output::words(format_args!(
                "{} stays valid until {end}{}",
                old.id,
                if old.sandbox { "" } else { "; both share one quota" }
            ));
        }
        Some((old, _)) => output::words(format_args!("{} has ended", old.id)),
        None => {}
    }
    Ok(())
}

async fn list(context: &Context, json: bool) -> anyhow::Result<()> {
    let now = context.clock.now();
    let tokens = context.services.tokens.list(&context.actor).await?;
    let shown: Vec<_> = tokens.iter().map(|token| ListedToken::of(token, now)).collect();
    if json {
        return output::json(&shown);
    }
    output::table(&HEADER, &shown.iter().map(cells).collect::<Vec<_>>())?;
    let ending = tokens.iter().filter(|token| token.ends_soon(now)).count();
    if ending > 0 {
        output::words(format_args!(
            "{} within 14 days; `contactd token rotate ID` makes a new one in place of one that is still needed",
            if ending == 1 { "1 of them ends".to_owned() } else { format!("{ending} of them end") }
        ));
    }
    Ok(())
}

async fn update(context: &Context, args: &TokenUpdateArgs) -> anyhow::Result<()> {
    let update = TokenUpdate {
        scopes: scopes(&args.scope),
        lifetime: args.expires,
        rate: args.rate,
        burst: args.burst,
        quota: args.quota,
    };
    let updated = context.services.tokens.update(&context.actor, &args.which.token, &update).await;
    let updated = updated.map_err(|error| match error {
        TokenError::QuotaInSandbox => Misuse(error.to_string()).into(),
        error => anyhow::Error::from(error),
    })?;
    let token = &updated.done.after;
    if args.json {
        output::json(&ListedToken::of(token, context.clock.now()))?;
    }
    let (id, name, changes) = (&token.id, &token.name, changes(&updated.done));
    output::changed(&context.place, format_args!("{id} for {name}: {changes}"));
    if !updated.done.sharing.is_empty() {
        output::words(format_args!(
            "the quota is now also that of {}, because rotated tokens share one",
            updated.done.sharing.join(", ")
        ));
    }
    output::remarks(&updated.notes, &updated.recorded);
    Ok(updated.confirmed?)
}

async fn revoke(context: &Context, id_or_name: &str) -> anyhow::Result<()> {
    let revoked = context.services.tokens.revoke(&context.actor, id_or_name).await?;
    let token = &revoked.done;
    output::remarks(&revoked.notes, &revoked.recorded);
    if revoked.confirmed.is_ok() {
        output::changed(&context.place, format_args!("{} for {} is revoked", token.id, token.name));
    }
    Ok(revoked.confirmed?)
}

async fn rotate(context: &Context, args: &TokenRotateArgs) -> anyhow::Result<()> {
    let rotated = context
        .services
        .tokens
        .rotate(&context.actor, &args.which.token, args.overlap.0, args.expires)
        .await?;
    show_new(context, rotated, args.json).await
}
