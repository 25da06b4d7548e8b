//! `contactd migrate`

use std::process::ExitCode;

use crate::cli::MigrateArgs;
use crate::config::Config;
use crate::migrating;
use crate::output;
use crate::progress::Working;

pub(crate) async fn run(config: Config, args: &MigrateArgs) -> anyhow::Result<ExitCode> {
    let working = Working::start("moving");
    let migrated = migrating::migrate(config, &args.to, &|step| working.show(step)).await;
    drop(working);
    let (migrated, place, dir) = migrated?;
    if args.json {
        output::json(&migrated)?;
    } else {
        let rows: Vec<_> = migrated
            .tables
            .iter()
            .map(|table| vec![table.what.to_owned(), table.count.to_string()])
            .collect();
        output::table(&["MOVED", "ROWS"], &rows)?;
    }
    if migrated.was_resumed {
        output::words(format_args!("continued where an earlier run had stopped"));
    }
    output::changed(&place, format_args!("everything is moved; counts and digests are equal"));
    output::words(format_args!(
        "{dir} belongs to a node of the cluster now: start it with `contactd serve --store …`, and its journal goes on"
    ));
    output::words(format_args!(
        "every other node, and every machine that runs commands, needs the digest keys in {dir}/keys, and every node the key \
         of second factors there, if there is one"
    ));
    Ok(ExitCode::SUCCESS)
}
