//! Moving an embedded store into a cluster.

use contactd_testing::TestServer;

use crate::fixture::{ADA, ADA_PHONE, EVE, MIRA, many};
use crate::service::{PHONE, Service, Site, copy_directory};

/// An embedded store with a history: imports, one of them undone, an opt-out, tokens, lookups.
fn used() -> (Site, String) {
    let site = Site::embedded();
    site.ok_with_input(&["import", "-", "--source", "crm", "--max-age", "900d"], crate::fixture::PEOPLE);
    let token = site.token(&["--quota", "1000/month"]);
    let more = "profileUrl,phone\nhttps://www.linkedin.com/in/ada-quell-1a2b3c,+14155550166\n";
    site.import("ats", more);
    site.ok(&["imports", "undo", "2"]);
    site.import("crm", crate::fixture::PEOPLE.replace(",90,", ",91,"));
    site.ok(&["suppress", MIRA]);
    let service: Service = site.serve();
    for url in [ADA, MIRA, ADA] {
        service.look_up(PHONE, &token, url);
    }
    (service.stop(), token)
}

#[test]
fn a_data_directory_is_moved_whole_and_goes_on_as_a_node() {
    let (site, token) = used();
    let asked: [&[&str]; 6] = [
        &["export"],
        &["imports", "--json"],
        &["usage", "--csv"],
        &["retention", "--json"],
        &["audit", "show", "--json", "--outcome", "hit"],
        &["token", "list", "--json"],
    ];
    let before: Vec<String> = asked.iter().map(|args| site.ok(args)).collect();
    let url = TestServer::shared().database();
    let dir = site.place("data");
    site.run(&["migrate", "--to", &url]).mentions(
        0,
        format!(
            "everything is moved; counts and digests are equal (database {url})\n\
             {dir} belongs to a node of the cluster now: start it with `contactd serve --store …`, and its journal goes on\n\
             every other node, and every machine that runs commands, needs the digest keys in {dir}/keys, and every node the key \
             of second factors there, if there is one\n"
        ),
    );
    site.run(&["stats"]).mentions(1, "belongs to a node of a cluster");

    let site = site.moved_to(&url);
    let node = site.serve();
    let after: Vec<String> = asked.iter().map(|args| node.site.ok(args)).collect();
    for ((before, after), args) in before.iter().zip(&after).zip(&asked).skip(1) {
        assert_eq!(before, after, "{args:?}");
    }
    // Every export is on record, so only the answer is compared.
    assert_eq!(before[0], after[0]);
    assert_eq!(node.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
    assert_eq!(node.look_up(PHONE, &token, MIRA).status, 404, "opted out before");
    node.site.ok(&["audit", "verify"]);
    node.site.ok(&["imports", "undo", "3"]);
    node.site.ok(&["put", EVE, "--phone", "+14155550177", "--source", "hand"]);
    assert_eq!(node.look_up(PHONE, &token, EVE).status, 200);
    node.site.ok(&["node", "verify"]);
}

#[test]
fn a_migration_wants_a_stopped_server_and_an_empty_database() {
    let (site, _) = used();
    let url = TestServer::shared().database();
    let service = site.serve();
    service.site.run(&["migrate", "--to", &url]).says(
        1,
        format!(
            "contactd: another contactd already serves {}; stop it first, or use another --data\n",
            service.data().display()
        ),
    );
    let site = service.stop();
    let taken = TestServer::shared().database();
    Site::on(&taken).ok(&["token", "create", "crm"]);
    site.run(&["migrate", "--to", &taken]).says(1, "contactd: this database holds other data, or another store is being moved into it. Give an empty database: \
             `createdb NAME` makes one\n");
    site.run(&["migrate", "--to", "sqlite"]).says(2, "contactd: --to is the URL of a database\n");
}

#[test]
fn an_old_copy_of_what_was_moved_is_refused_while_the_database_is_in_use() {
    let (site, token) = used();
    let old = Site::embedded();
    copy_directory(&site.data(), &old.data());
    let url = TestServer::shared().database();
    site.ok(&["migrate", "--to", &url]);
    let node = site.moved_to(&url).serve();
    node.site.ok(&["suppress", ADA]);
    let refused = |old: &Site| {
        let refused = old.run(&["migrate", "--to", &url]);
        refused.mentions(1, "with newer data. Nothing was changed.");
        assert!(!refused.stderr.contains("drop"), "{refused:?}");
    };
    refused(&old);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 404, "still opted out");
    let site = node.stop();
    refused(&old);
    let nodes = site.json(&["node", "list"]);
    site.ok(&["node", "forget", nodes[0]["id"].as_str().expect("an id")]);
    refused(&old);
    assert_eq!(site.serve().look_up(PHONE, &token, ADA).status, 404, "still opted out");
}

#[test]
fn a_migration_that_is_killed_goes_on_where_it_stopped() {
    let (site, token) = used();
    site.import("many", many("quell", 20_000));
    let url = TestServer::shared().database();
    let mut migration = site.spawn(&["migrate", "--to", &url]);
    let name = url.rsplit('/').next().expect("a name");
    crate::service::eventually("a part is moved", || {
        let held = "SELECT coalesce((SELECT count(*) FROM pg_tables WHERE schemaname = 'contactd' AND tablename = 'details'), 0)";
        TestServer::shared().sql(name, held) == "1"
            && TestServer::shared().sql(name, "SELECT count(*) > 0 FROM contactd.details") == "t"
    });
    migration.kill().expect("kills");
    migration.wait().expect("ends");
    site.ok(&["migrate", "--to", &url]);
    let node = site.moved_to(&url).serve();
    node.site.ok(&["node", "verify"]);
    assert_eq!(node.look_up(PHONE, &token, ADA).json()["phoneNumber"], ADA_PHONE);
}
