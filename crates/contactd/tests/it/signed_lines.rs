//! On record means in a signed line, whatever somebody does to the outbox in the database.

use crate::cluster::{machine, nodes};
use crate::fixture::{ADA, EVE, MIRA};
use crate::service::{PHONE, Site};
use crate::shipping::sql;

/// How often an action is on record, as the journals themselves say.
fn recorded(site: &Site, operation: &str) -> usize {
    let like =
        format!("SELECT count(*) FROM journal_lines WHERE line LIKE '%\"operation\":\"{operation}\"%'");
    sql(site, &like).parse().expect("a number")
}

#[test]
fn what_a_rule_keeps_out_of_the_outbox_is_not_done_and_an_opt_out_is_done_with_a_warning() {
    let (nodes, token) = nodes(&["a"], "");
    let node = &nodes[0];
    let desk = machine(node.site.database().expect("a database"), &node.site);
    desk.ok(&["suppress", EVE]);
    sql(&desk, "CREATE RULE hide AS ON INSERT TO outbox DO INSTEAD NOTHING");
    for check in [&["doctor"][..], &["node", "verify"], &["audit", "verify"]] {
        node.site.run(check).mentions(1, "rule hide on outbox");
    }
    for site in [&node.site, &desk] {
        let why =
            "nothing was changed: the store does not keep the entry of this change for the audit journal";
        site.run(&["unsuppress", EVE]).mentions(1, why);
        assert_eq!(node.look_up(PHONE, &token, EVE).status, 404);
    }
    let refused = desk.run(&["export"]);
    refused.mentions(1, "this cannot be recorded in the audit journal now");
    assert_eq!(refused.stdout, "");
    // Without the database in between, a node records what it shows.
    node.site.ok(&["export"]);
    for (site, person) in [(&node.site, ADA), (&desk, MIRA)] {
        site.run(&["suppress", person]).mentions(0, "done, but not yet on record: ");
        assert_eq!(node.look_up(PHONE, &token, person).status, 404);
    }
    node.site.run(&["erase", EVE]).mentions(0, "done, but not yet on record: ");
    node.site.run(&["token", "revoke", "test"]).mentions(0, "done, but not yet on record: ");
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 401);
    sql(&desk, "DROP RULE hide ON outbox");
    let put_back = desk.run_recorded(&["unsuppress", EVE]);
    assert_eq!((put_back.code, put_back.stderr.contains("not yet on record")), (0, false), "{put_back:?}");
    assert_eq!((recorded(&desk, "unsuppress"), recorded(&desk, "suppress")), (1, 1));
}

#[test]
fn an_entry_that_a_trigger_removes_is_not_on_record_even_if_the_index_says_so() {
    let (nodes, _) = nodes(&["a"], "");
    let node = &nodes[0];
    let desk = machine(node.site.database().expect("a database"), &node.site);
    // It is there when it is looked for in the transaction, and gone when that is committed. The index has it.
    sql(
        &desk,
        "CREATE FUNCTION hide() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN
             DELETE FROM contactd.outbox;
             INSERT INTO contactd.admin_events SELECT node, 2, 0, NEW.entry, NEW.record FROM contactd.positions ON CONFLICT (node, seq) DO UPDATE SET entry = NEW.entry;
             RETURN NULL; END';
         CREATE CONSTRAINT TRIGGER hide AFTER INSERT ON outbox DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION hide()",
    );
    desk.run(&["doctor"]).mentions(1, "trigger hide on outbox");
    let why = "no signed line of a journal has it";
    let refused = desk.run(&["export"]);
    refused.mentions(1, why);
    assert_eq!(refused.stdout, "");
    desk.run(&["suppress", ADA]).mentions(0, why);
    node.site.run(&["unsuppress", ADA]).mentions(0, "done, but not yet on record: ");
    assert_eq!(recorded(&desk, "export") + recorded(&desk, "suppress") + recorded(&desk, "unsuppress"), 0);
    sql(&desk, "DROP FUNCTION hide CASCADE");
    node.site.ok(&["suppress", ADA]);
}
