//! What may be claimed if a server does not confirm.

use std::sync::Arc;

use contactd_core::store::Aged;
use contactd_core::{
    Actor, Affected, Announcing, Cancel, InForce, Networks, NotConfirmed, SubjectName, Via, unobserved,
};
use contactd_services::{Clearing, EraseOptions};

use crate::cli::Everywhere;
use crate::config::Config;
use crate::opening::{Opened, Purpose};

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
    let everywhere = Everywhere { data, data_is_flag: true, ..Everywhere::default() };
    let opened =
        Opened::open(Config::resolve(&everywhere).expect("resolves"), Purpose::Using).await.expect("opens");
    let services = opened.services(Arc::new(Silent), &crate::on_record::ActionRecorder::new(&opened, false));
    let (actor, cancel) = (Actor::new("olga", Via::Console), Cancel::default());
    let ada =
        SubjectName::person("https://linkedin.com/in/ada-quell", &Networks::built_in()).expect("a person");
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
        .err()
        .expect("not complete");
    let words = not_complete.to_string();
    assert!(words.starts_with("committed, not confirmed") && !words.contains("nothing discloses"), "{words}");
    // A sweep that removes nothing announces nothing.
    for (clearing, confirmed) in [(Clearing::IfRemoved, true), (Clearing::Always, false)] {
        let swept = services.imports.sweep(&actor, Aged::Not, clearing, &unobserved, &cancel).await;
        assert_eq!(swept.expect("sweeps").confirmed.is_ok(), confirmed);
    }
}
