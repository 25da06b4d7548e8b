//! Importing and exporting through the admin API: what the console does with a file, from sending it to undoing it.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::admin_api::{AdminApi, BASE};
use crate::audit::Faulty;
use crate::fixture::{ADA, ADA_CANONICAL, ADA_PHONE, PEOPLE, many};
use crate::http::{Connection, Reply, Request};
use crate::service::{PHONE, Site, assert_has, eventually};

/// A spreadsheet as it comes from somewhere else: semicolons, other headers, and rows with mistakes.
const MESSY: &str = "\
LinkedIn;Mobil;E-Mail;Stand;Notiz\r\n\
https://www.linkedin.com/in/bo-quell-77aa;(415) 555-0150;bo@example.com;03.05.2026;x\r\n\
https://www.linkedin.com/in/cy-quell-88bb;call me;cy@example.com;04.05.2026;\r\n\
no url;+14155550152;;;\r\n\
https://www.linkedin.com/in/di-quell-99cc;+14155550153;;;\r\n\
https://www.linkedin.com/in/fay-quell-11dd;+14155550154;;;\r\n";

fn utf16(text: &str) -> Vec<u8> {
    let units = std::iter::once(0xFEFF).chain(text.encode_utf16());
    units.flat_map(u16::to_le_bytes).collect()
}

pub(crate) fn upload_request(name: &str, content: impl AsRef<[u8]>) -> Request {
    let request = Request::new("POST", &format!("{BASE}/uploads"));
    request.header("Content-Type", "application/octet-stream").header("X-File-Name", name).body(content)
}

pub(crate) fn upload(api: &AdminApi<'_>, name: &str, content: impl AsRef<[u8]>) -> Value {
    let reply = api.send(upload_request(name, content));
    assert_eq!(reply.status, 201, "{}", reply.shown());
    reply.json()
}

/// What was uploaded and is on disk.
fn uploaded(site: &Site) -> Vec<PathBuf> {
    let files = std::fs::read_dir(site.data().join("console/uploads")).expect("a directory");
    files.map(|file| file.expect("a file").path()).filter(|file| file.extension().is_none()).collect()
}

fn refusal(reply: &Reply) -> (u16, String, String) {
    let message = reply.json()["message"].as_str().expect("a message").to_owned();
    (reply.status, reply.code(), message)
}

