#!/usr/bin/env python3
"""Checks that nothing acknowledged is lost, whatever fails: a whole cluster with Patroni (soak/drill/), and faults at random, one or two at a time.

    python3 soak/mix.py                           # 30 minutes; builds the release binary, prints, and writes soak/runs/
    python3 soak/mix.py --minutes 3               # as before a release; writes nothing if it is shorter than 30 minutes
    python3 soak/mix.py --seed 7 --binary PATH    # the faults of an earlier run, with a binary that is built already
    python3 soak/mix.py --faults freeze slow      # only these
    python3 soak/mix.py --asynchronous            # Patroni acknowledges what only one disk has, so that failovers lose commits
    python3 soak/mix.py --restore                 # in the middle, the database is set back to a copy of a while before

Writers opt people out (by lists, by a command on a machine without a node, by the admin API of a node), erase, import, create and revoke tokens; clients
look people up through HAProxy and use up quotas; others ask each node directly for people who were opted out or erased, with tokens that were revoked.
Nodes reach each member of PostgreSQL through a proxy of their own (soak/drill/proxy.py).

Faults of the database: those of `soak/drill/cluster.py --help` (the primary lost, frozen, or without its Patroni; its PostgreSQL killed; a switchover;
standbys and etcd lost), and somebody who locks a table. Of the network between one node or all of them and the members: slow; silent; one-way, in either
direction; half-open; dead (only with --faults: a connection whose other half is gone for good). Of a node: killed (node); stopped with SIGSTOP (hang); a
full disk, which needs the right to mount; a clock that is off by up to 20 minutes.

Checked all the time: nobody is disclosed by a lookup that began after their opt-out or erasure was acknowledged, and no revoked token is accepted.
Checked at the end: everything acknowledged is there, whole, once; every disclosure has its line in a journal; no quota was exceeded; the copy of each node
equals the database, and its journals verify. After each fault everything heals within two minutes.

With --asynchronous and --restore the database loses what was acknowledged. Nodes keep opt-outs, erasures and the ends of tokens that it has lost, and
`node reconcile --yes` puts them back: it is run on each node after each fault. So none of these may be lost, and no lookup may show that they were. A fault
of its own, lagging, makes sure that commits are lost: the standbys get nothing for a while, and then the primary is lost. What else was lost is counted. An opt-out that
no node holds any more, because nobody but the lost database had it, may be lost if its command said so; `audit verify` names it.
"""
import argparse
import datetime
import json
import pathlib
import random
import re
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

sys.path.insert(0, str(stage.ROOT / "soak/drill"))
import cluster as clusters
import failover
from failover import say
from mixed import QUOTA, MixedLoad
from proxy import BACK, TO

LEASE = 60
# What a database that is set back has nothing to do with, and what must outlast it.
UNTOUCHED = ("disclosures",)
KEPT_BY_NODES = ("opt-outs", "opt-outs by a command", "opt-outs by the admin API", "erasures", "revocations")
# How long a fault lasts, and the time between two, in seconds.
LENGTH, BETWEEN = (3, 25), (2, 6)
CLOCK = 20 * 60
DISK_MEGABYTES = 1_500
# What is broken if nothing else is asked for. Not `dead`: a node leaves such a connection only after two looks at it, which no mix has waited for yet.
USUAL = ("primary", "postgres", "patroni", "freeze", "switchover", "standbys", "etcd", "lagging", "slow", "silent", "one-way", "half-open", "node",
         "hang", "lock", "full-disk", "clock")
LOST_ON_RECORD = re.compile("WRONG the opt-out [0-9a-f:]+ is on record since [^ ]+ and not in the store")
TABLES = ("tokens", "suppressions", "details", "outbox", "nodes", "journal_lines", "usage")


class Fault:
    """Something that is broken for a while. `group` keeps two from being broken together that are the same."""

    def __init__(self, name, group, begin, end=lambda: None):
        self.name, self.group, self.begin, self.end = name, group, begin, end


