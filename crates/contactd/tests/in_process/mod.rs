//! Every service, driven without the command line, inside a server under load: what a console or an admin API will do.

mod in_force;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use contactd_services::{
    Approval, AuditQuery, Clearing, EraseOptions, ImportError, ImportOptions, MaxRejects, NewToken,
    OptOutOptions, ReadFrom, Services, ShownEvent,
};

use contactd_core::store::{Aged, DetailFilter};
use contactd_core::{
    Actor, Cancel, Lifetime, Progress, RawRecord, Role, Scopes, SubjectName, TokenUpdate, Via, unobserved,
};
use contactd_import::{Files, Input, Rejects};
use contactd_import::{ReadOptions, UploadedFile, Verdict};
use contactd_server::Shares;

use crate::cli::{Everywhere, ServeArgs};
use crate::config::{Config, Sockets};
use crate::opening::{Opened, Purpose};
use crate::serving::{Listeners, Serving};

const ADA: &str = "https://linkedin.com/in/ada-quell";
const EVE: &str = "https://linkedin.com/in/eve-nuvel";
const WITH_VALUES: EraseOptions =
    EraseOptions { values: true, must_exist: false, approval: Approval::NotGiven };
const PHONE: &str = "/api/fetchPhoneNumber";
const EMAIL: &str = "/api/fetchPersonalEmail";

/// A server in this process, with two people in it.
struct InProcess {
    services: Arc<Services>,
    address: SocketAddr,
    stop: tokio::sync::oneshot::Sender<()>,
    running: std::thread::JoinHandle<()>,
    dir: tempfile::TempDir,
}

fn officer() -> Actor {
    Actor::new("olga", Via::Console)
}

impl InProcess {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let everywhere = Everywhere {
            data: Some(dir.path().join("data")),
            store: None,
            config: None,
            data_is_flag: true,
            store_is_flag: false,
        };
        let config = Config::resolve(&everywhere).expect("resolves");
        let args = ServeArgs {
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            admin_listen: Some("127.0.0.1:0".parse().expect("an address")),
            ..ServeArgs::default()
        };
        let serve = config.serve(&args).expect("a configuration");
        let listeners = Listeners::open(&serve, Sockets::default()).expect("binds");
        let opened = Opened::open(config, Purpose::Server).await.expect("opens");
        let shares = Shares { public: 100, admin: 10, control: 10 };
        let serving = Serving::start(opened, serve, listeners, shares).await.expect("starts");
        let (services, address) = (Arc::clone(&serving.services), serving.addresses().expect("bound").0);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let running = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(serving.run(async { drop(stopped.await) })).expect("serves");
        });
        Self { services, address, stop, running, dir }
    }

    fn stop(self) {
        self.stop.send(()).expect("is running");
        self.running.join().expect("stops");
    }

    /// The status of one lookup, and what was disclosed.
    fn look_up(&self, path: &str, token: &str, url: &str) -> (u16, String) {
        let mut connection = Connection::open(self.address);
        connection.look_up(path, token, url)
    }

    async fn import(
        &self,
        csv: &'static str,
        cancel: &Cancel,
        observer: impl Fn(Progress) + Sync,
    ) -> Imported {
        let inputs = vec![Input::Csv("a test", csv.into())];
        let room = self.dir.path().join("data");
        let options = ReadOptions { source: Some("crm".to_owned()), ..ReadOptions::default() };
        let mut files = Files::new(inputs, None, options, room, Rejects::nowhere());
        let options = ImportOptions { max_rejects: MaxRejects::Rows(0), ..ImportOptions::default() };
        let done = self.services.imports.run(&officer(), &mut files, &options, &observer, cancel).await?;
        done.confirmed.expect("in force");
        Ok(done.done.details_new)
    }
}

type Imported = Result<u64, ImportError>;

