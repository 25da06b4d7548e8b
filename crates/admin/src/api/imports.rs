//! Importing files that were uploaded, and undoing imports.

use axum::http::StatusCode;
use contactd_core::store::Undone;
use contactd_services::Changed;
use contactd_services::views::ImportView;
use contactd_services::{
    ImportError, ImportOptions, ImportReport, KnownSource, MaxRejects, ReadOptions, UploadedFile, defaults,
    parse_share,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::api::Api;
use crate::api::auth::Call;
use crate::api::disk::is_full;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Json, Named, Sent};
use crate::api::jobs::{Done, Failed, Job, Kind, REJECTS, Started};
use crate::api::permission::{Needs, Permission};
use crate::api::reading::{Mapping, Reading, given, wrong};
use crate::api::refusal::{Refusal, sentence, stopped};

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Imports);
    vec![
        Endpoint::get("/imports", needs, "listImports").does("What was imported, newest first.", list),
        Endpoint::get("/sources", needs, "listSources").does(
            "The sources that were imported, newest first, and how the files of each were read.",
            sources,
        ),
        Endpoint::post("/imports", needs, "importFile").does(
            "Import a file that you have sent, all of it or nothing; or check what that would do.",
            import,
        ),
        Endpoint::post("/imports/{id}/undo", needs, "undoImport")
            .does("Undo an import: remove what it added, restore what it changed or withdrew.", undo),
    ]
}

#[derive(Serialize, JsonSchema)]
struct ImportList {
    imports: Vec<ImportView>,
}

#[derive(Serialize, JsonSchema)]
struct SourceList {
    sources: Vec<KnownSource>,
}

/// What to import, and how.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToImport {
    /// The file, by the id that sending it answered.
    upload: String,
    /// Which column each field is: `{"phone": "Mobile", "phone:work": ["Office", "Front desk"]}`. Only these columns are used.
    /// Without any, those whose name is a field.
    #[serde(default)]
    mapping: Mapping,
    /// The source of rows without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    /// The country of phone numbers without `+`, in two letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<String>,
    /// The format of dates that are not RFC 3339, such as `%d.%m.%Y`.
    #[serde(skip_serializing_if = "Option::is_none")]
    date_format: Option<String>,
    /// Reject details without a basis.
    #[serde(default)]
    require_basis: bool,
    /// The encoding of a text file, such as `windows-1252`, if it is not to be detected.
    #[serde(skip_serializing_if = "Option::is_none")]
    encoding: Option<String>,
    /// The sheet of a workbook, if it is not the first one.
    #[serde(skip_serializing_if = "Option::is_none")]
    sheet: Option<String>,
    /// Also remove the details of the source that are not in the file.
    #[serde(default)]
    replace_source: bool,
    /// Load nothing if more rows have a rejected value: a share such as `10%`, which is the default, or a number of rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_rejects: Option<String>,
    /// With `replaceSource`: load nothing if a source with 1,000 details or more would lose more of them than this share, `20%` by
    /// default.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_withdrawn: Option<String>,
    /// Remember the mapping, the region and the formats, to offer them for the next file of this source.
    #[serde(default)]
    remember: bool,
    /// Check everything and change nothing. For a role that does not see people, the check reads the file alone: its result does not
    /// say what is new, changed, unchanged or opted out.
    #[serde(default)]
    dry_run: bool,
    /// Is ignored when it is sent. In the `input` of a job: what the file is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_name: Option<String>,
}

async fn list(Call { api, who }: Call) -> Answer<ImportList> {
    let imports = api.services.imports.list(&who.actor).await.map_err(refused)?;
    Ok(Json(ImportList { imports: imports.into_iter().rev().collect() }))
}

async fn sources(Call { api, who }: Call) -> Answer<SourceList> {
    Ok(Json(SourceList { sources: api.services.imports.sources(&who.actor).await.map_err(refused)? }))
}

