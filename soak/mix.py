#!/usr/bin/env python3
"""Checks that nothing acknowledged is lost, whatever fails: a whole cluster with Patroni (soak/drill/), and faults at random, one or two at a time.

    python3 soak/mix.py                           # 30 minutes; builds the release binary, prints, and writes soak/runs/
    python3 soak/mix.py --minutes 3               # as before a release; writes nothing if it is shorter than 30 minutes
    python3 soak/mix.py --seed 7 --binary PATH    # the faults of an earlier run, with a binary that is built already
    python3 soak/mix.py --faults freeze slow      # only these

Writers opt people out (by lists, by a command on a machine without a node, by the admin API of a node), erase, import, create and revoke tokens; clients
look people up through HAProxy and use up quotas; others ask each node directly for people who were opted out or erased, with tokens that were revoked.
Nodes reach each member of PostgreSQL through a proxy of their own (soak/drill/proxy.py).

Faults of the database: those of `soak/drill/cluster.py --help` (the primary lost, frozen, or without its Patroni; its PostgreSQL killed; a switchover;
standbys and etcd lost), and somebody who locks a table. Of the network between one node or all of them and the members: slow; silent; one-way, in either
direction; half-open. Of a node: killed (node); stopped with SIGSTOP (hang); a full disk; a clock that is off by up to 20 minutes. Full disks need
the right to mount, and clocks Debian's package faketime; without them, these faults are left out, and it says so.

Checked all the time: nobody is disclosed by a lookup that began after their opt-out or erasure was acknowledged, and no revoked token is accepted.
Checked at the end: everything acknowledged is there, whole, once; every disclosure has its line in a journal; no quota was exceeded; the copy of each node
equals the database, and its journals verify. After each fault everything heals within two minutes.
"""
import argparse
import datetime
import json
import pathlib
import random
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

sys.path.insert(0, str(stage.ROOT / "soak/drill"))
import cluster as clusters
import failover
from failover import say
from load import KEPT, LISTED, OptOuts, Imports, Kind, Load, Tokens, url
from proxy import BACK, TO

LEASE = 60
# How many units the quota of a token has: so few that it is used up often.
QUOTA = 150
# A writer pauses this long after each write, so that there are at most so many in a minute.
PAUSE, WRITES_A_MINUTE = 0.3, 200
# How long a fault lasts, and the time between two, in seconds.
LENGTH, BETWEEN = (3, 25), (2, 6)
CLOCK = 20 * 60
DISK_MEGABYTES = 1_500
TABLES = ("tokens", "suppressions", "details", "outbox", "nodes", "journal_lines", "usage")


# What is written


class Gone(Kind):
    """Changes after which a person is never disclosed. Once one is acknowledged, the watchers look for it."""

    def person(self, number):
        """Each kind has people of its own."""
        return self.load.single(self, number)

    def write(self):
        is_acknowledged = super().write()
        if is_acknowledged:
            self.load.gone.append(self.person(next(reversed(self.acknowledged))))
        return is_acknowledged

    def is_there(self, number):
        return self.load.look_up(self.person(number)) == 404


class CommandOptOuts(Gone):
    name = "opt-outs by a command"

    def command(self, number):
        return self.run("suppress", url(self.person(number)))


class Erasures(Gone):
    name = "erasures"

    def command(self, number):
        return self.run("erase", url(self.person(number)))


class ApiOptOuts(Gone):
    """Opt-outs through the admin API of any node. They are acknowledged if they are said to be in force."""

    name = "opt-outs by the admin API"

    def command(self, number):
        node = random.choice(self.load.cluster.nodes)
        status, said = self.load.ask_admin(node, "/people/opt-out", q=url(self.person(number)))
        is_done = status == 200 and said.get("inForce")
        if not is_done:
            time.sleep(0.5)
        return Done(0 if is_done else 1, stderr=f"{status} {said}")


class ListedOptOuts(OptOuts):
    """Lists of opt-outs: all of their people are watched."""

    def write(self):
        is_acknowledged = super().write()
        if is_acknowledged:
            self.load.gone += self.people(next(reversed(self.acknowledged)))
        return is_acknowledged


class Revocations(Kind):
    """Tokens that are created and revoked."""

    name = "revocations"

    def command(self, number):
        made = self.run("token", "create", f"short-{number}")
        if made.returncode != 0:
            return made
        token = made.stdout.strip()
        revoked = self.run("token", "revoke", f"short-{number}")
        if revoked.returncode == 0:
            self.load.revoked.append(token)
        return Done(revoked.returncode, token, revoked.stderr)

    def is_there(self, number):
        return self.load.look_up(0, self.acknowledged[number]) == 401


