//! `contactd import`: all or nothing, and every row accounted for.

pub(crate) mod advice;

use std::path::Path;
use std::process::ExitCode;

use contactd_core::store::MOST_VALUES;
use contactd_core::{Cancel, Span, give_way_to_lookups};
use contactd_import::{FileError, Files, Input, Rejects};
use contactd_import::{ReadOptions, RejectedRow};
use contactd_services::{ImportOptions, ImportReport, RefusedProfile, SimilarSource};

use crate::cli::ImportArgs;
use crate::context::Context;
use crate::misuse::Misuse;
use crate::progress::Working;
use crate::{control, output};

pub(crate) async fn run(context: &Context, args: &ImportArgs) -> anyhow::Result<ExitCode> {
    let reading = read_options(args);
    reading.check_mapping().map_err(|error| Misuse(error.to_string()))?;
    if control::is_served(&context.dir) {
        give_way_to_lookups();
    }
    let cancel = cancel_on_ctrl_c();
    let mut files = files(args, reading, context).map_err(|error| advice::advised_file(&error))?;
    let options = ImportOptions {
        replace_source: args.replace_source,
        allow_empty: args.allow_empty,
        default_source: args.source.clone(),
        max_age: args.max_age.map(|Span(max_age)| max_age),
        max_rejects: args.max_rejects,
        max_withdrawn: args.max_withdrawn,
        files: args.files.iter().map(|file| file_name(file)).collect(),
        dry_run: args.dry_run,
        // Whoever runs commands here can read the files of the store anyway.
        without_people: false,
    };
    let working = Working::start("reading");
    let imports = &context.services.imports;
    let done = imports.run(&context.actor, &mut files, &options, &|step| working.show(step), &cancel).await;
    drop(working);
    let done = done.map_err(advice::advised)?;
    let report = &done.done;
    if args.json {
        output::json(&advice::Advised::new(report))?;
    } else {
        show(report)?;
    }
    if args.dry_run {
        output::changed(&context.place, format_args!("dry run: nothing was changed"));
    }
    if report.committed {
        output::changed(&context.place, format_args!("import finished"));
    }
    let then = if report.committed { "; correct them there and import that file" } else { "" };
    if report.rejects_not_kept > 0 {
        output::words(format_args!(
            "contactd: {} left out of the file of rejected rows, which has 100 MiB",
            output::counted(report.rejects_not_kept, "row")
        ));
    }
    for file in files.rejects().written() {
        output::words(format_args!("the rejected rows are in {}{then}", file.display()));
    }
    if let Some(removed @ 1..) = report.details_too_old {
        output::words(format_args!(
            "contactd: {} older than --max-age removed; undo does not restore them",
            output::counted(removed, "detail")
        ));
    }
    for SimilarSource { source, known } in &report.similar_sources {
        output::words(format_args!(
            "contactd: source {source} is new; did you mean {known}?{}",
            report
                .id
                .map(|id| format!(
                    " Then undo this (contactd imports undo {id}) and import again with --source {known}"
                ))
                .unwrap_or_default()
        ));
    }
    for source in &report.replaced_nothing {
        output::words(format_args!("contactd: source {source} held nothing before, so nothing was replaced"));
    }
    if report.rows == 0 {
        output::words(format_args!("contactd: the files hold no row"));
    }
    if report.are_traces_left {
        output::words(format_args!(
            "contactd: somebody opted out during the import. What was read of theirs may be left in the write-ahead log, because a \
             reader is using it; run `contactd sweep` in a moment"
        ));
    }
    if let Some(error) = &report.not_swept {
        output::words(format_args!(
            "contactd: loaded, but details older than --max-age could not be removed ({error}); run `contactd sweep`"
        ));
    }
    output::remarks(&done.notes, &done.recorded);
    if report.compared.is_none() {
        output::words(format_args!(
            "contactd: counts of what is on file are shown only once they are on record"
        ));
    }
    done.confirmed?;
    if report.has_too_many_rejects {
        output::words(format_args!(
            "contactd: nothing was loaded: {} of {} rows have a rejected value, more than --max-rejects allows{}",
            report.rejected,
            report.rows,
            if report.reading_stopped { "; the rest was not read" } else { "" }
        ));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

fn files(args: &ImportArgs, options: ReadOptions, context: &Context) -> Result<Files, FileError> {
    let data = context.dir.path();
    let beside = data.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rejects = match &args.rejects {
        None if args.dry_run => Rejects::nowhere(),
        // A service's account can often write nowhere but to its data directory.
        chosen => Rejects::to(chosen.clone(), &args.files, vec![beside.to_owned(), data.to_owned()])?,
    };
    let inputs = args.files.iter().cloned().map(Input::File).collect();
    let disk = context.services.imports.disk();
    Ok(Files::new(inputs, args.format.map(Into::into), options, disk, rejects))
}

fn read_options(args: &ImportArgs) -> ReadOptions {
    ReadOptions {
        source: args.source.clone(),
        region: args.region.clone(),
        mapping: args.map.clone(),
        only_mapped: false,
        delimiter: args.delimiter,
        date_format: args.date_format.clone(),
        needs_basis: args.require_basis,
        encoding: args.encoding,
        sheet: args.sheet.clone(),
    }
}

/// The name of a file without its directory, which may say more about the machine than the list of imports should.
fn file_name(file: &Path) -> String {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned()
}

/// A cancellation that Ctrl-C triggers.
fn cancel_on_ctrl_c() -> Cancel {
    let cancel = Cancel::default();
    let pressed = cancel.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            pressed.cancel();
        }
    });
    cancel
}

fn show(report: &ImportReport) -> anyhow::Result<()> {
    let compared = report.compared.map(|compared| {
        [
            ("profiles new", compared.profiles_new),
            ("profiles changed", compared.profiles_changed),
            ("details new", compared.details_new),
            ("details changed", compared.details_changed),
            ("details unchanged", compared.details_unchanged),
            ("details withdrawn", compared.details_withdrawn),
            ("details suppressed", compared.suppressed),
        ]
    });
    let rejected = [
        ("rows rejected", report.rejected),
        ("  of these in part", report.partly_rejected),
        ("values rejected", report.values_rejected),
    ];
    let counts =
        [("rows read", report.rows)].into_iter().chain(compared.into_iter().flatten()).chain(rejected);
    for (what, count) in counts {
        output::data(format_args!("{what:<22}{count:>10}"))?;
    }
    for (reason, count) in &report.rejected_by_reason {
        let hint = advice::hint(reason, &report.inputs).map(|hint| format!("  {hint}")).unwrap_or_default();
        output::data(format_args!("  {reason:<20}{count:>10}{hint}"))?;
    }
    for RejectedRow { file, line, column, reason } in &report.examples {
        output::data(format_args!("  {file}, line {line}, {column}: {reason}"))?;
    }
    for RefusedProfile { profile_url, source, .. } in &report.profiles_refused {
        output::data(format_args!(
            "  {profile_url}: {source} would have more than {MOST_VALUES} values of one kind for this one profile, so the rest was not loaded"
        ))?;
    }
    for line in report.inputs.iter().filter_map(advice::read_as) {
        output::data(format_args!("{line}"))?;
    }
    if let Some(not_used) = advice::not_used(report) {
        output::data(format_args!("{not_used}"))?;
    }
    for warning in &report.warnings {
        output::data(format_args!("warning: {}", advice::warning(warning)))?;
    }
    Ok(())
}