#[test]
fn a_messy_file_is_mapped_checked_imported_corrected_and_undone() {
    let site = Site::with_people();
    let token = site.token(&[]);
    let service = site.serve();
    let operator = AdminApi::with_role(&service, "operator");
    let looked_up = |url: &str| service.look_up(PHONE, &token, url).status;

    let sent = upload(&operator, "C%3A%5CCRM%20Export.csv", utf16(MESSY));
    let id = sent["id"].as_str().expect("an id").to_owned();
    assert_has(&sent, json!({ "name": "CRM Export.csv", "format": "csv", "delimiter": ";" }));
    assert_eq!(sent["bytes"], utf16(MESSY).len());
    assert_eq!(sent["encoding"], "UTF-16LE");
    assert_eq!(
        sent["columns"][1],
        json!({ "name": "Mobil", "field": null, "suggested": "phone", "samples": ["(415) 555-0150", "call me", "+14155550152"] })
    );
    assert_eq!(operator.get(&format!("/uploads/{id}")).json(), sent, "also after a reload");

    let mapping =
        json!({ "profileUrl": "LinkedIn", "phone": "Mobil", "email": "E-Mail", "observedAt": "Stand" });
    let settings =
        json!({ "mapping": mapping, "source": "partner", "region": "US", "dateFormat": "%d.%m.%Y" });
    let preview = operator.post(&format!("/uploads/{id}/preview"), &settings).json();
    let verdicts: Vec<&Value> =
        preview["rows"].as_array().expect("rows").iter().map(|row| &row["verdict"]).collect();
    assert_eq!(verdicts, ["loaded", "loaded in part", "rejected", "loaded", "loaded"]);
    assert_eq!(
        preview["rows"][1],
        json!({
            "line": 3,
            "values": {
                "profileUrl": "https://www.linkedin.com/in/cy-quell-88bb", "phone": "call me", "email": "cy@example.com",
                "observedAt": "04.05.2026",
            },
            "stored": {
                "profileUrl": "https://linkedin.com/in/cy-quell-88bb", "email": "cy@example.com",
                "observedAt": "2026-05-04T00:00:00Z",
            },
            "verdict": "loaded in part",
            "reasons": [{ "column": "phone", "reason": "phone_letters" }],
        })
    );

    // A check finds too many rejected rows, changes nothing, and has the rejected rows.
    let mut asked = settings.clone();
    asked["upload"] = json!(id);
    asked["requireBasis"] = json!(false);
    asked["replaceSource"] = json!(false);
    asked["remember"] = json!(false);
    asked["dryRun"] = json!(true);
    let checked = operator.job("/imports", &asked);
    let mut expected = asked.clone();
    expected["fileName"] = json!("CRM Export.csv");
    assert_has(&checked, json!({ "input": expected, "state": "failed", "code": "too_many_rejects" }));
    assert_eq!(
        checked["message"],
        "Nothing was loaded: 2 of 5 rows have a rejected value, more than 10% allows. Correct them, or import the file anyway."
    );
    assert_has(&checked, json!({ "/result/rejected": 2, "/result/id": null, "hasRejects": true }));
    assert_eq!(operator.get("/imports").json()["imports"].as_array().expect("a list").len(), 1);

    // The page imports with what the job shows.
    let mut anyway = checked["input"].clone();
    anyway["maxRejects"] = json!("100%");
    anyway["dryRun"] = json!(false);
    let imported = operator.job("/imports", &anyway);
    assert_has(&imported, json!({ "state": "done", "/result/id": 2, "/result/committed": true }));
    assert_eq!(looked_up("https://www.linkedin.com/in/bo-quell-77aa"), 200);

    // The same report as that of the command.
    service.site.file("CRM Export.csv", utf16(MESSY));
    let flags = [
        "import",
        "CRM Export.csv",
        "--map",
        "profileUrl=LinkedIn",
        "--map",
        "phone=Mobil",
        "--map",
        "email=E-Mail",
        "--map",
        "observedAt=Stand",
        "--source",
        "again",
        "--region",
        "US",
        "--date-format",
        "%d.%m.%Y",
        "--max-rejects",
        "100%",
        "--dry-run",
        "--json",
    ];
    let mut by_command: Value = serde_json::from_str(&service.site.ok(&flags)).expect("JSON");
    let mut by_console = imported["result"].clone();
    by_command.as_object_mut().expect("an object").remove("hints");
    by_console.as_object_mut().expect("an object").remove("id");
    by_command["committed"] = json!(true);
    // It is there already, of another source.
    by_command["profilesNew"] = by_console["profilesNew"].clone();
    by_command["profilesChanged"] = by_console["profilesChanged"].clone();
    assert_eq!(by_console, by_command);

    // The rejected rows are corrected and sent again.
    let job = imported["id"].as_str().expect("an id");
    let rejects = operator.get_file(&format!("/jobs/{job}/rejects"));
    assert!(
        rejects.starts_with("\u{feff}rejectedLine;rejectedColumn;rejectedReason;LinkedIn;Mobil"),
        "{rejects}"
    );
    let corrected = rejects
        .replace("call me", "+14155550151")
        .replace("no url", "https://www.linkedin.com/in/eli-quell-22ee");
    let again = upload(&operator, "rejects.csv", &corrected);
    let mut asked = settings;
    asked["upload"] = again["id"].clone();
    let corrected = operator.job("/imports", &asked);
    assert_has(&corrected, json!({ "state": "done", "/result/detailsNew": 2 }));
    assert_eq!(looked_up("https://www.linkedin.com/in/cy-quell-88bb"), 200);

    let listed = operator.get("/imports").json();
    assert_eq!(listed["imports"][0]["id"], 3);
    let actor = listed["imports"][1]["actor"].as_str().expect("a name");
    assert!(actor.starts_with("operator (adm_") && actor.ends_with(") (admin API)"), "{actor}");
    assert_eq!(listed["imports"][1]["files"], json!(["CRM Export.csv"]));

    let early = operator.job("/imports/2/undo", &json!({}));
    assert_has(&early, json!({ "state": "failed", "code": "later_import" }));
    for number in [3, 2] {
        let undone = operator.job(&format!("/imports/{number}/undo"), &json!({}));
        assert_eq!(undone["state"], "done", "{undone}");
    }
    assert_eq!(looked_up("https://www.linkedin.com/in/bo-quell-77aa"), 404);
    assert_eq!(looked_up(ADA), 200);

    // The file is kept until it is thrown away.
    assert_eq!(operator.get(&format!("/uploads/{id}")).status, 200);
    assert_eq!(operator.send(Request::new("DELETE", &format!("{BASE}/uploads/{id}"))).status, 204);
    assert_eq!(operator.get(&format!("/uploads/{id}")).status, 404);
    assert_eq!(uploaded(&service.site).len(), 1, "the corrected one");

    let lines = service.site.events(&["--actor", "operator"]);
    let outcomes = |operation: &str| -> Vec<Value> {
        lines
            .iter()
            .filter(|line| line["operation"] == operation)
            .map(|line| line["outcome"].clone())
            .collect()
    };
    assert_eq!(outcomes("import"), ["done", "done"]);
    assert_eq!(outcomes("imports undo"), ["done", "done", "failed"]);
}