async fn import(call: Call, Sent(mut sent): Sent<ToImport>) -> Result<Started, Refusal> {
    let Api { uploads, services, .. } = &*call.api;
    let upload = uploads.find(&sent.upload, &call.who)?;
    let file = uploads.file(&upload);
    sent.file_name = Some(upload.name);
    let input = serde_json::to_value(&sent).map_err(|_| Refusal::internal())?;
    let work = ImportWork::new(sent, file, !call.who.sees_people())?;
    // What is wrong with the columns is said at once, not by a job.
    services.imports.open(&work.file, &work.reading, None).map_err(refused)?;
    call.start(Kind::Import, input, async move |call: &Call, job: &Job| work.run(call, job).await)
}

/// An import that was asked for.
struct ImportWork {
    file: UploadedFile,
    reading: ReadOptions,
    options: ImportOptions,
    max_rejects: String,
    date_format: Option<String>,
    remembers: bool,
}

impl ImportWork {
    fn new(sent: ToImport, file: UploadedFile, without_people: bool) -> Result<Self, Refusal> {
        let reading = Reading {
            mapping: sent.mapping,
            source: sent.source.as_deref(),
            region: sent.region.as_deref(),
            date_format: sent.date_format.as_deref(),
            needs_basis: sent.require_basis,
            encoding: sent.encoding.as_deref(),
            sheet: sent.sheet.as_deref(),
        };
        let reading = reading.options()?;
        let max_rejects = given(sent.max_rejects.as_deref()).unwrap_or(defaults::MAX_REJECTS);
        let max_withdrawn = given(sent.max_withdrawn.as_deref()).unwrap_or(defaults::MAX_WITHDRAWN);
        let options = ImportOptions {
            replace_source: sent.replace_source,
            allow_empty: false,
            default_source: reading.source.clone(),
            max_age: None,
            max_rejects: max_rejects.parse::<MaxRejects>().map_err(|error| wrong("maxRejects", &error))?,
            max_withdrawn: parse_share(max_withdrawn).map_err(|error| wrong("maxWithdrawn", &error))?,
            files: vec![file.name.clone()],
            dry_run: sent.dry_run,
            without_people,
        };
        let (max_rejects, remembers) = (max_rejects.to_owned(), sent.remember && !sent.dry_run);
        Ok(Self { file, reading, options, max_rejects, date_format: sent.date_format, remembers })
    }

    async fn run(&self, Call { api, who }: &Call, job: &Job) -> Result<Value, Failed> {
        let imports = &api.services.imports;
        let rejects = job.file(REJECTS).map_err(|error| {
            tracing::error!(target: "contactd::admin", %error, "a job cannot have files");
            Refusal::internal()
        })?;
        let done = match imports.open(&self.file, &self.reading, Some(&rejects)) {
            Ok(mut rows) => {
                imports
                    .run(&who.actor, &mut rows, &self.options, &|step| job.observe(step), job.cancel())
                    .await
            }
            Err(error) => Err(error),
        };
        let Changed { done: report, confirmed, recorded, .. } = match done {
            Ok(changed) => changed,
            Err(ImportError::TooManyWithdrawn { from, report }) => {
                let message = format!(
                    "Nothing was loaded: {} of the {} details of source {} would be removed, because the file does not contain \
                     them. If the file is complete, import it anyway.",
                    from.withdrawn, from.held, from.source
                );
                return Err(Failed { result: shown(&report), ..Failed::new("too_many_withdrawn", message) });
            }
            Err(error) => return Err(refused(error).into()),
        };
        if let Err(error) = recorded {
            tracing::warn!(target: "contactd::admin", %error, "an import is done, but not yet on record");
        }
        if self.remembers && report.committed {
            imports.remember(&self.reading, self.date_format.as_deref()).await.map_err(refused)?;
        }
        if report.are_traces_left {
            tracing::warn!(target: "contactd::admin", "somebody opted out during an import; what was read of theirs may be left in the write-ahead log until the next sweep");
        }
        if report.has_too_many_rejects {
            let message = format!(
                "Nothing was loaded: {} of {} {} a rejected value, more than {} allows.{} Correct {}, or import the file anyway.",
                report.rejected,
                report.rows,
                if report.rows == 1 { "row has" } else { "rows have" },
                self.max_rejects,
                if report.reading_stopped { " The rest was not read." } else { "" },
                if report.rejected == 1 { "it" } else { "them" }
            );
            return Err(Failed { result: shown(&report), ..Failed::new("too_many_rejects", message) });
        }
        if let Err(error) = confirmed {
            let message = format!("The file is loaded, but lookups may not see it yet: {error}.");
            return Err(Failed { result: shown(&report), ..Failed::new("not_confirmed", message) });
        }
        shown(&report).ok_or_else(|| Refusal::internal().into())
    }
}

