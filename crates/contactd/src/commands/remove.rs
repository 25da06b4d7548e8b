//! `contactd remove`

use std::process::ExitCode;

use contactd_core::SubjectName;
use contactd_core::store::DetailFilter;

use crate::cli::RemoveArgs;
use crate::context::{Context, subject_error};
use crate::{output, progress};

pub(crate) async fn run(context: &Context, args: &RemoveArgs) -> anyhow::Result<ExitCode> {
    let profile = context.profile(&args.url)?;
    let phones = args.phone.iter().map(|text| SubjectName::phone(text));
    let emails = args.email.iter().map(|text| SubjectName::email(text));
    let mut values = Vec::new();
    for named in phones.chain(emails) {
        if let SubjectName::Value(kind, value) = named.map_err(subject_error)? {
            values.push((kind, value));
        }
    }
    let which = DetailFilter {
        values: Some(values).filter(|values| !values.is_empty()),
        source: args.source.clone(),
    };
    let subjects = &context.services.subjects;
    let removed = subjects.remove(&context.actor, &profile, &which, &progress::waiting()).await?;
    if args.json {
        output::json(&serde_json::json!({ "detailsRemoved": removed.done }))?;
    }
    match removed.done {
        0 => output::changed(&context.place, format_args!("no such detail is held; nothing changed")),
        removed => {
            output::changed(&context.place, format_args!("{} removed", output::counted(removed, "detail")));
        }
    }
    output::remarks(&removed.notes, &removed.recorded);
    removed.confirmed?;
    Ok(ExitCode::SUCCESS)
}
