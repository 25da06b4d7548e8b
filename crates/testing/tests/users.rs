//! The rules about accounts, with a clock that the tests set.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use contactd_core::store::Store;
use contactd_core::{
    Actor, AdminEntry, Affected, Announcing, Clock, DigestKey, DigestKeys, DiskBudget, InForce, Lifetime,
    ManualClock, Networks, NotRecorded, OnRecord, Recording, Role, SecondFactorKey, Timestamp, TotpSeed,
    User, Via,
};
use contactd_import::UploadedFiles;
use contactd_journal::{JournalReader, KeyDir};
use contactd_services::{Changed, LoginError, Parts, Services, UserError};
use contactd_store_sqlite::SqliteStore;
use contactd_testing::{InTempDir, authenticator_code};

const PASSWORD: &str = "correct horse battery staple";

/// A journal of actions that can be away.
struct Journal {
    store: Arc<dyn Store>,
    lines: Mutex<Vec<AdminEntry>>,
    is_away: AtomicBool,
}

impl OnRecord for Journal {
    fn record<'a>(&'a self, _: &'a AdminEntry) -> Recording<'a> {
        unreachable!("accounts are no personal data of others")
    }

    fn collect<'a>(&'a self, _: &'a [&'a str]) -> Recording<'a> {
        Box::pin(async move {
            if self.is_away.load(Ordering::SeqCst) {
                return Err(NotRecorded::Unavailable("it is away".to_owned()));
            }
            let entries = self.store.list_entries().await.expect("lists");
            let ids: Vec<String> = entries.iter().map(|entry| entry.entry.clone()).collect();
            self.lines.lock().expect("a lock").extend(entries);
            self.store.remove_entries(&ids).await.expect("removes");
            Ok(())
        })
    }
}

/// Nothing that lookups see is changed.
struct NoLookups;

impl InForce for NoLookups {
    fn announce(&self, _: Affected) -> Announcing<'_> {
        unreachable!("lookups do not read accounts")
    }
}

struct World {
    store: InTempDir<Arc<dyn Store>>,
    clock: Arc<ManualClock>,
    journal: Arc<Journal>,
    services: Services,
}

impl World {
    fn new() -> Self {
        let open = |dir: &Path| SqliteStore::open(dir).map(|store| Arc::new(store) as Arc<dyn Store>);
        let store = InTempDir::open(open);
        let clock = Arc::new(ManualClock::at(Timestamp::from_seconds(1_800_000_000)));
        let (lines, is_away) = (Mutex::default(), AtomicBool::new(false));
        let journal = Arc::new(Journal { store: Arc::clone(&store), lines, is_away });
        let services = Services::new(Parts {
            store: Arc::clone(&store),
            machine: None,
            keys: DigestKeys::new(vec![DigestKey::new(&[7; 32])]).expect("a key"),
            second_factor_key: Box::new(|_| Ok(Some(SecondFactorKey::new(&[8; 32])))),
            networks: Networks::built_in(),
            clock: Arc::<ManualClock>::clone(&clock),
            in_force: Arc::new(NoLookups),
            on_record: Arc::<Journal>::clone(&journal),
            journal: JournalReader::of_dir(Path::new("no journal"), KeyDir::new(Path::new("no keys"))),
            remove_abandoned_backups: Box::new(|| Ok(true)),
            files: UploadedFiles::new(DiskBudget::new(PathBuf::new())),
            undo_for: Duration::ZERO,
        });
        Self { store, clock, journal, services }
    }

    /// A user who has chosen a password.
    async fn user(&self, name: &str, role: Role) -> User {
        let users = &self.services.users;
        let created = users.create(&admin(), name, role).await.expect("creates").done;
        assert!(created.user.must_change_password);
        let own = Actor::new(name, Via::Console);
        let changed =
            users.change_password(&own, name, &created.password, PASSWORD).await.expect("changes").done;
        assert!(!changed.must_change_password && changed.generation != created.user.generation);
        changed
    }

    async fn log_in(&self, name: &str, password: &str, code: Option<&str>) -> Result<User, LoginError> {
        self.services.users.log_in(Via::Console, name, password, code).await
    }

