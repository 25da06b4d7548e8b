//! The files of the console: who can throw them away, and what an erasure deletes.

use std::path::Path;

use serde_json::{Value, json};

use crate::admin_api::{AdminApi, BASE};
use crate::console_imports::{upload, upload_request};
use crate::erase::files_with;
use crate::fixture::{ADA, ADA_PHONE, EVE, many};
use crate::http::{Connection, Request};
use crate::service::{Service, Site, assert_has, eventually};

const GONE: &str = "There is no such file. Files are deleted after a day, or when somebody is erased.";
const NOT_YOURS: &str =
    "There is no such file of yours. Uploaded files are deleted after a day, or when somebody is erased.";

fn id_of(shown: &Value) -> String {
    shown["id"].as_str().expect("an id").to_owned()
}

fn delete(api: &AdminApi<'_>, path: &str) -> (u16, Option<String>) {
    let reply = api.send(Request::new("DELETE", &format!("{BASE}{path}")));
    let message = (reply.status != 204).then(|| reply.json()["message"].as_str().expect("words").to_owned());
    (reply.status, message)
}

/// A person in an upload, in its rejected rows and in an export: the paths of the three.
fn spread(operator: &AdminApi<'_>, admin: &AdminApi<'_>) -> [String; 3] {
    let rows = format!("profileUrl,phone\n{ADA},{ADA_PHONE}\nnobody,{ADA_PHONE}\n");
    let sent = id_of(&upload(operator, "people.csv", rows));
    let trial = json!({ "upload": sent, "source": "fair", "maxRejects": "50%", "dryRun": true });
    let checked = operator.job("/imports", &trial);
    assert_eq!(checked["hasRejects"], true, "{checked}");
    let export = admin.job("/exports", &json!({ "format": "csv", "ticket": "OPS-1" }));
    assert_eq!(export["hasFile"], true, "{export}");
    [
        format!("/uploads/{sent}"),
        format!("/jobs/{}/rejects", id_of(&checked)),
        format!("/jobs/{}/file", id_of(&export)),
    ]
}

#[test]
fn an_erasure_deletes_what_was_uploaded_exported_and_rejected() {
    let (service, _) = Service::with_people();
    let console = service.data().join("console");
    let (operator, admin) =
        (AdminApi::with_role(&service, "operator"), AdminApi::with_role(&service, "admin"));
    let privacy = AdminApi::with_role(&service, "privacy");
    for by_command in [false, true] {
        let [sent, rejects, export] = spread(&operator, &admin);
        // Who is erased is not in an export any more.
        let files = if by_command { 2 } else { 3 };
        assert_eq!(files_with(&console, &[ADA_PHONE]).len(), files);
        service.site.ok(&["erase", ADA, "--dry-run"]);
        assert_eq!(privacy.post("/people/erase", &json!({ "q": ADA, "dryRun": true })).status, 200);
        assert_eq!(files_with(&console, &[ADA_PHONE]).len(), files, "a dry run deletes nothing");
        if by_command {
            service.site.ok(&["erase", ADA]);
        } else {
            privacy.done("/people/erase", &json!({ "q": ADA }));
        }
        assert_eq!(files_with(&console, &[ADA_PHONE]), [""; 0], "{by_command}");
        for (api, path, words) in
            [(&operator, &sent, NOT_YOURS), (&operator, &rejects, GONE), (&admin, &export, GONE)]
        {
            let reply = api.get(path);
            assert_eq!((reply.status, reply.json()["message"].as_str()), (404, Some(words)), "{path}");
        }
        let job = operator.get(rejects.trim_end_matches("/rejects")).json();
        assert_has(&job, json!({ "hasRejects": false, "state": "done" }));
        let jobs = admin.get("/jobs").json();
        assert!(jobs["jobs"].as_array().expect("jobs").iter().all(|job| job["hasFile"] == false), "{jobs}");
        assert_eq!(operator.get("/uploads").json(), json!({ "uploads": [] }));
    }
}