#[test]
fn an_export_is_the_same_as_that_of_the_command() {
    let site = Site::empty();
    // Not the one that has expired, and may be removed in between.
    let people: Vec<&str> = PEOPLE.lines().filter(|line| !line.contains("old-ebrix")).collect();
    site.import("crm", people.join("\n"));
    let service = site.serve();
    let admin = AdminApi::with_role(&service, "admin");
    for format in ["csv", "jsonl"] {
        let asked = json!({ "format": format, "ticket": "OPS-7" });
        let job = admin.job("/exports", &asked);
        assert_has(&job, json!({ "state": "done", "hasFile": true }));
        let id = job["id"].as_str().expect("an id");
        let sent = admin.download(&format!("/jobs/{id}/file"));
        let name = format!("attachment; filename=\"contacts-OPS-7.{format}\"");
        assert_eq!((sent.status, sent.header("content-disposition")), (200, Some(name.as_str())));
        let file = sent.body;
        assert_eq!(file, service.site.run(&["export", "--format", format]).stdout);
        assert_eq!(job["result"]["bytes"], file.len());
        assert_has(&job, json!({ "/result/profiles": 4, "/result/details": 10 }));
    }
    let refused = admin.post("/exports", &json!({ "format": "csv", "ticket": " " }));
    refused.refuses(400, "invalid_request", "Name the ticket that this export is for. It is put on record.");
    let lines = service.site.events(&["--actor", "admin"]);
    let newest: Vec<_> = lines[..2].iter().map(|line| (&line["operation"], &line["ticket"])).collect();
    assert_eq!(newest, [(&json!("export download"), &json!("OPS-7")), (&json!("export"), &json!("OPS-7"))]);
}

