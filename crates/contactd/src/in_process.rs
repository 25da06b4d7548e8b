//! Every service, driven without the command line, inside a server under load: what a console or an admin API will do.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use contactd_core::services::{Clearing, ImportError, ImportOptions, MaxRejects, NewToken, Services};
use contactd_core::store::{self, Aged, DetailFilter, Import};
use contactd_core::{Actor, Cancel, Lifetime, Progress, RawRecord, Scopes, SubjectName, Via, unobserved};
use contactd_import::{Defaults, Files, Input, Rejects};

use crate::cli::{Everywhere, ServeArgs};
use crate::config::Config;
use crate::context::Opened;
use crate::engine::Store;
use crate::serving::{Listeners, Serving};

const ADA: &str = "https://linkedin.com/in/ada-quell";
const EVE: &str = "https://linkedin.com/in/eve-nuvel";
const PHONE: &str = "/api/fetchPhoneNumber";
const EMAIL: &str = "/api/fetchPersonalEmail";

/// A server in this process, with two people in it.
struct InProcess {
    services: Arc<Services<Store>>,
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
        let everywhere =
            Everywhere { data: Some(dir.path().join("data")), store: None, config: None, data_is_flag: true };
        let config = Config::resolve(&everywhere).expect("resolves");
        let args = ServeArgs {
            listen: Some("127.0.0.1:0".parse().expect("an address")),
            admin_listen: Some("127.0.0.1:0".parse().expect("an address")),
            ..ServeArgs::default()
        };
        let serve = config.serve(&args).expect("a configuration");
        let listeners = Listeners::bind(&serve).expect("binds");
        let opened = Opened::open(config).await.expect("opens");
        let serving = Serving::start(opened, serve, listeners).await.expect("starts");
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
        let inputs = vec![Input::Csv("a test", csv)];
        let room = self.dir.path().join("data");
        let defaults = Defaults { source: Some("crm".to_owned()), ..Defaults::default() };
        let mut files = Files::new(inputs, None, defaults, room, Rejects::nowhere());
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
    services.tokens.revoke(actor, &other.token.id).await.expect("revokes").confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, other.secret.expose(), ADA).0, 401);
    assert_eq!(services.tokens.list(actor).await.expect("lists").len(), 4);

    // Opt-outs.
    let ada = [person(ADA)];
    services.opt_outs.suppress(actor, &ada).await.expect("suppresses").confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, token, ADA).0, 404);
    services.opt_outs.unsuppress(actor, &ada).await.expect("unsuppresses").confirmed.expect("in force");
    assert_eq!(server.look_up(PHONE, token, ADA).0, 200);

    // Subjects: a report, a correction, a removal, an erasure.
    let report = services.subjects.report(actor, &person(ADA)).await.expect("reports");
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
    let erased = services.subjects.erase(actor, &eve, true, &unobserved).await.expect("erases");
    assert_eq!((erased.done.details, erased.confirmed), (2, Ok(())));
    assert_eq!((server.look_up(PHONE, token, EVE).0, server.look_up(EMAIL, token, EVE).0), (404, 404));
    assert_eq!(services.subjects.search(actor, &person(EVE)).await.expect("searches"), []);

    imports(server, actor, token).await;
    audits_and_health(server, actor).await;
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
    let last = services.imports.list(actor).await.expect("lists").pop().expect("an import");
    assert_eq!(last.summary.actor.as_deref(), Some("olga (console)"));
    let undone = services.imports.undo(actor, last.id, &unobserved).await.expect("undoes");
    assert_eq!((undone.done.details, undone.confirmed), (2, Ok(())));
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

async fn audits_and_health(server: &InProcess, actor: &Actor) {
    let services = &server.services;
    let verified = services.audits.verify(actor, None).await.expect("verifies");
    assert!(verified.is_whole(), "{verified:?}");
    assert!(services.audits.head(actor).expect("reads").is_some());
    let (usage, _) = services.audits.usage(actor, Some("crm")).await.expect("counts");
    assert!(usage.iter().map(|usage| usage.usage.hits).sum::<u64>() > 3);
    let mut shown = 0;
    let count = |_: contactd_core::services::NamedRecord<'_>| {
        shown += 1;
        true
    };
    services.audits.show(actor, Default::default(), count).await.expect("shows");
    assert!(shown > 10);
    let stats = services.health.stats(actor).await.expect("counts");
    assert_eq!((stats.profiles, stats.suppressions), (2, 3), "Eve, her number and her address");
    let backup = server.dir.path().join("a.backup");
    let made = services.health.backup(actor, Path::new(&backup)).await.expect("backs up");
    assert!(made.bytes > 0 && backup.is_file());
    let wrong: Vec<_> = services
        .health
        .findings(actor)
        .await
        .into_iter()
        .filter(|finding| finding.severity == contactd_core::services::Severity::Fail)
        .collect();
    assert_eq!(wrong, []);
}