/// A client's connection.
struct Connection(TcpStream);

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("sets");
        Self(stream)
    }

    fn look_up(&mut self, path: &str, token: &str, url: &str) -> (u16, String) {
        let body = format!("{{\"profileUrl\":\"{url}\"}}");
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(request.as_bytes()).expect("sends");
        let mut reply = String::new();
        let mut buffer = [0; 4096];
        loop {
            let read = self.0.read(&mut buffer).expect("reads");
            assert!(read > 0, "closed: {reply}");
            reply.push_str(std::str::from_utf8(&buffer[..read]).expect("UTF-8"));
            let Some((head, body)) = reply.split_once("\r\n\r\n") else { continue };
            let length = head
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
                return (status, body.to_owned());
            }
        }
    }
}

const PEOPLE: &str = "profileUrl,phone,email\n\
    https://linkedin.com/in/ada-quell,+14155550123,ada@example.com\n\
    https://linkedin.com/in/eve-nuvel,+14155550124,eve@example.com\n\
    https://linkedin.com/in/load-quell,+14155550125,load@example.com\n";

fn new_token(name: &str) -> NewToken {
    let (scopes, lifetime) = (Scopes::ALL, Lifetime::Forever);
    NewToken { name: name.to_owned(), scopes, lifetime, rate: None, quota: None }
}

#[test]
fn every_service_works_in_process_beside_a_server_under_load_and_is_in_force_each_time() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(InProcess::start());
    let actor = officer();
    let load = runtime.block_on(async {
        assert_eq!(server.import(PEOPLE, &Cancel::default(), unobserved).await.expect("imports"), 6);
        server
            .services
            .tokens
            .create(&actor, new_token("load"))
            .await
            .expect("creates")
            .announce()
            .await
            .done
            .secret
    });
    let (asked, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // However the rest ends, the load does too.
        let _ending = Ending(&is_over);
        for path in [PHONE, EMAIL] {
            let (token, address, asked, is_over) = (load.expose(), server.address, &asked, &is_over);
            scope.spawn(move || {
                let mut connection = Connection::open(address);
                while !is_over.load(Ordering::Relaxed) {
                    let (status, body) =
                        connection.look_up(path, token, "https://linkedin.com/in/load-quell");
                    assert_eq!(status, 200, "{body}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        runtime.block_on(drive(&server, &actor));
    });
    assert!(asked.load(Ordering::Relaxed) > 100, "there was load: {asked:?}");
    server.stop();
}

struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn drive(server: &InProcess, actor: &Actor) {
    let services = &server.services;
    let person =
        |url: &str| SubjectName::person(url, &contactd_core::Networks::built_in()).expect("a person");
    let SubjectName::Person(eve) = person(EVE) else { panic!("a person") };

    // Tokens.
    let issued = services.tokens.create(actor, new_token("crm")).await.expect("creates").announce().await;
    issued.confirmed.expect("in force");
    let token = issued.done.secret.expose();
    assert_eq!(server.look_up(PHONE, token, ADA).0, 200);
    let rotated = services
        .tokens
        .rotate(actor, &issued.done.token.id, Duration::ZERO, None)
        .await
        .expect("rotates")
        .announce()
        .await;
    rotated.confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, token, ADA).0, 401, "there was no overlap");
    let token = rotated.done.secret.expose();
    let other =
        services.tokens.create(actor, new_token("other")).await.expect("creates").announce().await.done;
    let narrowed =
        TokenUpdate { scopes: Some(Scopes { phone: true, email: false }), ..TokenUpdate::default() };
    let updated = services.tokens.update(actor, &other.token.id, &narrowed).await.expect("updates");
    updated.confirmed.expect("in force");
    assert_eq!(server.look_up(EMAIL, other.secret.expose(), ADA).0, 401);
    services.tokens.revoke(actor, &other.token.id).await.expect("revokes").confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, other.secret.expose(), ADA).0, 401);
    assert_eq!(services.tokens.list(actor).await.expect("lists").len(), 4);

    // Opt-outs.
    let ada = [person(ADA)];
    services
        .opt_outs
        .suppress(actor, &ada, OptOutOptions::default())
        .await
        .expect("suppresses")
        .confirmed
        .expect("in force");
    assert_eq!(server.look_up(PHONE, token, ADA).0, 404);
    services.opt_outs.unsuppress(actor, &ada).await.expect("unsuppresses").confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, token, ADA).0, 200);

    // Subjects: a report, a correction, a removal, an erasure.
    let report = services.subjects.report(actor, &person(ADA), ReadFrom::Index).await.expect("reports");
    assert_eq!((report.held.len(), report.disclosures.len()), (2, 2), "what she was looked up for above");
    assert!(report.disclosures.iter().all(|disclosure| disclosure.token == "crm"));
    let row = RawRecord {
        profile_url: EVE,
        phone: "+14155550166",
        confidence: "99",
        source: "hand",
        ..RawRecord::default()
    };
    let put = services.subjects.correct(actor, &row, &unobserved).await.expect("corrects");
    put.confirmed.expect("in force");
    assert!(server.look_up(PHONE, token, EVE).1.contains("+14155550166"));
    let by_hand = DetailFilter { values: None, source: Some("hand".to_owned()) };
    let removed = services.subjects.remove(actor, &eve, &by_hand, &unobserved).await.expect("removes");
    assert_eq!((removed.done, removed.confirmed), (1, Ok(())));
    assert!(server.look_up(PHONE, token, EVE).1.contains("+14155550124"));
    let erased =
        services.subjects.erase(actor, &person(EVE), WITH_VALUES, &unobserved).await.expect("erases");
    assert_eq!((erased.done.details(), erased.confirmed), (2, Ok(())));
    assert_eq!((server.look_up(PHONE, token, EVE).0, server.look_up(EMAIL, token, EVE).0), (404, 404));
    assert!(services.subjects.search(actor, &person(EVE)).await.expect("searches").report.held.is_empty());

    accounts(server, actor).await;
    imports(server, actor, token).await;
    audits_and_health(server, actor).await;
}