#[test]
fn while_the_journal_cannot_be_written_no_row_of_a_file_is_shown() {
    let faulty = Faulty::start("os");
    let operator = AdminApi::with_role(&faulty.service, "operator");
    let people =
        "profileUrl,phone\nhttps://www.linkedin.com/in/bo-quell-2b3c4d,+14155550142\nnobody,+14155550143\n";
    let id = upload(&operator, "people.csv", people)["id"].as_str().expect("an id").to_owned();
    let trial = json!({ "upload": id, "source": "fair", "maxRejects": "50%", "dryRun": true });
    let job = operator.job("/imports", &trial);
    assert_has(&job, json!({ "state": "done", "hasRejects": true }));
    let rejects = format!("/jobs/{}/rejects", job["id"].as_str().expect("an id"));
    let kept = uploaded(&faulty.service.site).len();
    faulty.fail("read-only");
    for refused in [
        operator.send(upload_request("more.csv", people)),
        operator.get(&format!("/uploads/{id}")),
        operator.post(&format!("/uploads/{id}/preview"), &json!({ "source": "fair" })),
        operator.get(&rejects),
    ] {
        assert_eq!((refused.status, refusal(&refused).1.as_str()), (503, "not_on_record"));
        assert!(!refused.shown().contains("555"), "{}", refused.shown());
    }
    assert_eq!(uploaded(&faulty.service.site).len(), kept, "what was refused is not kept");
    faulty.fail("ok");
    eventually("rows are shown again", || operator.get(&format!("/uploads/{id}")).status == 200);
    assert!(operator.get_file(&rejects).contains("555"));
}

#[test]
fn a_file_that_cannot_be_used_is_refused_at_once_and_not_kept() {
    let service = Site::with_people().serve();
    let (operator, admin) =
        (AdminApi::with_role(&service, "operator"), AdminApi::with_role(&service, "admin"));

    let empty = operator.send(upload_request("a.csv", ""));
    empty.refuses(400, "invalid_request", "The file is empty. Send it as the body of the request.");
    // As large as no disk.
    let mut connection = Connection::open(service.admin);
    let huge =
        upload_request("a.csv", "").without("Content-Length").header("Content-Length", "9000000000000000");
    connection.send(operator.with_token(huge).bytes());
    connection.finish_sending();
    connection.reply().refuses(
        507,
        "insufficient_storage",
        "There is not enough room for this file on the disk of the server. Ask the operator to make room.",
    );
    // It breaks off.
    let mut connection = Connection::open(service.admin);
    let broken = upload_request("a.csv", "x").without("Content-Length").header("Content-Length", "100000");
    connection.send(operator.with_token(broken).bytes());
    eventually("the first part is written", || uploaded(&service.site).len() == 1);
    drop(connection);
    eventually("nothing is left of it", || uploaded(&service.site).is_empty());

    for (name, content, message) in [
        (
            "dup.csv",
            "phone,phone,profileUrl\nx,y,z\n",
            "dup.csv: two columns are called phone; rename or remove one of them; the columns are phone, phone, profileUrl.",
        ),
        ("short.parquet", "PAR1PAR1", "short.parquet: this is not a complete Parquet file."),
    ] {
        let refused = operator.send(upload_request(name, content));
        refused.refuses(400, "invalid_request", message);
    }
    let sent = upload(&operator, "a.csv", "Who,Number\nx,y\n");
    let id = sent["id"].as_str().expect("an id");
    let missing = operator.post("/imports", &json!({ "upload": id, "source": "crm", "dryRun": true }));
    assert_eq!((missing.status, missing.code()), (400, "invalid_request".to_owned()), "{}", missing.shown());
    for (settings, message) in [
        (json!({ "region": "ZZ" }), "The region is not a country: write two letters, such as US or DE."),
        (
            json!({ "maxRejects": "many" }),
            "The field maxRejects cannot be used: `many` is neither a share like 10% nor a number of rows.",
        ),
        (
            json!({ "source": "a\nb" }),
            "The field source cannot be used: a name has 1 to 100 printable characters.",
        ),
        (
            json!({ "source": "a\u{202e}b" }),
            "The field source cannot be used: a name has 1 to 100 printable characters.",
        ),
    ] {
        let mut asked = json!({ "upload": id });
        asked.as_object_mut().expect("an object").extend(settings.as_object().expect("an object").clone());
        let refused = operator.post("/imports", &asked);
        refused.refuses(400, "invalid_request", message);
    }

    // Somebody else's file is not there.
    let gone =
        "There is no such file of yours. Uploaded files are deleted after a day, or when somebody is erased.";
    for reply in [
        admin.get(&format!("/uploads/{id}")),
        admin.post(&format!("/uploads/{id}/preview"), &json!({})),
        admin.post("/imports", &json!({ "upload": id })),
        admin.send(Request::new("DELETE", &format!("{BASE}/uploads/{id}"))),
    ] {
        reply.refuses(404, "not_found", gone);
    }
    for _ in 1..20 {
        upload(&operator, "a.csv", "Who,Number\nx,y\n");
    }
    let more = operator.send(upload_request("a.csv", "Who,Number\nx,y\n"));
    assert_eq!((more.status, more.code()), (409, "too_many_uploads".to_owned()), "{}", more.shown());
    upload(&admin, "a.csv", "Who,Number\nx,y\n");
}

