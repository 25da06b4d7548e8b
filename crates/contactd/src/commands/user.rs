//! `contactd user create`, `list`, `disable`, `enable`, `role`, `password`, `reset-totp`

use std::process::ExitCode;

use contactd_core::User;
use contactd_services::Changed;
use contactd_services::NewUser;
use contactd_services::views::UserView;

use crate::cli::UserCommand;
use crate::context::Context;
use crate::output;

pub(crate) async fn run(context: &Context, command: UserCommand) -> anyhow::Result<ExitCode> {
    let (users, actor) = (&context.services.users, &context.actor);
    match command {
        UserCommand::Create(args) => {
            let created = users.create(actor, &args.name, args.role).await?;
            show_password(context, &created, &format!("is created with the role {}", args.role))?;
        }
        UserCommand::List(args) => list(&users.list(actor).await?, args.json)?,
        UserCommand::Disable(user) => {
            let disabled = users.disable(actor, &user.name).await?;
            say(context, &disabled, "is disabled, and all sessions have ended");
            say_suspended(context, &disabled.done).await?;
        }
        UserCommand::Enable(user) => {
            say(context, &users.enable(actor, &user.name).await?, "can log in");
        }
        UserCommand::Role { user, role } => {
            let changed = users.set_role(actor, &user.name, role).await?;
            say(context, &changed, &format!("has the role {role}"));
            say_suspended(context, &changed.done).await?;
        }
        UserCommand::Password(user) => {
            let changed = users.reset_password(actor, &user.name).await?;
            show_password(context, &changed, "has a new password, and all sessions have ended")?;
        }
        UserCommand::ResetTotp(user) => {
            say(context, &users.reset_totp(actor, &user.name).await?, "logs in without a second factor");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints only the password to stdout, and everything else to stderr.
fn show_password(context: &Context, changed: &Changed<NewUser>, what: &str) -> anyhow::Result<()> {
    let NewUser { user, password } = &changed.done;
    let name = &user.name;
    output::data(format_args!("{password}"))?;
    output::changed(&context.place, format_args!("{name} {what}"));
    output::words(format_args!(
        "the password is shown only once, and {name} has to change it at the first log-in"
    ));
    output::remarks(&changed.notes, &changed.recorded);
    Ok(())
}

fn say(context: &Context, changed: &Changed<User>, what: &str) {
    output::changed(&context.place, format_args!("{} {what}", changed.done.name));
    output::remarks(&changed.notes, &changed.recorded);
}

/// Names the admin tokens of a user that are refused now.
async fn say_suspended(context: &Context, user: &User) -> anyhow::Result<()> {
    let tokens = context.services.users.list_admin_tokens(&context.actor).await?;
    let now = context.clock.now();
    let suspended = tokens.iter().filter(|token| token.state(now) == "suspended");
    for token in suspended.filter(|token| token.owner.as_ref() == Some(&user.name)) {
        output::words(format_args!(
            "the admin token {} for {} is refused from now on; `contactd admin-token take-over {}` keeps it",
            token.id, token.name, token.id
        ));
    }
    Ok(())
}

fn list(users: &[User], json: bool) -> anyhow::Result<()> {
    if json {
        let view = |user: &User| UserView {
            must_change_password: Some(user.must_change_password),
            ..UserView::from(user.clone())
        };
        return output::json(&users.iter().map(view).collect::<Vec<_>>());
    }
    let cells = |user: &User| {
        let state = match (user.is_enabled(), user.must_change_password) {
            (false, _) => "disabled",
            (true, true) => "one-time password",
            (true, false) => "enabled",
        };
        vec![
            user.name.clone(),
            user.role.to_string(),
            user.created_at.to_string(),
            user.last_login_at.map_or("-".to_owned(), |at| at.to_string()),
            if user.totp.is_some() { "yes" } else { "no" }.to_owned(),
            state.to_owned(),
        ]
    };
    let rows: Vec<_> = users.iter().map(cells).collect();
    Ok(output::table(&["NAME", "ROLE", "CREATED", "LAST LOG-IN", "TOTP", "STATE"], &rows)?)
}