class Quotas(Kind):
    """Tokens with a small quota, which are used until nothing is left."""

    name = "quotas"

    def __init__(self, load):
        super().__init__(load)
        # By token: how many lookups were answered with 200, by UTC day.
        self.used, self.lock = {}, threading.Lock()

    def command(self, number):
        made = self.run("token", "create", f"quota-{number}", "--quota", f"{QUOTA}/day")
        if made.returncode != 0:
            return made
        token, refused, until = made.stdout.strip(), 0, time.monotonic() + 60
        while refused < 5 and time.monotonic() < until and not self.load.is_over.is_set():
            through = random.choice((self.load.balancer, *self.load.cluster.nodes))
            status = self.load.look_up(random.randrange(KEPT), token, through)
            if status == 200:
                with self.lock:
                    days = self.used.setdefault(token, {})
                    day = datetime.datetime.now(datetime.UTC).date().isoformat()
                    days[day] = days.get(day, 0) + 1
            refused += status == 429
            time.sleep(0.01)
        return made

    def is_there(self, number):
        token = self.acknowledged[number]
        return all(count <= QUOTA for count in self.used.get(token, {}).values())

    def twice(self):
        """Tokens of which more units are counted than they have."""
        counted = self.load.cluster.sql("SELECT body::json -> 1 ->> 'name', day, sum(hits) FROM contactd.usage JOIN contactd.tokens ON id = token "
                                        f"WHERE body::json -> 1 ->> 'name' LIKE 'quota-%' GROUP BY 1, 2 HAVING sum(hits) > {QUOTA}")
        return counted.splitlines()


class Done:
    """What a command has done."""

    def __init__(self, returncode, stdout="", stderr=""):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


WRITERS = {ListedOptOuts: 2, CommandOptOuts: 1, Erasures: 1, ApiOptOuts: 1, Tokens: 1, Revocations: 1, Imports: 1, Quotas: 1}
SINGLE = (CommandOptOuts, Erasures, ApiOptOuts)


class MixedLoad(Load):
    """The load of the drill, and those who watch."""

    def __init__(self, cluster, minutes):
        # What every lookup must find in force, in the order of the acknowledgements: people who are gone, and tokens.
        self.gone, self.revoked = [], []
        # What must not be: the time, the node, and what it answered.
        self.violations, self.errors = [], []
        self.first_single = KEPT + LISTED * WRITES_A_MINUTE * (minutes + 2)
        self.singles = WRITES_A_MINUTE * (minutes + 2)
        super().__init__(cluster, self.first_single + len(SINGLE) * self.singles, WRITERS, PAUSE)
        made = cluster.run("admin-token", "create", "robot", "--role", "privacy", check=True, capture_output=True)
        self.admin_token, self.watched = made.stdout.strip(), {}

    def single(self, kind, number):
        if number >= self.singles:
            raise ValueError(f"there are no people left for {kind.name}")
        return self.first_single + SINGLE.index(type(kind)) * self.singles + number

    def ask_admin(self, node, path, **body):
        return clusters.ask(self.cluster.port(f"{node} admin"), f"/admin/api/v1{path}", timeout=2 * LEASE,
                            headers={"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"}, **body)

    def start(self, clients=2):
        super().start(clients, every=0.02)
        watchers = [threading.Thread(target=self.keep_watching, args=(node,)) for node in self.cluster.nodes for _ in range(2)]
        for watcher in watchers:
            watcher.start()
        self.threads += watchers

    def keep_writing(self, kind):
        try:
            super().keep_writing(kind)
        except (Exception, SystemExit):
            self.errors.append(traceback.format_exc())

    def keep_watching(self, node):
        """Asks one node for people who must not be disclosed any more, and with tokens that it must not accept."""
        chosen = random.Random()
        while not self.is_over.is_set():
            # Every second time one of the newest.
            def pick(known):
                return chosen.choice(known[-20:] if chosen.random() < 0.5 else known)
            if self.revoked and chosen.random() < 0.3:
                status, right = self.look_up(chosen.randrange(KEPT), pick(self.revoked), node), (401,)
            elif self.gone:
                status, right = self.look_up(pick(self.gone), None, node), (404,)
            else:
                time.sleep(0.1)
                continue
            # While it cannot know, a node answers 503, or 500 if its journal cannot be written; or nothing.
            if status not in (*right, 500, 503) and isinstance(status, int):
                self.violations.append(f"{time.strftime('%H:%M:%S')} {node} answered {status} instead of {right[0]}")
            self.watched[str(status)] = self.watched.get(str(status), 0) + 1
            time.sleep(0.02)


# What is broken


class Fault:
    """Something that is broken for a while. `group` keeps two from being broken together that are the same."""

    def __init__(self, name, group, begin, end=lambda: None):
        self.name, self.group, self.begin, self.end = name, group, begin, end


