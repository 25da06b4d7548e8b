//! What is in force while something waits, and what may be claimed if a server does not confirm.

use contactd_core::store::{self, Import, Importing};
use contactd_core::{
    Affected, Announcing, ContactValue, Detail, InForce, Kind, Networks, NotConfirmed, Record, Timestamp,
};
use contactd_services::CorrectionError;

use super::*;
use crate::engine::Files;

/// Another process that has begun to import something about Ada, and has checked who has opted out.
async fn begin_elsewhere<'a>(store: &'a Files, phone: &str) -> Box<dyn Import + 'a> {
    let profile = Networks::built_in().canonicalize(ADA).expect("a profile");
    let value = ContactValue::phone(phone, None).expect("a number");
    let details = vec![Detail::new(Kind::Phone, value, "elsewhere")];
    let plan = store::ImportPlan::of(1, Timestamp::from_seconds(1_780_000_000));
    let mut import = store.begin_import(&plan).await.expect("begins");
    import.put(vec![Record { profile, details }]).await.expect("puts");
    import.finish().await.expect("finishes");
    import
}

#[test]
fn an_erasure_that_waits_for_an_import_reaches_what_the_import_brings_and_holds_up_no_opt_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let server = runtime.block_on(InProcess::start());
    let actor = officer();
    let elsewhere = Files::open(&server.dir.path().join("data")).expect("opens");
    let (token, import) = runtime.block_on(async {
        server.import(PEOPLE, &Cancel::default(), unobserved).await.expect("imports");
        let issued =
            server.services.tokens.create(&actor, new_token("crm")).await.expect("creates").announce().await;
        (issued.done.secret, begin_elsewhere(&elsewhere, "+14155550188").await)
    });
    let named = |url: &str| SubjectName::person(url, &Networks::built_in()).expect("a person");
    let ada = named(ADA);
    std::thread::scope(|scope| {
        let (waits, is_waiting) = std::sync::mpsc::channel();
        let (server, actor, ada) = (&server, &actor, &ada);
        let erasing = scope.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
            let observer = |step| waits.send(step).expect("somebody listens");
            runtime.block_on(server.services.subjects.erase(actor, ada, WITH_VALUES, &observer))
        });
        assert_eq!(is_waiting.recv(), Ok(Progress::Suppressed { is_confirmed: true }));
        assert_eq!(server.look_up(PHONE, token.expose(), ADA).0, 404, "in force before anything waits");
        assert_eq!(is_waiting.recv(), Ok(Progress::Waiting));
        runtime.block_on(async {
            let out = server
                .services
                .opt_outs
                .suppress(actor, &[named(EVE)], OptOutOptions::default())
                .await
                .expect("suppresses");
            assert_eq!(out.confirmed, Ok(()), "an opt-out is confirmed while an erasure waits");
            assert_eq!(server.look_up(PHONE, token.expose(), EVE).0, 404);
            // The other process has not heard of the opt-out: it checked before.
            import.commit(&store::ImportSummary::default(), None).await.expect("commits");
        });
        let erased = erasing.join().expect("ends").expect("erases");
        assert_eq!((erased.done.details(), erased.confirmed), (3, Ok(())));
    });
    runtime.block_on(async {
        let found = server.services.subjects.search(&actor, &named(ADA)).await.expect("searches");
        assert!(found.report.held.is_empty());
        let row = RawRecord {
            profile_url: "https://linkedin.com/in/bo-quell",
            phone: "+14155550188",
            source: "hand",
            ..RawRecord::default()
        };
        let put = server.services.subjects.correct(&actor, &row, &unobserved).await;
        assert!(
            matches!(put, Err(CorrectionError::OptedOut)),
            "the number that came in between is suppressed too: {put:?}"
        );
    });
    server.stop();
}

/// A server that does not answer.
struct Silent;

impl InForce for Silent {
    fn announce(&self, _: Affected) -> Announcing<'_> {
        Box::pin(std::future::ready(Err(NotConfirmed::Failed)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_claimed_that_a_server_has_not_confirmed() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = Some(dir.path().join("data"));
    let everywhere = Everywhere { data, store: None, config: None, data_is_flag: true, store_is_flag: false };
    let opened =
        Opened::open(Config::resolve(&everywhere).expect("resolves"), Purpose::Using).await.expect("opens");
    let services = opened.services(Arc::new(Silent), &crate::on_record::Recorder::new(&opened, false));
    let (actor, cancel) = (officer(), Cancel::default());
    let ada = SubjectName::person(ADA, &Networks::built_in()).expect("a person");
    let erased =
        services.subjects.erase(&actor, &ada, EraseOptions::default(), &unobserved).await.expect("erases");
    assert_eq!(erased.confirmed, Err(NotConfirmed::Failed));
    // A backup that is being made keeps an erasure from being complete: that must not hide the first.
    let backing_up = std::fs::File::open(opened.dir.keys()).expect("keys");
    backing_up.lock_shared().expect("locks");
    let not_complete = services
        .subjects
        .erase(&actor, &ada, EraseOptions::default(), &unobserved)
        .await
        .expect_err("not complete");
    let words = not_complete.to_string();
    assert!(words.starts_with("committed, not confirmed") && !words.contains("nothing discloses"), "{words}");
    // A sweep that removes nothing announces nothing.
    for (clearing, confirmed) in [(Clearing::IfRemoved, true), (Clearing::Always, false)] {
        let swept = services.imports.sweep(&actor, Aged::Not, clearing, &unobserved, &cancel).await;
        assert_eq!(swept.expect("sweeps").confirmed.is_ok(), confirmed);
    }
}