/// Another process that has begun to import something about Ada, and has checked who has opted out.
async fn begin_elsewhere(store: &Store, phone: &str) -> <Store as store::Importing>::Import<'static> {
    let profile = contactd_core::Networks::built_in().canonicalize(ADA).expect("a profile");
    let value = contactd_core::ContactValue::phone(phone, None).expect("a number");
    let details = vec![contactd_core::Detail::new(contactd_core::Kind::Phone, value, "elsewhere")];
    let plan = store::ImportPlan::of(1, contactd_core::Timestamp::from_seconds(1_780_000_000));
    let mut import = store::Importing::begin_import(store, &plan).await.expect("begins");
    import.put(vec![contactd_core::Record { profile, details }]).await.expect("puts");
    import.finish().await.expect("finishes");
    import
}

#[test]
fn an_erasure_that_waits_for_an_import_reaches_what_the_import_brings_and_holds_up_no_opt_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(InProcess::start());
    let actor = officer();
    let elsewhere = Store::open(&server.dir.path().join("data")).expect("opens");
    let (token, import) = runtime.block_on(async {
        server.import(PEOPLE, &Cancel::default(), unobserved).await.expect("imports");
        let issued =
            server.services.tokens.create(&actor, new_token("crm")).await.expect("creates").announce().await;
        (issued.done.secret, begin_elsewhere(&elsewhere, "+14155550188").await)
    });
    let named = |url: &str| SubjectName::person(url, &contactd_core::Networks::built_in()).expect("a person");
    let SubjectName::Person(ada) = named(ADA) else { panic!("a person") };
    std::thread::scope(|scope| {
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let (server, actor, ada) = (&server, &actor, &ada);
        let erasing = scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let observer = |step| waits.send(step).expect("somebody listens");
            runtime.block_on(server.services.subjects.erase(actor, ada, true, &observer))
        });
        assert_eq!(is_waiting.recv(), Ok(Progress::Suppressed { is_confirmed: true }));
        assert_eq!(server.look_up(PHONE, token.expose(), ADA).0, 404, "in force before anything waits");
        assert_eq!(is_waiting.recv(), Ok(Progress::Waiting));
        runtime.block_on(async {
            let out = server.services.opt_outs.suppress(actor, &[named(EVE)]).await.expect("suppresses");
            assert_eq!(out.confirmed, Ok(()), "an opt-out is confirmed while an erasure waits");
            assert_eq!(server.look_up(PHONE, token.expose(), EVE).0, 404);
            // The other process has not heard of the opt-out: it checked before.
            import.commit(&store::ImportSummary::default()).await.expect("commits");
        });
        let erased = erasing.join().expect("ends").expect("erases");
        assert_eq!((erased.done.details, erased.confirmed), (3, Ok(())));
    });
    runtime.block_on(async {
        assert_eq!(server.services.subjects.search(&actor, &named(ADA)).await.expect("searches"), []);
        let row = RawRecord {
            profile_url: "https://linkedin.com/in/bo-quell",
            phone: "+14155550188",
            source: "hand",
            ..RawRecord::default()
        };
        let put = server.services.subjects.correct(&actor, &row, &unobserved).await;
        assert!(
            matches!(put, Err(contactd_core::services::CorrectionError::OptedOut)),
            "the number that came in between is suppressed too: {put:?}"
        );
    });
    server.stop();
}

/// A server that does not answer.
struct Silent;

impl contactd_core::InForce for Silent {
    fn announce(&self, _: contactd_core::Affected) -> contactd_core::Announcing<'_> {
        Box::pin(std::future::ready(Err(contactd_core::NotConfirmed::Failed)))
    }
}

#[tokio::test]
async fn nothing_is_claimed_that_a_server_has_not_confirmed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = Some(dir.path().join("data"));
    let everywhere = Everywhere { data, store: None, config: None, data_is_flag: true };
    let opened = Opened::open(Config::resolve(&everywhere).expect("resolves")).await.expect("opens");
    let services = opened.services(Arc::new(Silent));
    let (actor, cancel) = (officer(), Cancel::default());
    let SubjectName::Person(ada) =
        SubjectName::person(ADA, &contactd_core::Networks::built_in()).expect("a person")
    else {
        panic!("a person")
    };
    let erased = services.subjects.erase(&actor, &ada, false, &unobserved).await.expect("erases");
    assert_eq!(erased.confirmed, Err(contactd_core::NotConfirmed::Failed));
    // A backup that is being made keeps an erasure from being complete: that must not hide the first.
    let backing_up = std::fs::File::open(opened.dir.keys()).expect("keys");
    backing_up.lock_shared().expect("locks");
    let not_complete =
        services.subjects.erase(&actor, &ada, false, &unobserved).await.expect_err("not complete");
    let words = not_complete.to_string();
    assert!(words.starts_with("committed, not confirmed") && !words.contains("nothing discloses"), "{words}");
    // A sweep that removes nothing announces nothing.
    for (clearing, confirmed) in [(Clearing::IfRemoved, true), (Clearing::Always, false)] {
        let swept = services.imports.sweep(&actor, Aged::Not, clearing, &unobserved, &cancel).await;
        assert_eq!(swept.expect("sweeps").confirmed.is_ok(), confirmed);
    }
}
