//! `contactd admin-token create`, `list`, `revoke`, `take-over`

use std::process::ExitCode;

use contactd_core::{AdminToken, Timestamp};
use contactd_services::IssuedAdminToken;
use contactd_services::views::AdminTokenView;

use crate::cli::{AdminTokenArgs, AdminTokenCommand};
use crate::context::Context;
use crate::output;

pub(crate) async fn run(context: &Context, command: AdminTokenCommand) -> anyhow::Result<ExitCode> {
    let (users, actor) = (&context.services.users, &context.actor);
    match command {
        AdminTokenCommand::Create(args) => create(context, &args).await?,
        AdminTokenCommand::List(args) => {
            list(users.list_admin_tokens(actor).await?, context.clock.now(), args.json)?;
        }
        AdminTokenCommand::Revoke { token } => {
            let revoked = users.revoke_admin_token(actor, &token).await?;
            let AdminToken { id, name, .. } = &revoked.done;
            output::changed(&context.place, format_args!("{id} for {name} is revoked"));
            output::remarks(&revoked.notes, &revoked.recorded);
        }
        AdminTokenCommand::TakeOver { token } => {
            let taken = users.take_over_admin_token(actor, None, &token).await?;
            let AdminToken { id, name, .. } = &taken.done;
            let state = taken.done.state(context.clock.now());
            output::changed(
                &context.place,
                format_args!("{id} for {name} depends on no user any more; it is {state}"),
            );
            output::remarks(&taken.notes, &taken.recorded);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints only the token to stdout, and everything else to stderr.
async fn create(context: &Context, args: &AdminTokenArgs) -> anyhow::Result<()> {
    let users = &context.services.users;
    let issued = users.create_admin_token(&context.actor, None, &args.name, args.role, args.expires).await?;
    let IssuedAdminToken { secret, token } = &issued.done;
    output::data(format_args!("{}", secret.expose()))?;
    let until = token.expires_at.map_or("with no expiry".to_owned(), |end| format!("valid until {end}"));
    let (id, name, role) = (&token.id, &token.name, token.role);
    output::changed(
        &context.place,
        format_args!("{id} for {name} with the role {role}, {until}; the token is shown only once"),
    );
    output::remarks(&issued.notes, &issued.recorded);
    Ok(())
}

fn list(tokens: Vec<AdminToken>, now: Timestamp, json: bool) -> anyhow::Result<()> {
    let view = |token: AdminToken| AdminTokenView {
        revoked_at: Some(token.revoked_at),
        ..AdminTokenView::of(token, now)
    };
    let shown: Vec<_> = tokens.into_iter().map(view).collect();
    if json {
        return output::json(&shown);
    }
    let time = |at: Option<Timestamp>, none: &str| at.map_or(none.to_owned(), |at| at.to_string());
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|token| {
            vec![
                token.id.clone(),
                token.name.clone(),
                token.role.to_string(),
                token.created_at.to_string(),
                time(token.expires_at, "never"),
                time(token.last_used_at, "-"),
                token.owner.clone().unwrap_or_else(|| "-".to_owned()),
                token.state.to_owned(),
            ]
        })
        .collect();
    Ok(output::table(&["ID", "NAME", "ROLE", "CREATED", "EXPIRES", "LAST USED", "OWNER", "STATE"], &rows)?)
}