    /// Sets up a second factor, and gives its secret.
    async fn with_totp(&self, name: &str) -> String {
        let (users, own) = (&self.services.users, Actor::new(name, Via::Console));
        let setup = users.begin_totp(&own, name).await.expect("begins");
        let code = self.code(&setup.secret_base32, 0);
        done(users.confirm_totp(&own, name, PASSWORD, setup.seed, &code).await);
        self.clock.advance(Duration::from_secs(30));
        setup.secret_base32
    }

    /// What an app shows whose clock is this many steps ahead.
    fn code(&self, secret_base32: &str, ahead: i64) -> String {
        authenticator_code(secret_base32, self.clock.now().seconds() / 30 + ahead)
    }

    /// The lines since the last time: operation, outcome, actor, and what it was about.
    fn lines(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.journal.lines.lock().expect("a lock"));
        let text = |line: AdminEntry| {
            let what = line.what.unwrap_or_default();
            format!("{} {} by {} {what}", line.operation, line.outcome.name(), line.actor)
                .trim_end()
                .to_owned()
        };
        lines.into_iter().map(text).collect()
    }
}

/// What was done, and is on record.
fn done<T, E: std::fmt::Debug>(changed: Result<Changed<T>, E>) -> T {
    let Changed { done, recorded, .. } = changed.expect("it is done");
    recorded.expect("on record");
    done
}

fn admin() -> Actor {
    Actor::new("root", Via::CommandLine)
}

#[tokio::test]
async fn a_user_logs_in_with_the_one_time_password_and_then_only_with_the_new_one() {
    let world = World::new();
    let users = &world.services.users;
    let created = users.create(&admin(), "olga", Role::Privacy).await.expect("creates").done;
    let first = world.log_in(" Olga ", &created.password, None).await.expect("logs in");
    assert_eq!((first.role, first.must_change_password), (Role::Privacy, true));
    assert_eq!(first.last_login_at, Some(world.clock.now()));
    let own = Actor::new("olga", Via::Console);
    for (old, new, wanted) in [
        (created.password.as_str(), "elevenchars", "a password needs at least 12 characters"),
        (&created.password, &"é".repeat(513), "a password has at most 1024 bytes"),
        ("wrong", PASSWORD, "the current password is wrong"),
        (
            &created.password,
            &created.password,
            "the new password is the same as the current one; choose another one",
        ),
    ] {
        let refused = users.change_password(&own, "olga", old, new).await.expect_err("is refused");
        assert_eq!(refused.to_string(), wanted);
    }
    done(users.change_password(&own, "olga", &created.password, PASSWORD).await);
    assert!(matches!(world.log_in("olga", &created.password, None).await, Err(LoginError::Wrong)));
    let user = world.log_in("olga", PASSWORD, None).await.expect("logs in");
    assert!(!user.must_change_password && user.generation != first.generation);
    assert_eq!(
        world.lines(),
        [
            "user create done by root olga as privacy",
            "log in done by olga",
            "change password failed by olga olga",
            "change password done by olga olga",
            "log in failed by olga",
            "log in done by olga",
        ]
    );
}

#[tokio::test]
async fn unknown_wrong_and_disabled_look_the_same_and_an_unknown_name_is_in_no_line() {
    let world = World::new();
    world.user("olga", Role::Admin).await;
    world.user("pavel", Role::Operator).await;
    done(world.services.users.disable(&admin(), "pavel").await);
    world.lines();
    let long = "x".repeat(5_000);
    for (name, password) in [
        ("olga", "wrong"),
        ("olga", ""),
        ("olga", &long),
        ("pavel", PASSWORD),
        ("nobody", PASSWORD),
        (PASSWORD, PASSWORD),
        ("", ""),
    ] {
        let refused = world.log_in(name, password, Some("123456")).await.expect_err("is refused");
        assert!(matches!(refused, LoginError::Wrong), "{name}: {refused}");
        assert_eq!(refused.to_string(), "the name or the password is wrong");
    }
    let lines = world.lines();
    let by = |who: &str| lines.iter().filter(|line| **line == format!("log in failed by {who}")).count();
    assert_eq!((by("olga"), by("pavel"), by("(unknown)"), lines.len()), (3, 1, 3, 7), "one line each");
}

