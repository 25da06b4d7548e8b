#!/usr/bin/env python3
"""Checks that callers notice no fault of one node, or of the database, through HAProxy and through nginx as soak/drill/ configures them.

    python3 soak/balancers.py                       # everything; builds the release binary, prints, and writes soak/runs/
    python3 soak/balancers.py nginx                 # only through this one
    python3 soak/balancers.py --quick               # each fault once and short, and writes nothing
    python3 soak/balancers.py --binary PATH         # a binary that is built already

A cluster with Patroni, three nodes and both load balancers. Sixteen callers look people up, 200 times a second together and each lookup timed on its own,
while something is broken. No lookup may fail, and none may take longer than 3.5 s. Every lookup that disclosed something has its line in a journal.

frozen: a node hangs for 20 s: it accepts connections and says nothing. disk: the disk of a node is full for 20 s; needs the right to mount. killed: a node
is killed, and is away for 10 s. failover: the host of the primary is killed; the lease of the nodes is longer than the failover. restart: one node after the
other is stopped in order and started again, as for an upgrade.
"""
import argparse
import datetime
import json
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

sys.path.insert(0, str(stage.ROOT / "soak/drill"))
import cluster as clusters
import failover
from load import KEPT, Load

CALLERS, EVERY = 16, 0.08
SLOWEST = 3.5
# The node that is broken, and the size of the disk of each.
NODE, MEGABYTES = "node-1", 64
# Before and after a fault.
CALM = 5
# The columns of the table.
SHOWN = ("lookups", "failed", "slowestSeconds", "isFine")


def readyz(cluster, name=NODE):
    """The status of a node; 0 if it does not answer."""
    return clusters.ask(cluster.port(name), "/readyz")[0]


def is_away(cluster, status, since):
    """Waits until the node says this, and returns what was seen."""
    clusters.wait_for(f"readyz {status}", lambda: readyz(cluster) == status)
    return {"readyz": status, "secondsToReadyz": round(time.monotonic() - since, 1)}


def frozen(cluster, away):
    since = time.monotonic()
    cluster.break_it("hang", NODE)
    seen = is_away(cluster, 0, since)
    time.sleep(away)
    return seen


def disk(cluster, away):
    since = time.monotonic()
    cluster.fill_disk(NODE)
    seen = is_away(cluster, 503, since)
    time.sleep(away)
    cluster.free_disk(NODE)
    return seen | {"secondsToReadyAgain": is_away(cluster, 200, time.monotonic())["secondsToReadyz"]}


def killed(cluster, away):
    since = time.monotonic()
    cluster.break_it("node", NODE)
    seen = is_away(cluster, 0, since)
    time.sleep(away / 2)
    return seen


def database(cluster, away):
    since = time.monotonic()
    old = cluster.break_it("primary")
    failover.new_primary(cluster, old)
    seen = {"secondsToPrimary": round(time.monotonic() - since, 1)}
    time.sleep(away / 4)
    return seen


def restart(cluster, away):
    del away
    since = time.monotonic()
    for name in cluster.nodes:
        cluster.stop_node(name)
        cluster.start_node(name)
        clusters.wait_for(f"{name} to be ready", lambda: readyz(cluster, name) == 200)
        # As long as a load balancer may take to notice.
        time.sleep(1)
    return {"secondsForAll": round(time.monotonic() - since, 1)}


FAULTS = {"frozen": frozen, "disk": disk, "killed": killed, "failover": database, "restart": restart}


def broken(cluster, load, fault, away):
    """Breaks one thing and heals it, and says what callers saw."""
    load.start(clients=CALLERS, every=EVERY)
    try:
        time.sleep(CALM)
        at = time.monotonic()
        seen = FAULTS[fault](cluster, away)
        cluster.heal()
        time.sleep(CALM)
    finally:
        load.end()
    lookups, failed = load.lookups_since(at)
    slowest = round(load.slowest_since(at), 2)
    return {"lookups": lookups, "failed": failed, "slowestSeconds": slowest, **seen, "isFine": not failed and slowest <= SLOWEST}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("balancers", nargs="*", choices=[*clusters.BALANCERS, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    balancers = options.balancers or list(clusters.BALANCERS)
    can_fill = stage.may_mount()
    faults = [fault for fault in FAULTS if fault != "disk" or can_fill]
    results = {}
    with tempfile.TemporaryDirectory(prefix="contactd-balancers-", ignore_cleanup_errors=True) as directory:
        with clusters.running(directory, stage.BINARY, balancers=balancers, disk_megabytes=MEGABYTES if can_fill else None) as cluster:
            load = Load(cluster, KEPT, writers={})
            print(f"{'':19}{'lookups':>8}{'failed':>8}{'slowest':>10}", flush=True)
            for load.balancer in balancers:
                for fault in faults:
                    seen = broken(cluster, load, fault, 5 if options.quick else 20)
                    results.setdefault(load.balancer, {})[fault] = seen
                    rest = ", ".join(f"{name} {value}" for name, value in seen.items() if name not in SHOWN)
                    print(f"{load.balancer:9}{fault:10}{seen['lookups']:8}{sum(seen['failed'].values()):8}{seen['slowestSeconds']:8.2f} s   {seen['failed'] or ''} {rest}", flush=True)
            missing, repeated = load.disclosures.missing(), load.disclosures.repeated()
    disclosures = {"disclosures": len(load.disclosures.acknowledged), "withoutLine": missing, "inTwoJournals": len(repeated)}
    print(json.dumps(disclosures))
    if "disk" not in faults:
        print("disk was not run: may not mount a small file system")
    if not options.quick:
        path = stage.ROOT / "soak/runs" / f"{datetime.date.today()}-balancers.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        known.update({"commit": stage.commit(), "callers": CALLERS, "lookupsPerSecond": round(CALLERS / EVERY), **results, **disclosures})
        path.write_text(json.dumps(known, indent=1) + "\n")
    wrong = [f"{balancer}.{fault}" for balancer, found in results.items() for fault, seen in found.items() if not seen["isFine"]]
    if wrong or missing:
        sys.exit(f"does not hold: {', '.join([*wrong, *(['disclosures without a line'] if missing else [])])}")
    print("all of it holds")


if __name__ == "__main__":
    main()