async fn accounts(server: &InProcess, actor: &Actor) {
    let users = &server.services.users;
    let created = users.create(actor, "pavel", Role::Operator).await.expect("creates");
    created.recorded.expect("on record");
    let log_in = async |password: &str| users.log_in(Via::Console, "pavel", password, None).await;
    let user = log_in(&created.done.password).await.expect("logs in");
    let chosen = "a password of his own";
    let own = Actor::new("pavel", Via::Console);
    let changed =
        users.change_password(&own, "pavel", &created.done.password, chosen).await.expect("changes");
    assert_ne!(changed.done.generation, user.generation, "his other sessions end");
    assert!(log_in(&created.done.password).await.is_err() && log_in(chosen).await.is_ok());
    assert!(users.log_in_by_link(Via::Console, "pavel").await.is_ok());
    users.disable(actor, "pavel").await.expect("disables").recorded.expect("on record");
    assert!(log_in(chosen).await.is_err() && users.log_in_by_link(Via::Console, "pavel").await.is_err());
    assert_eq!(users.list(actor).await.expect("lists").len(), 1);
    let issued = users.create_admin_token(actor, "deploy", Role::Operator, Lifetime::Forever).await;
    let issued = issued.expect("creates").done;
    let recognised = async || users.recognize(issued.secret.expose()).await.expect("reads").is_some();
    assert!(recognised().await);
    users.revoke_admin_token(actor, "deploy").await.expect("revokes").recorded.expect("on record");
    assert!(!recognised().await);
    let mut log_ins = Vec::new();
    let query = AuditQuery { operation: Some("log in".to_owned()), ..AuditQuery::default() };
    let note = |event: ShownEvent<'_>| {
        let ShownEvent::Admin(record) = event else { panic!("an action") };
        log_ins.push(record.entry.outcome.name());
        true
    };
    server.services.audits.show(actor, &query, note).await.expect("shows");
    assert_eq!(log_ins, ["failed", "failed", "done", "done", "failed", "done"], "newest first");
}

const MORE: &str = "profileUrl,phone\nhttps://linkedin.com/in/ada-quell,+14155550177\n\
    https://linkedin.com/in/eve-nuvel,+14155550178\nhttps://linkedin.com/in/bo-quell,+14155550179\n";

