//! Quotas over several nodes.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::admin_api::AdminApi;
use crate::cluster::{cut_off, id_of, named, nodes, on_its_own_server};
use crate::fixture::{ADA, NOBODY};
use crate::http::{Connection, Reply, Request, profile_body};
use crate::service::{PHONE, Service, eventually};

/// Looks up until the answer is final: units that have to come from another node may take a second or two.
fn patiently(node: &Service, token: &str, url: &str) -> Reply {
    let mut reply = node.look_up(PHONE, token, url);
    eventually("it is answered", || {
        let is_over = reply.status != 503 && reply.header("retry-after") != Some("1");
        if !is_over {
            assert!(reply.status == 429 || reply.body.contains("service_unavailable"), "{}", reply.body);
            reply = node.look_up(PHONE, token, url);
        }
        is_over
    });
    reply
}

/// Looks up until the quota as a whole is used up, and returns how often it was answered.
fn use_up(node: &Service, token: &str) -> u64 {
    let mut answered = 0;
    loop {
        let reply = patiently(node, token, ADA);
        match reply.status {
            200 => answered += 1,
            429 => {
                assert_eq!(reply.code(), "quota_exceeded");
                return answered;
            }
            status => panic!("{status}: {}", reply.body),
        }
    }
}

/// One client, until the quota is used up or the node is gone. What was answered is counted.
fn hammer(address: std::net::SocketAddr, token: &str, answered: &AtomicU64) {
    let request = Request::lookup(PHONE, profile_body(ADA)).token(token).bytes();
    let mut connection = Connection::open(address);
    while connection.try_send(&request) {
        let Some(reply) = connection.try_reply() else { return };
        match reply.status {
            200 => drop(answered.fetch_add(1, Ordering::Relaxed)),
            429 if reply.header("retry-after") != Some("1") => return,
            429 | 503 => std::thread::yield_now(),
            status => panic!("{status}"),
        }
    }
}

fn with_quota(nodes: &[Service], quota: &str) -> String {
    nodes[0].site.ok(&["token", "create", "limited", "--quota", quota]).trim().to_owned()
}

#[test]
fn three_nodes_together_answer_exactly_as_often_as_the_quota_says() {
    const QUOTA: u64 = 400;
    let (nodes, _) = nodes(&["a", "b", "c"], "");
    let token = with_quota(&nodes, &format!("{QUOTA}/day"));
    let answered = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for node in &nodes {
            for _ in 0..2 {
                scope.spawn(|| hammer(node.public, &token, &answered));
            }
        }
    });
    let rest: u64 = nodes.iter().map(|node| use_up(node, &token)).sum();
    assert_eq!(answered.load(Ordering::Relaxed) + rest, QUOTA);
    eventually("usage is stored", || {
        nodes[0].site.list(&["token", "list"]).iter().any(|token| token["hits"] == QUOTA)
    });
    let console = AdminApi::with_role(&nodes[1], "operator");
    eventually("the console of any node says what all of them have used", || {
        let listed = console.get("/tokens").json();
        listed["tokens"].as_array().expect("a list").iter().any(|token| token["quotaUsed"] == QUOTA)
    });
    // More of it is in force at once, and used exactly too.
    nodes[1].site.ok(&["token", "update", "limited", "--quota", &format!("{}/day", QUOTA + 7)]);
    let more: u64 = nodes.iter().map(|node| use_up(node, &token)).sum();
    assert_eq!(more, 7);
}

#[test]
fn a_small_quota_can_be_used_in_full_wherever_requests_arrive() {
    let (nodes, _) = nodes(&["a", "b", "c"], "");
    let token = with_quota(&nodes, "3/day");
    for node in &nodes {
        assert_eq!(
            node.look_up(PHONE, &token, NOBODY).status,
            404,
            "the first request does not wait in vain"
        );
    }
    assert_eq!(use_up(&nodes[2], &token), 3, "what the others leased comes back");
    assert_eq!((use_up(&nodes[0], &token), use_up(&nodes[1], &token)), (0, 0));
    let refused = nodes[0].look_up(PHONE, &token, NOBODY);
    assert_eq!((refused.status, refused.code().as_str()), (429, "quota_exceeded"));
    assert!(refused.header("ratelimit").is_some_and(|left| left.starts_with("\"quota\";r=0;t=")));
}

#[test]
fn a_lower_quota_is_in_force_on_all_nodes_when_the_command_returns() {
    let (nodes, _) = nodes(&["a", "b", "c"], "");
    let token = with_quota(&nodes, "900/day");
    for node in &nodes {
        assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    }
    nodes[0].site.ok(&["token", "update", "limited", "--quota", "5/day"]);
    let rest: u64 = nodes.iter().map(|node| use_up(node, &token)).sum();
    assert_eq!(rest, 2);
}

#[test]
fn what_a_killed_node_had_leased_counts_as_used_until_it_comes_back() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"2s\"\n");
    let token = with_quota(&nodes, "40/day");
    for _ in 0..3 {
        assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 200);
    }
    let a = nodes.remove(0).kill();
    let b = &nodes[0];
    let before = 3 + use_up(b, &token);
    assert!(before < 40, "{before}: some were leased to the node that was killed");
    let a = a.serve_with(&[], &named("a", "lease = \"2s\"\n"));
    let rest = use_up(&a, &token) + use_up(b, &token);
    assert_eq!(before + rest, 40, "it gave back what it had not used");
}

