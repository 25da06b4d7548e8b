//! Files that somebody sends to import them.

mod receiving;
mod store;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use contactd_core::{Timestamp, recordable_file_name};
use contactd_services::{FileShape, Preview, ReadOptions};
use percent_encoding::percent_decode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;

use crate::api::auth::Call;
use crate::api::endpoint::Endpoint;
use crate::api::extract::{Answer, Asked, Created, Json, Named, NewAnswer, Sent};
use crate::api::imports::refused;
use crate::api::permission::{Needs, Permission};
use crate::api::reading::{Mapping, Reading};
use crate::api::refusal::Refusal;
use store::Upload;
pub(crate) use store::Uploads;

/// The header with the name of a file.
const FILE_NAME: &str = "x-file-name";

/// The longest name of a file.
const MAX_NAME: usize = 200;

/// How many rows are previewed.
const PREVIEWED: usize = 20;

pub(crate) fn endpoints() -> Vec<Endpoint> {
    let needs = Needs::May(Permission::Imports);
    vec![
        Endpoint::post("/uploads", needs, "uploadFile").does("Send a file, to look at it and import it. It is deleted after a day, or when somebody is erased.", upload)
            .with_header(
                "X-File-Name",
                "What the file is called, percent-encoded. Its ending may say what format it has.",
            )
            .takes_bytes("application/octet-stream"),
        Endpoint::get("/uploads", needs, "listUploads").does("The files that you have sent and that are still there, newest first.", list),
        Endpoint::get("/uploads/{id}", needs, "showUpload").does("What a file that you have sent holds.", show),
        Endpoint::delete("/uploads/{id}", needs, "deleteUpload").does("Delete a file that you have sent. What was imported from it stays.", delete),
        Endpoint::post("/uploads/{id}/preview", needs, "previewUpload").does("What an import would do with the first rows of a file that you have sent. A role that does not see people is not told who has opted out.", preview),
    ]
}

/// A file that was sent, and what it holds.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UploadShown {
    id: String,
    name: String,
    bytes: u64,
    #[serde(flatten)]
    shape: FileShape,
}

#[derive(Serialize, JsonSchema)]
struct UploadList {
    uploads: Vec<ListedUpload>,
}

/// A file that was sent.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ListedUpload {
    id: String,
    name: String,
    bytes: u64,
    sent_at: Timestamp,
    /// When it is deleted, unless somebody is erased before.
    deleted_at: Timestamp,
}

/// How the rows of a file are read.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToPreview {
    /// Which column each field is: `{"phone": "Mobile", "phone:work": ["Office", "Front desk"]}`. Only these columns are used.
    /// Without any, those whose name is a field.
    #[serde(default)]
    mapping: Mapping,
    /// The source of rows without one.
    source: Option<String>,
    /// The country of phone numbers without `+`, in two letters.
    region: Option<String>,
    /// The format of dates that are not RFC 3339, such as `%d.%m.%Y`.
    date_format: Option<String>,
    /// Reject details without a basis.
    #[serde(default)]
    require_basis: bool,
    /// The encoding of a text file, such as `windows-1252`, if it is not to be detected.
    encoding: Option<String>,
    /// The sheet of a workbook, if it is not the first one.
    sheet: Option<String>,
    /// Is accepted, because an import has it. It makes no difference here.
    #[serde(default)]
    #[expect(dead_code, reason = "a preview shows rows, and they are the same")]
    replace_source: bool,
}

/// How a file is looked at.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FileAsked {
    /// The sheet of a workbook, if it is not the first one.
    #[serde(default)]
    sheet: Option<String>,
    /// The encoding of a text file, such as `windows-1252`, if it is not to be detected.
    #[serde(default)]
    encoding: Option<String>,
}

impl UploadShown {
    fn new(upload: Upload, shape: FileShape) -> Self {
        Self { id: upload.id, name: upload.name, bytes: upload.bytes, shape }
    }
}