#[tokio::test]
async fn a_code_is_accepted_once_and_a_wrong_one_looks_like_none() {
    let world = World::new();
    world.user("olga", Role::Admin).await;
    let secret = world.with_totp("olga").await;
    world.lines();
    let (late, now, next) = (world.code(&secret, -1), world.code(&secret, 0), world.code(&secret, 1));
    let wrong = world.code(&secret, 7);
    for code in [None, Some(""), Some("  ")] {
        assert!(matches!(world.log_in("olga", PASSWORD, code).await, Err(LoginError::CodeNeeded)));
    }
    assert_eq!(world.lines(), ["log in failed by olga code needed"; 3]);
    for code in [wrong.as_str(), "12345", &late] {
        let refused = world.log_in("olga", PASSWORD, Some(code)).await;
        assert!(matches!(refused, Err(LoginError::CodeNeeded)), "{code}: {refused:?}");
    }
    // The late one was used to confirm the second factor. Without the password, no code helps.
    assert!(matches!(world.log_in("olga", "wrong", Some(&now)).await, Err(LoginError::Wrong)));
    let user = world.log_in("olga", PASSWORD, Some(&now)).await.expect("logs in");
    assert_eq!(user.name, "olga");
    assert!(matches!(world.log_in("olga", PASSWORD, Some(&now)).await, Err(LoginError::CodeNeeded)), "used");
    world.log_in("olga", PASSWORD, Some(&next)).await.expect("the clock of the phone is ahead");
    assert!(matches!(world.log_in("olga", PASSWORD, Some(&now)).await, Err(LoginError::CodeNeeded)), "older");
    let lines = world.lines();
    let of = |wanted: &str| lines.iter().filter(|line| **line == format!("log in {wanted}")).count();
    assert_eq!((of("done by olga"), of("failed by olga wrong code"), of("failed by olga")), (2, 5, 1));
}

#[tokio::test]
async fn of_two_log_ins_with_one_code_one_succeeds() {
    let world = World::new();
    world.user("olga", Role::Admin).await;
    let secret = world.with_totp("olga").await;
    let code = world.code(&secret, 0);
    let (world, code) = (&world, &code);
    let logged_in = std::thread::scope(|scope| {
        let log_in = || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            runtime.block_on(world.log_in("olga", PASSWORD, Some(code))).is_ok()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(log_in)).collect();
        threads.into_iter().map(|thread| thread.join().expect("ends")).filter(|done| *done).count()
    });
    assert_eq!(logged_in, 1);
}

#[tokio::test]
async fn a_second_factor_is_removed_with_the_password_or_by_an_admin() {
    let world = World::new();
    world.user("olga", Role::Admin).await;
    let (users, own) = (&world.services.users, Actor::new("olga", Via::Console));
    let setup = users.begin_totp(&own, "olga").await.expect("begins");
    assert_eq!(
        setup.uri,
        format!(
            "otpauth://totp/contactd:olga?secret={}&issuer=contactd&algorithm=SHA1&digits=6&period=30",
            setup.secret_base32
        )
    );
    let confirm = async |password: &str, ahead: i64| {
        let code = world.code(&setup.secret_base32, ahead);
        users.confirm_totp(&own, "olga", password, setup.seed.clone(), &code).await
    };
    assert!(matches!(confirm(PASSWORD, 5).await, Err(UserError::WrongCode)));
    assert!(matches!(confirm("wrong", 0).await, Err(UserError::WrongPassword)));
    assert!(world.log_in("olga", PASSWORD, None).await.is_ok(), "nothing was stored");
    world.with_totp("olga").await;
    let refused = users.remove_totp(&own, "olga", "wrong").await;
    assert!(matches!(refused, Err(UserError::WrongPassword)));
    let before = users.find("olga").await.expect("finds").expect("known");
    let removed = users.remove_totp(&own, "olga", PASSWORD).await.expect("removes").done;
    assert!(removed.totp.is_none() && removed.generation != before.generation);
    world.with_totp("olga").await;
    let reset = users.reset_totp(&admin(), "olga").await.expect("resets").done;
    assert!(reset.totp.is_none() && reset.generation != removed.generation);
    assert!(world.log_in("olga", PASSWORD, None).await.is_ok());
    // A key that is missing is told, and not taken for a wrong code.
    let seed = TotpSeed { key: "0000".to_owned(), salt: "00".repeat(16), last_step: 0 };
    let gone = User { totp: Some(seed), ..world.user("pavel", Role::Auditor).await };
    let renamed = User { name: "rita".to_owned(), ..gone };
    assert!(world.store.create_user(&renamed, None).await.expect("creates"));
    let refused = world.log_in("rita", PASSWORD, Some("123456")).await.expect_err("is refused");
    assert_eq!(
        refused.to_string(),
        "the second factor of rita was made with a key that is not in keys/second-factor.key: put that key back there, or reset \
         it with `contactd user reset-totp rita`"
    );
    // With two keys, nobody could log in everywhere.
    let second = users.begin_totp(&own, "olga").await;
    assert!(matches!(second, Err(UserError::Key(_))), "{second:?}");
    done(users.reset_totp(&admin(), "rita").await);
    assert!(users.begin_totp(&own, "olga").await.is_ok());
}