#[test]
fn a_source_that_would_lose_most_of_its_details_is_kept_unless_that_is_meant() {
    let site = Site::empty();
    site.import("crm", many("quell", 600));
    let service = site.serve();
    let operator = AdminApi::with_role(&service, "operator");
    let sent = upload(&operator, "few.csv", many("quell", 5));
    let mut asked = json!({ "upload": sent["id"], "source": "crm", "replaceSource": true });
    let kept = operator.job("/imports", &asked);
    assert_has(&kept, json!({ "state": "failed", "code": "too_many_withdrawn" }));
    assert_eq!(
        kept["message"],
        "Nothing was loaded: 1190 of the 1200 details of source crm would be removed, because the file does not contain them. \
         If the file is complete, import it anyway."
    );
    assert_eq!(kept["result"]["detailsWithdrawn"], 1190);
    asked["maxWithdrawn"] = json!("100%");
    let replaced = operator.job("/imports", &asked);
    assert_has(&replaced, json!({ "state": "done", "/result/detailsWithdrawn": 1190 }));
}

#[test]
fn a_server_that_is_killed_while_it_imports_has_loaded_nothing_and_says_so() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let token = service.site.token(&[]);
    let sent = upload(&operator, "many.csv", many("quell", 20_000));
    let upload_id = sent["id"].as_str().expect("an id").to_owned();
    let started = operator.post("/imports", &json!({ "upload": upload_id, "source": "partner" }));
    assert_eq!(started.status, 202, "{}", started.shown());
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    assert_eq!(operator.get(&format!("/jobs/{id}")).json()["state"], "running");
    let secret = operator.secret().to_owned();
    let service = service.kill().serve();

    let operator = AdminApi::with_token_of(&service, &secret);
    assert!(!service.data().join("console/jobs").join(&id).exists(), "what it had begun is deleted");
    let job = operator.get(&format!("/jobs/{id}")).json();
    assert_has(&job, json!({ "state": "failed", "code": "interrupted" }));
    assert_eq!(operator.get("/imports").json()["imports"].as_array().expect("a list").len(), 1);
    assert_eq!(service.look_up(PHONE, &token, ADA).status, 200);
    let held = service.site.ok(&["export"]);
    assert!(held.contains(ADA_CANONICAL) && held.contains(ADA_PHONE) && !held.contains("quell-0"), "{held}");
    // The file is still there, to try again.
    let again = operator.job("/imports", &json!({ "upload": upload_id, "source": "partner" }));
    assert_has(&again, json!({ "state": "done", "/result/detailsNew": 40_000 }));
}

#[test]
fn an_uploaded_file_is_deleted_after_a_day_and_one_without_a_record_at_the_next_start() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let sent = upload(&operator, "a.csv", "Who,Number\nx,y\n");
    let (kept, old) = (sent["id"].clone(), upload(&operator, "a.csv", "Who,Number\nx,y\n")["id"].clone());
    let secret = operator.secret().to_owned();
    let site = service.stop();
    let dir = site.data().join("console/uploads");
    let record = dir.join(format!("{}.json", old.as_str().expect("an id")));
    let mut content: Value = serde_json::from_slice(&std::fs::read(&record).expect("reads")).expect("JSON");
    content["sentAt"] = json!("2026-01-01T00:00:00Z");
    std::fs::write(&record, content.to_string()).expect("writes");
    std::fs::write(dir.join("0123456789abcdef"), "left by a server that was killed").expect("writes");

    let service = site.serve();
    let operator = AdminApi::with_token_of(&service, &secret);
    assert_eq!(uploaded(&service.site), [dir.join(kept.as_str().expect("an id"))]);
    assert_eq!(operator.get(&format!("/uploads/{}", kept.as_str().expect("an id"))).json(), sent);
    assert_eq!(operator.get(&format!("/uploads/{}", old.as_str().expect("an id"))).status, 404);
}