#[test]
fn what_a_killed_node_had_used_counts_for_a_quota_that_came_while_it_was_down() {
    let (mut nodes, token) = nodes(&["a", "b"], "lease = \"2s\"\n");
    for _ in 0..30 {
        assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 200);
    }
    let a = nodes.remove(0).kill();
    nodes[0].site.ok(&["token", "update", "test", "--quota", "40/day"]);
    let a = a.serve_with(&[], &named("a", "lease = \"2s\"\n"));
    assert_eq!((use_up(&a, &token), use_up(&nodes[0], &token)), (10, 0));
}

#[test]
fn a_node_stopped_in_order_gives_unused_units_back() {
    let (mut nodes, _) = nodes(&["a", "b"], "lease = \"10m\"\n");
    let token = with_quota(&nodes, "40/day");
    assert_eq!(nodes[0].look_up(PHONE, &token, ADA).status, 200);
    drop(nodes.remove(0).stop());
    assert_eq!(use_up(&nodes[0], &token), 39);
}

#[test]
fn after_a_node_is_forgotten_only_what_it_had_stored_counts() {
    let (mut nodes, _) = nodes(&["b", "a"], "lease = \"2s\"\n");
    let token = with_quota(&nodes, "40/day");
    let a = nodes.pop().expect("a node");
    for _ in 0..5 {
        assert_eq!(a.look_up(PHONE, &token, ADA).status, 200);
    }
    let b = &nodes[0];
    eventually("usage is stored", || b.site.list(&["token", "list"]).iter().any(|token| token["hits"] == 5));
    let id = id_of(&b.site, "a");
    let a = a.kill();
    b.site.ok(&["node", "forget", &id, "--yes"]);
    assert_eq!(use_up(b, &token), 35);
    // It comes back as it was, and knows that nothing is left.
    let a = a.serve_with(&[], &named("a", "lease = \"2s\"\n"));
    assert_eq!(use_up(&a, &token), 0);
}

#[test]
fn kills_of_nodes_under_load_never_let_a_quota_be_exceeded_and_lose_little_of_it() {
    const QUOTA: u64 = 600;
    const CLIENTS: u64 = 2;
    const KILLS: u64 = 4;
    let config = |name: &str| named(name, "lease = \"2s\"\n");
    let (nodes, _) = nodes(&["a", "b", "c"], "lease = \"2s\"\n");
    let token = with_quota(&nodes, &format!("{QUOTA}/month"));
    let answered = AtomicU64::new(0);
    let mut nodes: Vec<Option<Service>> = nodes.into_iter().map(Some).collect();
    for kill in 0..KILLS {
        let victim = usize::try_from(kill % 3).expect("small");
        let before = answered.load(Ordering::Relaxed);
        let address = nodes[victim].as_ref().expect("it runs").public;
        let site = std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| hammer(address, &token, &answered));
            }
            eventually("some are answered", || answered.load(Ordering::Relaxed) >= before + 20 + 13 * kill);
            nodes[victim].take().expect("it runs").kill()
        });
        let name = ["a", "b", "c"][victim];
        nodes[victim] = Some(site.serve_with(&[], &config(name)));
    }
    let rest: u64 = nodes.iter().flatten().map(|node| use_up(node, &token)).sum();
    let total = answered.load(Ordering::Relaxed) + rest;
    assert!(total <= QUOTA, "{total}");
    assert!(total >= QUOTA - KILLS * CLIENTS, "{total}: only requests under way may be lost");
}

#[test]
fn units_that_are_used_up_while_the_database_is_away_are_503_and_not_429() {
    let (server, node, token) = on_its_own_server(&["--quota", "1000/day"]);
    assert_eq!(node.look_up(PHONE, &token, ADA).status, 200);
    server.stop();
    let mut answered = 1;
    let refused = loop {
        let reply = node.look_up(PHONE, &token, ADA);
        if reply.status != 200 {
            break reply;
        }
        answered += 1;
    };
    assert!(answered > 1, "what is leased can be used without the database");
    assert_eq!((refused.status, refused.code().as_str()), (503, "service_unavailable"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(node.look_up(PHONE, &token, NOBODY).status, 503, "nobody learns who is on file");
    server.run();
    eventually("units come again", || node.look_up(PHONE, &token, ADA).status == 200);
    assert_eq!(answered + 1 + use_up(&node, &token), 1_000);
    node.has_logged(
        "no unit of the quota is leased to this node, and the database has not leased one in time",
    );
}

#[test]
fn a_node_that_is_cut_off_uses_only_what_it_had_leased() {
    let (a, b, road, token) = cut_off("", &["--quota", "60/day"]);
    assert_eq!(b.look_up(PHONE, &token, ADA).status, 200);
    road.cut();
    let mut answered = 1;
    while b.look_up(PHONE, &token, ADA).status == 200 {
        answered += 1;
    }
    for _ in 0..10 {
        assert_eq!(a.look_up(PHONE, &token, ADA).status, 200);
    }
    road.mend();
    answered += 10 + use_up(&b, &token) + use_up(&a, &token);
    assert_eq!(answered, 60);
}