async fn imports(server: &InProcess, actor: &Actor, token: &str) {
    let services = &server.services;
    let bo = "https://linkedin.com/in/bo-quell";
    let cancel = Cancel::default();
    let cancel_when_writing = |step: Progress| {
        if matches!(step, Progress::Writing { .. }) {
            cancel.cancel();
        }
    };
    let cancelled = server.import(MORE, &cancel, cancel_when_writing).await;
    assert!(matches!(cancelled, Err(ImportError::Cancelled)), "{cancelled:?}");
    assert_eq!(server.look_up(PHONE, token, bo).0, 404, "nothing of it happened");
    assert_eq!(
        server.import(MORE, &Cancel::default(), unobserved).await.expect("imports"),
        2,
        "not of her who is erased"
    );
    assert_eq!((server.look_up(PHONE, token, bo).0, server.look_up(PHONE, token, EVE).0), (200, 404));
    previews(server, actor).await;
    let last = services.imports.list(actor).await.expect("lists").pop().expect("an import");
    assert_eq!(last.import.summary.actor.as_deref(), Some("olga (console)"));
    let undone =
        services.imports.undo(actor, last.import.id, &unobserved, &Cancel::default()).await.expect("undoes");
    assert_eq!((undone.done.removed, undone.confirmed), (2, Ok(())));
    assert_eq!(server.look_up(PHONE, token, bo).0, 404);
    let swept = services
        .imports
        .sweep(
            actor,
            Aged::Source("crm", Duration::from_secs(86_400)),
            Clearing::Always,
            &unobserved,
            &Cancel::default(),
        )
        .await;
    assert_eq!(swept.expect("sweeps").done.swept.aged, 0, "everything came just now");
}

/// An upload is described, previewed and, in a dry run, imported.
async fn previews(server: &InProcess, actor: &Actor) {
    let imports = &server.services.imports;
    let path = server.dir.path().join("upload");
    std::fs::write(&path, MORE.replace("phone\n", "Mobile\n")).expect("writes");
    let file = UploadedFile { path, name: "more.csv".to_owned() };
    let shape = imports.describe(actor, &file).await.expect("describes");
    assert_eq!(shape.suggested_mapping.get("phone").map(String::as_str), Some("Mobile"));
    let mapping = vec![("phone".to_owned(), "Mobile".to_owned())];
    let options = ReadOptions { source: Some("crm".to_owned()), mapping, ..ReadOptions::default() };
    let rows = imports.preview(actor, &file, &options, 20).await.expect("previews");
    let verdicts: Vec<Verdict> = rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [Verdict::Loaded, Verdict::OptedOut, Verdict::Loaded], "the second one is erased");
    let mut source = imports.open(&file, &options, None).expect("opens");
    let dry_run = ImportOptions { dry_run: true, ..ImportOptions::default() };
    let done = imports.run(actor, &mut source, &dry_run, &unobserved, &Cancel::default()).await;
    let report = done.expect("reads").done;
    assert_eq!((report.rows, report.suppressed, report.committed), (3, 1, false));
}

async fn audits_and_health(server: &InProcess, actor: &Actor) {
    let services = &server.services;
    let (query, cancel) = (Default::default(), Cancel::default());
    let verifying = services.audits.verify_all(actor, &query, &unobserved, &cancel);
    let verified = verifying.await.expect("verifies");
    assert!(verified.is_whole, "{verified:?}");
    assert!(services.audits.head(actor).await.expect("reads").is_some());
    let (usage, _) = services.audits.usage(actor, Some("crm")).await.expect("counts");
    assert!(usage.iter().map(|usage| usage.usage.hits).sum::<u64>() > 3);
    let mut shown = 0;
    let count = |_: contactd_services::ShownEvent<'_>| {
        shown += 1;
        true
    };
    services.audits.show(actor, &Default::default(), count).await.expect("shows");
    assert!(shown > 10);
    let stats = services.health.stats(actor).await.expect("counts");
    assert_eq!((stats.profiles, stats.suppressions), (2, 3), "Eve, her number and her address");
    let wrong: Vec<_> = services
        .health
        .findings(actor)
        .await
        .into_iter()
        .filter(|finding| finding.severity == contactd_core::Severity::Fail)
        .collect();
    assert_eq!(wrong, []);
}