#[test]
fn an_erasure_by_command_leaves_what_a_running_import_uses() {
    let (service, _) = Service::with_people();
    let (jobs, uploads) = (service.data().join("console/jobs"), service.data().join("console/uploads"));
    let write = |path: &Path, text: &str| std::fs::write(path, text).expect("writes");
    for (id, kind, state) in
        [("running", "import", "running"), ("over", "import", "done"), ("written", "export", "running")]
    {
        let shown = json!({ "id": id, "kind": kind, "state": state, "startedAt": "2026-11-01T00:00:00Z", "endedAt": null,
            "actor": "x", "input": { "upload": format!("of-{id}") }, "progress": { "done": 0, "total": null, "unit": "", "phase": "" },
            "result": null, "code": null, "message": null, "hasRejects": true, "hasFile": false });
        write(&jobs.join(format!("{id}.json")), &json!({ "owner": "x", "shown": shown }).to_string());
        std::fs::create_dir(jobs.join(id)).expect("makes a directory");
        write(&jobs.join(id).join(if kind == "export" { "file" } else { "rejects" }), "a row");
        write(&uploads.join(format!("of-{id}")), "a row");
        write(&uploads.join(format!("of-{id}.json")), "{}");
    }
    write(&uploads.join("arriving"), "a row");
    service.site.ok(&["erase", ADA]);
    let exist =
        |ids: [&str; 2]| ids.map(|id| (jobs.join(id).exists(), uploads.join(format!("of-{id}")).exists()));
    assert_eq!(exist(["running", "over"]), [(true, true), (false, false)]);
    assert!(jobs.join("running.erased").exists(), "its files are deleted when it ends");
    assert!(!uploads.join("arriving").exists(), "what is being sent is not kept");
    assert!(!jobs.join("written/file").exists(), "an export may contain everybody");
    let site = service.stop();
    site.ok(&["erase", ADA]);
    assert_eq!(exist(["running", "over"]), [(false, false), (false, false)], "without a server nothing runs");
}

#[test]
fn an_erasure_takes_what_is_being_sent_and_what_a_running_import_used() {
    let (service, _) = Service::with_people();
    let console = service.data().join("console");
    let operator = AdminApi::with_role(&service, "operator");
    let privacy = AdminApi::with_role(&service, "privacy");
    let people = format!("profileUrl,phone,email\n{ADA},{ADA_PHONE},\nnobody,{ADA_PHONE},\n");
    for by_command in [false, true] {
        let request = operator.with_token(upload_request("people.csv", &people)).bytes();
        let (begin, rest) = request.split_at(request.len() - 10);
        let mut sending = Connection::open(service.admin);
        sending.send(begin);
        eventually("it has begun", || !files_with(&console.join("uploads"), &[ADA_PHONE]).is_empty());
        let sent = id_of(&upload(
            &operator,
            "many.csv",
            format!("{people}{}", &many("quell", 20_000)["profileUrl,phone,email\n".len()..]),
        ));
        let import = json!({ "upload": sent, "source": "partner", "maxRejects": "50%" });
        let started = operator.post("/imports", &import);
        if by_command {
            service.site.ok(&["erase", EVE]);
        } else {
            privacy.done("/people/erase", &json!({ "q": EVE }));
        }
        sending.send(rest);
        let words = "Somebody was erased while this file was being sent, so it is not kept. Send it again.";
        sending.reply().refuses(409, "erased_meanwhile", words);
        let job = operator.ended(&started);
        assert_eq!(job["state"], "done", "{job}");
        // Its last act comes after it is shown as done.
        eventually("nothing is left", || files_with(&console, &[ADA_PHONE]).is_empty());
        assert_eq!(operator.get("/uploads").json(), json!({ "uploads": [] }), "{by_command}");
    }
}

#[test]
fn a_name_of_a_file_with_an_address_or_a_number_is_kept_nowhere() {
    let service = Site::with_people().serve();
    let operator = AdminApi::with_role(&service, "operator");
    let rows = "profileUrl,phone\nhttps://linkedin.com/in/name-quell,+14155550101\n";
    for name in ["ada.quell@example.com.csv", "of +14155550101.csv"] {
        let sent = upload(&operator, &name.replace(' ', "%20"), rows);
        assert_eq!(sent["name"], "(left out).csv");
        operator.job("/imports", &json!({ "upload": id_of(&sent), "source": "fair" }));
        service.site.file(name, rows);
        service.site.ok(&["import", name, "--source", "fair"]);
        // Other files than those of the console are databases and the journal.
        assert_eq!(files_with(&service.data(), &[name]), [""; 0]);
    }
    let listed = operator.get("/imports").json()["imports"].clone();
    let names: Vec<&Value> =
        listed.as_array().expect("a list").iter().take(4).map(|import| &import["files"][0]).collect();
    assert_eq!(names, ["(left out).csv"; 4], "{listed}");
}