def faults(cluster, dice, can_fill):
    """All faults, with what is chosen at random."""
    node = dice.choice(cluster.nodes)
    # One node, or all of them, and all members or one of them.
    nodes = [node] if dice.random() < 0.6 else cluster.nodes
    members = clusters.MEMBERS if dice.random() < 0.6 else [dice.choice(clusters.MEMBERS)]
    ways = [cluster.ways[each, member] for each in nodes for member in members]
    where = f"{' and '.join(nodes)} to {' and '.join(members)}"

    def database(name):
        def begin():
            if name != "etcd" and not cluster.primary():
                return "nothing: there is no primary"
            try:
                broken = cluster.break_it(name)
            except SystemExit as error:
                return f"nothing: {error}"
            return broken if isinstance(broken, str) else " and ".join(broken)
        return Fault(name, "database" if name != "etcd" else "etcd", begin)

    def network(name, **how):
        def begin():
            for way in ways:
                way.be(**how)
            return where
        return Fault(name, "network", begin, cluster.ways.mend)

    def of_node(name, begin, end=lambda: None):
        def begin_it():
            begin(node)
            return node
        return Fault(name, "node", begin_it, end)

    def lock():
        table, seconds = dice.choice(TABLES), dice.randrange(3, 20)
        if not cluster.primary():
            return "nothing: there is no primary"
        cluster.lock(table, seconds)
        return f"{table} for {seconds} s"

    off = dice.choice((-1, 1)) * dice.randrange(5, CLOCK)
    delay = round(dice.uniform(0.02, 0.5), 2)
    found = [database(name) for name in ("primary", "postgres", "patroni", "freeze", "switchover", "standbys", "etcd")]
    found += [network("slow", delay=delay), network("silent", stopped=(TO, BACK)), network("one-way", stopped=(dice.choice((TO, BACK)),)),
              network("half-open", half_open=True), network("dead", dead=True)]
    if not cluster.state["isSynchronous"]:
        found += [Fault("lagging", "database", lambda: cluster.lose_primary_behind(dice.uniform(1, 4)) or "nothing: there is no primary")] * 3
    found += [of_node("node", cluster.kill, lambda: cluster.family(node) or cluster.start_node(node)), of_node("hang", cluster.freeze_node, cluster.thaw_nodes),
              Fault("lock", "lock", lock)]
    if can_fill:
        found.append(of_node("full-disk", cluster.fill_disk, lambda: cluster.free_disk(node)))
    found.append(Fault("clock", "clock", lambda: cluster.set_clock(node, off) or f"{node} by {off} s", lambda: cluster.set_clock(node, 0)))
    return found


def step(cluster, load, dice, options):
    """Breaks one or two things, and heals them. Returns what was seen."""
    time.sleep(dice.uniform(*BETWEEN))
    possible = [fault for fault in faults(cluster, dice, options.can_fill) if fault.name in (options.faults or USUAL)]
    chosen = [dice.choice(possible)]
    others = [fault for fault in possible if fault.group != chosen[0].group]
    if others and dice.random() < 0.6:
        chosen.append(dice.choice(others))
    events = []
    for fault in chosen:
        begins = 0 if fault is chosen[0] else dice.uniform(0, 5)
        events += [(begins, "begin", fault), (begins + dice.uniform(*LENGTH), "end", fault)]
    at, seen = time.monotonic(), {"faults": [fault.name for fault in chosen], "broken": []}
    for moment, what, fault in sorted(events, key=lambda event: event[0]):
        time.sleep(max(0, at + moment - time.monotonic()))
        if what == "begin":
            broken = fault.begin()
            seen["broken"].append(f"{fault.name}: {broken}")
            say(f"{fault.name}: {broken}")
        else:
            fault.end()
    healed = time.monotonic()
    cluster.heal()
    if options.loses:
        seen["putBack"] = put_back(cluster)
    load.first_write_after(time.monotonic())
    lookups, failed = load.lookups_since(at)
    seen |= {"seconds": round(healed - at, 1), "secondsToHeal": round(time.monotonic() - healed, 1), "lookups": lookups, "failedLookups": failed}
    say(f"{' and '.join(seen['faults'])} for {seen['seconds']:.0f} s, healed within {seen['secondsToHeal']:.0f} s; {lookups} lookups, {sum(failed.values())} failed "
        f"{failed or ''}".rstrip())
    return seen


def put_back(cluster):
    """Puts back what the database has lost, from each node that holds it. Returns what it has lost."""
    lost = []
    for node in cluster.nodes:
        done = cluster.run("node", "reconcile", "--yes", "--data", cluster.directory / node, capture_output=True)
        words = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("WRONG") or done.returncode]
        lost += [f"{node}: {line}" for line in words]
        for line in words:
            say(f"{node}: {line}")
    return lost


def set_back(cluster, copy):
    """The database becomes what it was when it was copied."""
    cluster.restore(copy)
    say("the database is set back")
    cluster.wait_until_served()
    return put_back(cluster)


