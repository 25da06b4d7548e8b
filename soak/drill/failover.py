#!/usr/bin/env python3
"""The failover drill: starts a cluster on this machine, breaks it under load, and checks that nothing was lost.

    soak/drill/failover.py --binary PATH                  # kills the host of the primary, and says what was seen
    soak/drill/failover.py --binary PATH --fault freeze   # breaks something else; `soak/drill/cluster.py --help` says what there is
    soak/drill/failover.py --binary PATH --hurry          # does not wait until the primary's key in etcd ends

Writers create tokens, opt people out and import; clients look people up through HAProxy. Exits 1 if a lookup failed, or if something
that was acknowledged is missing, not whole, or there twice: also the line of a disclosure among the journals in the database, and its
unit of the quota.
"""
import argparse
import pathlib
import re
import sys
import tempfile
import time

import cluster as clusters
from cluster import wait_for
from load import Load

# For how long a host is frozen, and standbys or etcd are away.
AWAY = 30
# An opt-out waits for a node that is killed, until its lease ends.
NODE_AWAY = 5
# A commit that was on its way may still be acknowledged this long after a kill.
ON_ITS_WAY = 0.5


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def new_primary(cluster, old, seconds=90):
    """The primary that has taken the place of another one."""
    return wait_for("a new primary", lambda: (found := cluster.primary()) != old and found, seconds)


def break_and_heal(cluster, load, fault, hurry=False, away=None, warm_up=3):
    """Breaks one thing under load, waits until writes are acknowledged again, and heals it. Returns what was seen."""
    away = away or (NODE_AWAY if fault in ("node", "hang") else AWAY)
    load.start()
    try:
        time.sleep(warm_up)
        at, before = time.monotonic(), sum(load.acknowledged().values())
        broken = cluster.break_it(fault)
        broken = broken if isinstance(broken, str) else " and ".join(broken)
        say(f"{fault}: {broken}")
        seen = {"fault": fault, "broken": broken}
        if fault in ("primary", "patroni", "freeze", "switchover"):
            if hurry and fault == "primary":
                cluster.expire_leader()
            found = new_primary(cluster, broken)
            primary_at = time.monotonic()
            seen |= {"newPrimary": found, "secondsToPrimary": round(primary_at - at, 2)}
            say(f"after {seen['secondsToPrimary']:.1f} s {found} is the primary")
            written_at = load.first_write_after(max(primary_at - 1, at + ON_ITS_WAY))
            seen["secondsFromPrimaryToWrite"] = round(max(written_at - primary_at, 0), 2)
            say(f"{seen['secondsFromPrimaryToWrite']:.1f} s later a write is acknowledged")
        if fault in ("freeze", "standbys", "etcd", "node", "hang"):
            time.sleep(max(0, at + away - time.monotonic()))
            seen["secondsAway"] = round(time.monotonic() - at, 1)
            seen["writesWhileAway"] = sum(weight for moment, weight in load.times if at + ON_ITS_WAY < moment)
            say(f"away for {seen['secondsAway']:.0f} s, in which {seen['writesWhileAway']} writes were acknowledged")
        healed = time.monotonic()
        cluster.heal()
        seen["secondsToHeal"] = round(time.monotonic() - healed, 1)
        say(f"healed within {seen['secondsToHeal']:.1f} s")
        seen["longestWithoutWrite"] = round(longest_pause(load, at, load.first_write_after(time.monotonic())), 1)
        time.sleep(1)
    finally:
        load.end()
    lookups, failed = load.lookups_since(at)
    seen |= {"acknowledged": sum(load.acknowledged().values()) - before, "lookups": lookups, "failedLookups": failed}
    say(f"longest time without a write {seen['longestWithoutWrite']:.1f} s; {lookups} lookups, {sum(failed.values())} failed {failed or ''}".rstrip())
    return seen


def longest_pause(load, began, ended):
    times = [began, *(moment for moment, _ in load.times if began < moment < ended), ended]
    return max(later - earlier for earlier, later in zip(times, times[1:]))


def verify(cluster, load):
    """Checks what was acknowledged. Returns what is wrong."""
    wrong = load.check()
    acknowledged = load.acknowledged()
    acknowledged["disclosures"] = len(load.disclosures.acknowledged)
    say(f"acknowledged: {', '.join(f'{count} {kind}' for kind, count in acknowledged.items())}; {f'wrong: {wrong}' if wrong else 'all there, once'}")
    for kind in load.kinds:
        if kind.refused:
            say(f"{kind.name}: {len(kind.refused)} refused, and not counted; the last: {list(kind.refused.values())[-1]}")
    return wrong


def compare_copies(cluster):
    """Whether the copy of each node equals the database."""
    return {name: cluster.run("node", "verify", "--data", cluster.directory / name, capture_output=True).returncode == 0 for name in cluster.nodes}


def main():
    summary, details = re.match(r"(.*?)\n\n(.*)", __doc__, re.DOTALL).groups()
    parser = argparse.ArgumentParser(description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, required=True, help="the contactd to run")
    parser.add_argument("--fault", choices=clusters.FAULTS, default="primary", help="what to break [default: primary]")
    parser.add_argument("--people", type=int, default=10_000, help="how many people are in the store [default: 10000]")
    parser.add_argument("--hurry", action="store_true", help="remove the primary's key from etcd instead of waiting until it ends")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="contactd-drill-", ignore_cleanup_errors=True) as directory:
        with clusters.running(directory, options.binary) as cluster:
            say(f"the cluster runs; its primary is {cluster.primary()}")
            load = Load(cluster, options.people)
            seen = break_and_heal(cluster, load, options.fault, options.hurry)
            wrong = verify(cluster, load)
    if wrong or seen["failedLookups"]:
        sys.exit("does not hold: something acknowledged is wrong, or a lookup failed")
    print("holds: nothing acknowledged is lost, and no lookup failed")


if __name__ == "__main__":
    main()