#[test]
fn an_export_whose_file_is_deleted_by_an_erasure_says_so() {
    let (service, _) = Service::with_people();
    service.site.file("many.csv", many("many-quell", 50_000));
    service.site.ok(&["import", "many.csv", "--source", "many"]);
    let admin = AdminApi::with_role(&service, "admin");
    // An export may end before its file is deleted: then another one is tried.
    let failed = (0..20).find_map(|_| {
        let job = admin.post("/exports", &json!({ "format": "csv", "ticket": "OPS-2" }));
        let file = service.data().join("console/jobs").join(id_of(&job.json())).join("file");
        eventually("its file is there", || file.exists());
        std::fs::remove_file(file).expect("deletes");
        let job = admin.ended(&job);
        assert_eq!(job["hasFile"], false, "{job}");
        (job["state"] == "failed").then_some(job)
    });
    let failed = failed.expect("an export notices that its file is gone");
    let text = "Somebody was erased while this file was being written. There is no file. Export again.";
    assert_has(&failed, json!({ "code": "erased_meanwhile", "message": text }));
    let again = admin.job("/exports", &json!({ "format": "csv", "ticket": "OPS-2" }));
    assert_has(&again, json!({ "state": "done", "hasFile": true }));
}

#[test]
fn a_job_that_has_ended_is_thrown_away_with_its_files_by_its_owner() {
    let (service, _) = Service::with_people();
    let (operator, admin) =
        (AdminApi::with_role(&service, "operator"), AdminApi::with_role(&service, "admin"));
    let [_, rejects, export] = spread(&operator, &admin);
    let (checked, exported) = (rejects.trim_end_matches("/rejects"), export.trim_end_matches("/file"));
    let unknown = "There is no such job of yours. Jobs are listed for seven days.";
    assert_eq!(delete(&operator, exported), (404, Some(unknown.to_owned())), "somebody else's");
    let dir = service.data().join("console").join(exported.trim_start_matches('/'));
    assert!(dir.join("file").is_file());
    assert_eq!(delete(&admin, exported), (204, None));
    assert!(!dir.exists() && !dir.with_extension("json").exists());
    assert_eq!(delete(&admin, exported), (404, Some(unknown.to_owned())));
    assert_eq!(delete(&operator, checked), (204, None));
    assert_eq!(operator.get("/jobs").json(), json!({ "jobs": [] }));
}

#[test]
fn who_has_sent_as_many_files_as_possible_finds_them_and_throws_one_away() {
    let service = Site::with_people().serve();
    let (operator, admin) =
        (AdminApi::with_role(&service, "operator"), AdminApi::with_role(&service, "admin"));
    for n in 0..20 {
        upload(&operator, &format!("{n}.csv"), "Who,Number\nx,y\n");
    }
    let more = operator.send(upload_request("a.csv", "Who,Number\nx,y\n"));
    let words = "You have sent 20 files, which is the most at a time. Throw one away: the page Imports lists them, and so does GET \
                 /uploads. Each is also deleted a day after it was sent.";
    assert_eq!((more.status, more.json()["message"].as_str()), (409, Some(words)));
    let listed = operator.get("/uploads").json();
    let uploads = listed["uploads"].as_array().expect("a list");
    assert_eq!(
        (uploads.len(), &uploads[0]["name"], &uploads[0]["bytes"]),
        (20, &json!("19.csv"), &json!(15))
    );
    assert!(uploads[0]["sentAt"].as_str() < uploads[0]["deletedAt"].as_str(), "{listed}");
    assert_eq!(admin.get("/uploads").json(), json!({ "uploads": [] }), "only one's own");
    assert_eq!(delete(&operator, &format!("/uploads/{}", id_of(&uploads[7]))), (204, None));
    assert_eq!(operator.get("/uploads").json()["uploads"].as_array().map(Vec::len), Some(19));
    upload(&operator, "a.csv", "Who,Number\nx,y\n");
}