#[test]
fn a_preview_shows_what_would_be_stored_and_a_mapping_is_remembered_with_its_source() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let csv = "Profil;Mobil;Büro;Stand\r\nlinkedin.com/in/Bo-Quell-77aa/;0664 123456;01 234567890;1.5.2026\r\n\
        linkedin.com/in/cy-quell-88bb;0650 123456;;\r\nlinkedin.com/in/di-quell-99cc;0676 123456;;\r\n";
    let sent = upload(&operator, "Kunden.csv", csv);
    let suggested = |at: usize| sent["columns"][at]["suggested"].as_str();
    assert_eq!([0, 1, 2, 3].map(suggested), [Some("profileUrl"), Some("phone"), None, Some("observedAt")]);
    let id = sent["id"].as_str().expect("an id").to_owned();
    let mut asked = json!({
        "mapping": { "profileUrl": "Profil", "phone": ["Mobil"], "phone:work": "Büro", "observedAt": "Stand" },
        "source": "kunden", "region": "AT", "dateFormat": "%d.%m.%Y",
    });
    let preview = operator.post(&format!("/uploads/{id}/preview"), &asked).json();
    assert_eq!(preview["otherCountries"], json!([]));
    assert_has(
        &preview["rows"][0],
        json!({
            "verdict": "loaded",
            "values": { "profileUrl": "linkedin.com/in/Bo-Quell-77aa/", "phone": "0664 123456", "phone:work": "01 234567890", "observedAt": "1.5.2026" },
            "stored": { "profileUrl": "https://linkedin.com/in/bo-quell-77aa", "phone": "+43664123456", "phone:work": "+431234567890", "observedAt": "2026-05-01T00:00:00Z" },
        }),
    );
    asked["region"] = json!("AU");
    let preview = operator.post(&format!("/uploads/{id}/preview"), &asked).json();
    assert_eq!(preview["otherCountries"][0], "AT", "{preview:#}");

    asked["region"] = json!("AT");
    asked["upload"] = json!(id);
    asked["remember"] = json!(true);
    let imported = operator.job("/imports", &asked);
    assert_has(&imported, json!({ "state": "done", "/result/rejected": 0 }));
    let sources = operator.get("/sources").json();
    assert_eq!(
        sources["sources"],
        json!([
            { "name": "kunden", "reading": {
                "mapping": { "profileUrl": ["Profil"], "phone": ["Mobil"], "phone:work": ["Büro"], "observedAt": ["Stand"] },
                "region": "AT", "dateFormat": "%d.%m.%Y", "requireBasis": false,
            } },
            { "name": "crm", "reading": null },
        ])
    );
    asked["source"] = json!("kundn");
    asked["dryRun"] = json!(true);
    let checked = operator.job("/imports", &asked);
    assert_eq!(checked["result"]["similarSources"], json!([{ "source": "kundn", "known": "kunden" }]));
}

#[test]
fn a_workbook_with_a_cover_is_read_from_its_first_sheet_with_a_header() {
    let service = Site::empty().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/messy/91-cover-first.xlsx");
    let sent = upload(&operator, "messe.xlsx", std::fs::read(file).expect("reads"));
    assert_has(
        &sent,
        json!({ "sheet": "Kontakte", "sheets": ["Deckblatt", "Kontakte"], "/columns/0/field": "profileUrl" }),
    );
    let id = sent["id"].as_str().expect("an id");
    let cover = operator.get(&format!("/uploads/{id}?sheet=Deckblatt"));
    assert_eq!(cover.status, 400);
    assert!(cover.shown().contains("the first line holds data"), "{}", cover.shown());
}