/// The report with the number of the import.
fn shown(report: &ImportReport) -> Option<Value> {
    let mut shown = serde_json::to_value(report).ok()?;
    shown["id"] = json!(report.id);
    Some(shown)
}

async fn undo(call: Call, Named(id): Named) -> Result<Started, Refusal> {
    let id = id.parse::<i64>().ok().filter(|id| *id > 0).ok_or_else(|| refused(ImportError::Unknown(0)))?;
    call.start(Kind::Undo, json!({ "id": id }), async move |Call { api, who }: &Call, job: &Job| {
        job.note(Done { phase: "undoing the import".to_owned(), ..Done::default() });
        let observer = |step| job.observe(step);
        let undoing = api.services.imports.undo(&who.actor, id, &observer, job.cancel());
        let Changed { done: Undone { removed, restored }, confirmed, recorded, .. } =
            undoing.await.map_err(refused)?;
        let result = json!({ "removed": removed, "restored": restored });
        if let Err(error) = recorded {
            tracing::warn!(target: "contactd::admin", %error, "an import is undone, but that is not yet on record");
        }
        if let Err(error) = confirmed {
            let message = format!("The import is undone, but lookups may not see it yet: {error}.");
            return Err(Failed { result: Some(result), ..Failed::new("not_confirmed", message) });
        }
        Ok(result)
    })
}

/// Why an import, a look at a file or an undo was refused.
pub(crate) fn refused(error: ImportError) -> Refusal {
    let because = |code, message: String| Refusal::new(StatusCode::CONFLICT, code, message);
    match error {
        ImportError::Cancelled => because("cancelled", "It was stopped. Nothing was changed.".to_owned()),
        ImportError::NothingToReplaceWith => because(
            "nothing_to_replace_with",
            "The file holds no valid row, so everything of its source would be removed. Nothing was changed. Correct the file, or \
             import it without replacing the source."
                .to_owned(),
        ),
        ImportError::ReplacedByRejects(file) => because(
            "replaced_by_rejects",
            format!(
                "{file} holds only the rejected rows of an earlier import, so the rest of their source would be removed. Nothing \
                 was changed. Import it without replacing the source."
            ),
        ),
        error @ ImportError::TooManyWithdrawn { .. } => because("too_many_withdrawn", sentence(&error.to_string())),
        ImportError::Unknown(_) => Refusal::not_found("There is no such import. The list of imports has their numbers."),
        ImportError::Already(id) => because("already_undone", format!("Import {id} is already undone.")),
        ImportError::Later { id, later } => because(
            "later_import",
            format!(
                "Import {later} has the same source as import {id} and came later. Nothing was changed. Undo import {later} first."
            ),
        ),
        ImportError::NotKept(id) => because(
            "not_kept",
            format!("Import {id} cannot be undone: what it changed or withdrew is no longer kept. Nothing was changed."),
        ),
        ImportError::Rows(error) if error.fault_of_disk().is_some() => {
            if error.fault_of_disk().is_some_and(is_full) {
                return Refusal::disk_full("this file");
            }
            // It may name files of the server, which are not the caller's.
            tracing::error!(target: "contactd::admin", %error, "a file cannot be read or checked");
            Refusal::internal()
        }
        // The name of a file is written as it is.
        ImportError::Rows(error) if error.is_about_a_file() => Refusal::invalid(stopped(&error.to_string())),
        ImportError::Rows(error) => Refusal::invalid(sentence(&error.to_string())),
        ImportError::Store(error) => error.into(),
        ImportError::Suppressions(error) => error.into(),
        ImportError::NotRecorded(error) => error.into(),
    }
}