#[tokio::test]
async fn log_in_works_while_the_journal_is_away_and_its_line_follows() {
    let world = World::new();
    world.user("olga", Role::Privacy).await;
    world.lines();
    world.journal.is_away.store(true, Ordering::SeqCst);
    assert!(world.log_in("olga", PASSWORD, None).await.is_ok());
    assert!(matches!(world.log_in("olga", "wrong", None).await, Err(LoginError::Wrong)));
    assert_eq!(world.lines(), [""; 0]);
    world.journal.is_away.store(false, Ordering::SeqCst);
    world.journal.collect(&[]).await.expect("collects");
    assert_eq!(world.lines(), ["log in done by olga", "log in failed by olga"]);
}

#[tokio::test]
async fn an_admin_token_is_recognised_until_it_ends_and_its_use_is_noted_once_a_minute() {
    let world = World::new();
    let users = &world.services.users;
    let day = Lifetime::For(Duration::from_secs(86_400));
    let issued = users
        .create_admin_token(&admin(), None, " deploy ", Role::Operator, day)
        .await
        .expect("creates")
        .done;
    let secret = issued.secret.expose().to_owned();
    assert!(secret.starts_with("cta_") && !format!("{issued:?}").contains(&secret));
    let id = issued.token.id.clone();
    let used = async || users.list_admin_tokens(&admin()).await.expect("lists")[0].last_used_at;
    let first = world.clock.now();
    for (wait, noted) in [(0, first), (59, first), (1, first.plus(Duration::from_secs(60)))] {
        world.clock.advance(Duration::from_secs(wait));
        let token = users.recognize(&secret).await.expect("reads").expect("live");
        assert_eq!((token.name.as_str(), token.role), ("deploy", Role::Operator));
        assert_eq!(used().await, Some(noted));
    }
    for unknown in ["", "deploy", &id, &secret[..40], &secret.replacen("cta_", "ctd_", 1)] {
        assert_eq!(users.recognize(unknown).await.expect("reads"), None);
    }
    world.clock.advance(Duration::from_secs(86_400));
    assert_eq!(users.recognize(&secret).await.expect("reads"), None, "it has expired");

    let taken = users.create_admin_token(&admin(), None, "Deploy", Role::Auditor, day).await;
    let taken = taken.expect_err("is refused");
    assert!(taken.to_string().starts_with(&format!("{id} has this name, or had it")), "{taken}");

    for (name, by_name) in [("one", true), ("two", false)] {
        let issued = users.create_admin_token(&admin(), None, name, Role::Auditor, Lifetime::Forever).await;
        let issued = issued.expect("creates").done;
        assert!(users.recognize(issued.secret.expose()).await.expect("reads").is_some());
        done(users.revoke_admin_token(&admin(), if by_name { name } else { &issued.token.id }).await);
        assert_eq!(users.recognize(issued.secret.expose()).await.expect("reads"), None);
    }
}