def run(cluster, options):
    dice, minutes = random.Random(options.seed), options.minutes
    load = MixedLoad(cluster, minutes)
    say(f"the cluster runs with {load.people} people; its primary is {cluster.primary()}")
    steps, until = [], time.monotonic() + 60 * minutes
    began, copy, set_back_to = time.monotonic(), None, []
    load.start()
    try:
        while time.monotonic() < until and not load.errors:
            passed = (time.monotonic() - began) / (60 * minutes)
            if options.restore and not copy and passed > 0.2:
                copy = cluster.copy()
                say("the database is copied")
            if options.restore and copy and not set_back_to and passed > 0.5:
                set_back_to = set_back(cluster, copy) or ["nothing was lost"]
            steps.append(step(cluster, load, dice, options))
    except TimeoutError:
        load.errors.append(traceback.format_exc())
        unready = [name for name in cluster.nodes if clusters.ask(cluster.port(name), "/readyz")[0] != 200]
        say(f"WRONG it does not heal: {cluster.roles()}; not ready: {unready}")
        for name in set(clusters.MEMBERS) - set(cluster.roles()):
            say(f"{name} says: {(cluster.directory / f'{name}.log').read_text()[-1500:]}")
        for name in unready:
            cluster.kill(name)
        cluster.heal()
    finally:
        load.end()
    for violation in load.violations:
        say(f"WRONG {violation}")
    wrong, lost = failover.verify(cluster, load), {}
    if options.loses:
        # Counts are set back with the database; lines are not.
        if lines := [missing for missing in wrong.pop("disclosures missing", []) if "units of the quota" not in missing]:
            wrong["disclosures missing"] = lines
        lost = {what: len(numbers) for what, numbers in wrong.items() if what.rsplit(" ", 1)[0] not in (*KEPT_BY_NODES, *UNTOUCHED)}
        wrong = {what: numbers for what, numbers in wrong.items() if what not in lost}
    verified = cluster.run("audit", "verify", capture_output=True)
    names = [name for seen in steps for name in seen["faults"]]
    failed = [count for seen in steps for count in seen["failedLookups"].values()]
    if verified.returncode != 0:
        print(verified.stdout, verified.stderr, flush=True)
    wrong_lines = [line for line in verified.stdout.splitlines() if line.startswith("WRONG")]
    told_lost = [line for line in wrong_lines if LOST_ON_RECORD.fullmatch(line)]
    # Everything acknowledged is there, so these are of commands that said "committed, and lost", or that failed otherwise.
    is_told = options.loses and verified.returncode == 1 and wrong_lines == told_lost and len(told_lost) <= sum(len(kind.refused) for kind in load.kinds)
    return {
        "minutes": minutes, "synchronous": cluster.state["isSynchronous"], "setBack": set_back_to, "lostByTheDatabase": lost, "seed": options.seed, "steps": len(steps), "faults": {name: names.count(name) for name in sorted(set(names))},
        "acknowledged": load.acknowledged(), "refused": {kind.name: len(kind.refused) for kind in load.kinds}, "wrong": wrong, "errors": load.errors,
        "lookups": len(load.looked_up), "failedLookups": sum(failed), "disclosures": len(load.disclosures.acknowledged), "repeated": len(load.disclosures.repeated()),
        "watched": load.watched, "violations": load.violations, "quotasUsedUp": sum(max(days.values(), default=0) == QUOTA for days in load.quotas().used.values()),
        "mostOfAQuota": max((count for days in load.quotas().used.values() for count in days.values()), default=0), "quota": QUOTA,
        "longestSecondsToHeal": max((seen["secondsToHeal"] for seen in steps), default=0), "isNothingLost": not wrong and not load.errors,
        "isNobodyDisclosed": not load.violations, "areCopiesEqual": all(failover.compare_copies(cluster).values()),
        "isJournalWhole": verified.returncode == 0 or is_told, "onRecordAndLost": len(told_lost), "details": steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", nargs="+", help="only these")
    parser.add_argument("--asynchronous", action="store_true", help="without Patroni's synchronous mode")
    parser.add_argument("--restore", action="store_true", help="set the database back in the middle")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    options.loses = options.asynchronous or options.restore
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    options.can_fill = stage.may_mount()
    print(f"seed {options.seed}", flush=True)
    if not options.can_fill:
        print("full-disk was not run: nothing can be mounted here", flush=True)
    with tempfile.TemporaryDirectory(prefix="contactd-mix-", ignore_cleanup_errors=True) as directory:
        how = {"lease": f"{LEASE}s", "is_synchronous": not options.asynchronous, "has_ways": True, "has_clocks": True, "disk_megabytes": DISK_MEGABYTES if options.can_fill else None}
        with clusters.running(directory, stage.BINARY, **how) as cluster:
            result = run(cluster, options)
    print(json.dumps({name: value for name, value in result.items() if name != "details"}), flush=True)
    if options.minutes >= 30:
        path = stage.ROOT / "soak/runs" / f"{datetime.date.today()}-mix{'-asynchronous' * options.asynchronous}{'-restore' * options.restore}.json"
        path.write_text(json.dumps({"commit": stage.commit(), "ttl": clusters.TTL, "leaseSeconds": LEASE, **result}, indent=1) + "\n")
    failed = [name for name, value in result.items() if name.startswith(("is", "are")) and value is False]
    if failed:
        sys.exit(f"does not hold: {', '.join(failed)}; --seed {options.seed} breaks the same things again")
    print("all of it holds")


if __name__ == "__main__":
    main()