def faults(cluster, dice, can_fill, has_clocks):
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
              network("half-open", half_open=True)]
    found += [of_node("node", cluster.kill, lambda: cluster.family(node) or cluster.start_node(node)), of_node("hang", cluster.freeze_node, cluster.thaw_nodes),
              Fault("lock", "lock", lock)]
    if can_fill:
        found.append(of_node("full-disk", cluster.fill_disk, lambda: cluster.free_disk(node)))
    if has_clocks:
        found.append(Fault("clock", "clock", lambda: cluster.set_clock(node, off) or f"{node} by {off} s", lambda: cluster.set_clock(node, 0)))
    return found


def step(cluster, load, dice, options):
    """Breaks one or two things, and heals them. Returns what was seen."""
    time.sleep(dice.uniform(*BETWEEN))
    possible = [fault for fault in faults(cluster, dice, options.can_fill, options.has_clocks) if not options.faults or fault.name in options.faults]
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
    load.first_write_after(time.monotonic())
    lookups, failed = load.lookups_since(at)
    seen |= {"seconds": round(healed - at, 1), "secondsToHeal": round(time.monotonic() - healed, 1), "lookups": lookups, "failedLookups": failed}
    say(f"{' and '.join(seen['faults'])} for {seen['seconds']:.0f} s, healed within {seen['secondsToHeal']:.0f} s; {lookups} lookups, {sum(failed.values())} failed "
        f"{failed or ''}".rstrip())
    return seen


def run(cluster, options):
    dice, minutes = random.Random(options.seed), options.minutes
    load = MixedLoad(cluster, minutes)
    say(f"the cluster runs with {load.people} people; its primary is {cluster.primary()}")
    steps, until = [], time.monotonic() + 60 * minutes
    load.start()
    try:
        while time.monotonic() < until and not load.errors:
            steps.append(step(cluster, load, dice, options))
    except TimeoutError:
        load.errors.append(traceback.format_exc())
        say("WRONG it does not heal")
    finally:
        load.end()
    for violation in load.violations:
        say(f"WRONG {violation}")
    wrong = failover.verify(cluster, load)
    verified = cluster.run("audit", "verify", capture_output=True)
    names = [name for seen in steps for name in seen["faults"]]
    failed = [count for seen in steps for count in seen["failedLookups"].values()]
    if verified.returncode != 0:
        print(verified.stdout, verified.stderr, flush=True)
    return {
        "minutes": minutes, "seed": options.seed, "steps": len(steps), "faults": {name: names.count(name) for name in sorted(set(names))},
        "acknowledged": load.acknowledged(), "refused": {kind.name: len(kind.refused) for kind in load.kinds}, "wrong": wrong, "errors": load.errors,
        "lookups": len(load.looked_up), "failedLookups": sum(failed), "disclosures": len(load.disclosures.acknowledged), "repeated": len(load.disclosures.repeated()),
        "watched": load.watched, "violations": load.violations, "quotasUsedUp": sum(max(days.values(), default=0) == QUOTA for days in quotas(load).used.values()),
        "mostOfAQuota": max((count for days in quotas(load).used.values() for count in days.values()), default=0), "quota": QUOTA,
        "longestSecondsToHeal": max((seen["secondsToHeal"] for seen in steps), default=0), "isNothingLost": not wrong and not load.errors,
        "isNobodyDisclosed": not load.violations, "areCopiesEqual": all(failover.compare_copies(cluster).values()),
        "isJournalWhole": verified.returncode == 0, "details": steps}


def quotas(load):
    return next(kind for kind in load.kinds if isinstance(kind, Quotas))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--faults", nargs="+", help="only these")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    options.seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    options.can_fill, options.has_clocks = stage.may_mount(), clusters.FAKETIME.exists()
    print(f"seed {options.seed}", flush=True)
    for name, is_there, why in (("full-disk", options.can_fill, "nothing can be mounted here"), ("clock", options.has_clocks, "apt-get install faketime")):
        if not is_there:
            print(f"{name} was not run: {why}", flush=True)
    with tempfile.TemporaryDirectory(prefix="contactd-mix-", ignore_cleanup_errors=True) as directory:
        how = {"lease": f"{LEASE}s", "has_ways": True, "has_clocks": options.has_clocks, "disk_megabytes": DISK_MEGABYTES if options.can_fill else None}
        with clusters.running(directory, stage.BINARY, **how) as cluster:
            result = run(cluster, options)
    print(json.dumps({name: value for name, value in result.items() if name != "details"}), flush=True)
    if options.minutes >= 30:
        path = stage.ROOT / "soak/runs" / f"{datetime.date.today()}-mix.json"
        path.write_text(json.dumps({"commit": stage.commit(), "ttl": clusters.TTL, "leaseSeconds": LEASE, **result}, indent=1) + "\n")
    failed = [name for name, value in result.items() if name.startswith(("is", "are")) and value is False]
    if failed:
        sys.exit(f"does not hold: {', '.join(failed)}; --seed {options.seed} breaks the same things again")
    print("all of it holds")


if __name__ == "__main__":
    main()