async fn upload(Call { api, who }: Call, request: Request) -> NewAnswer<UploadShown> {
    let (parts, body) = request.into_parts();
    let arriving = match api.uploads.begin(&who) {
        Ok(arriving) => arriving,
        Err(refusal) => {
            receiving::drain(&mut body.into_data_stream()).await;
            return Err(refusal);
        }
    };
    let bytes = receiving::receive(&parts.headers, body, &arriving.path(), &api.disk).await?;
    let upload = arriving.keep(name_of(&parts.headers), bytes).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            let message =
                "Somebody was erased while this file was being sent, so it is not kept. Send it again.";
            return Refusal::new(StatusCode::CONFLICT, "erased_meanwhile", message);
        }
        Refusal::unwritable(&error, "this file")
    })?;
    let described =
        api.services.imports.describe(&who.actor, &api.uploads.file(&upload), &ReadOptions::default()).await;
    match described {
        Ok(shape) => Ok(Created(UploadShown::new(upload, shape))),
        // Nothing can be done with a file that cannot be read.
        Err(error) => {
            api.uploads.remove(&upload.id);
            Err(refused(error))
        }
    }
}

async fn list(Call { api, who }: Call) -> Answer<UploadList> {
    let listed = |upload: Upload| ListedUpload {
        deleted_at: upload.deleted_at(),
        id: upload.id,
        name: upload.name,
        bytes: upload.bytes,
        sent_at: upload.sent_at,
    };
    let uploads = api.uploads.of(&who).into_iter().map(listed).collect();
    Ok(Json(UploadList { uploads }))
}

async fn show(
    Call { api, who }: Call,
    Named(id): Named,
    Asked(asked): Asked<FileAsked>,
) -> Answer<UploadShown> {
    let upload = api.uploads.find(&id, &who)?;
    let (sheet, encoding) = (asked.sheet.as_deref(), asked.encoding.as_deref());
    let options = Reading { sheet, encoding, ..Reading::default() }.options()?;
    let described = api.services.imports.describe(&who.actor, &api.uploads.file(&upload), &options).await;
    Ok(Json(UploadShown::new(upload, described.map_err(refused)?)))
}

async fn delete(Call { api, who }: Call, Named(id): Named) -> Result<StatusCode, Refusal> {
    api.uploads.remove(&api.uploads.find(&id, &who)?.id);
    Ok(StatusCode::NO_CONTENT)
}

async fn preview(Call { api, who }: Call, Named(id): Named, Sent(sent): Sent<ToPreview>) -> Answer<Preview> {
    let upload = api.uploads.find(&id, &who)?;
    let reading = Reading {
        mapping: sent.mapping,
        source: sent.source.as_deref(),
        region: sent.region.as_deref(),
        date_format: sent.date_format.as_deref(),
        needs_basis: sent.require_basis,
        encoding: sent.encoding.as_deref(),
        sheet: sent.sheet.as_deref(),
    };
    let options = reading.options()?;
    let file = api.uploads.file(&upload);
    let imports = &api.services.imports;
    let preview = imports.preview(&who.actor, &file, &options, PREVIEWED, !who.sees_people()).await;
    Ok(Json(preview.map_err(refused)?))
}

/// The name of a file: without directories and control characters, and not too long.
fn name_of(headers: &HeaderMap) -> String {
    let sent = headers.get(FILE_NAME).map(|name| percent_decode(name.as_bytes()).decode_utf8_lossy());
    let sent = sent.unwrap_or_default();
    let last = sent.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: Vec<char> = last.trim().chars().filter(|c| !c.is_control()).collect();
    // Of a long name the end, because it says what format the file has.
    let name: String = name[name.len().saturating_sub(MAX_NAME)..].iter().collect();
    // It is kept in the list of imports, and in what jobs say.
    if name.is_empty() { "upload".to_owned() } else { recordable_file_name(&name) }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_the_last_part_of_a_name_is_kept() {
        let name = |sent: &str| {
            name_of(&HeaderMap::from_iter([(
                FILE_NAME.parse().expect("a name"),
                HeaderValue::from_str(sent).expect("a value"),
            )]))
        };
        assert_eq!(name("crm%20export.csv"), "crm export.csv");
        assert_eq!(name("%2Fetc%2Fpasswd"), "passwd");
        assert_eq!(name("C%3A%5Cdata%5Clist.csv"), "list.csv");
        assert_eq!(name("..%2F.."), "..");
        assert_eq!(name("100%.csv"), "100%.csv");
        assert_eq!(name("m%C3%BCller%0A.csv"), "müller.csv");
        assert_eq!(name("%FF"), "\u{fffd}");
        assert_eq!(name("x%2F"), "upload");
        assert_eq!(name_of(&HeaderMap::new()), "upload");
        let long = name(&format!("{}.csv", "a".repeat(300)));
        assert_eq!((long.chars().count(), long.ends_with("aa.csv")), (200, true));
    }
}
