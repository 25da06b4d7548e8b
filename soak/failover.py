#!/usr/bin/env python3
"""Checks that failovers lose nothing and are not noticed: a whole cluster with Patroni (soak/drill/) that is broken under load.

    python3 soak/failover.py                      # everything; builds the release binary, prints, and writes soak/runs/
    python3 soak/failover.py kills freeze         # only these parts
    python3 soak/failover.py --quick              # each part once and short, and writes nothing
    python3 soak/failover.py --binary PATH        # a binary that is built already

Writers create tokens, opt people out and import, and note what was acknowledged; clients look people up through HAProxy. After every fault, each
acknowledged token is used, each person who opted out is looked up, and each import is there whole; each disclosure has its line among the journals in
the database, once, and its unit of the quota is counted. Patroni's ttl is 20 s, the lease 60 s.

kills: the host of the primary is killed (PostgreSQL and Patroni, SIGKILL) ten times, until 20,000 writes are acknowledged. No lookup fails; writes are
acknowledged again within 5 s of the new primary.
postgres, patroni, switchover, freeze, standbys, node: as `soak/drill/cluster.py --help` says. The primary is frozen for 30 s; the standbys are away for 30 s.
etcd: lost for 30 s, and for longer than the lease.
lease: etcd and the primary are lost, so that there is no failover until etcd is back, which is longer than the lease: lookups are answered 503 with
Retry-After, readyz is 503, and everything goes on by itself afterwards.
"""
import argparse
import datetime
import json
import pathlib
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

sys.path.insert(0, str(stage.ROOT / "soak/drill"))
import cluster as clusters
import failover
from load import KEPT, LISTED, Load

KILLS, WRITES, WITHIN = 10, 20_000, 5
LEASE = 60
FAULTS = ("postgres", "patroni", "switchover", "freeze", "standbys", "node")
PARTS = ("kills", *FAULTS, "etcd", "lease")


def breaking(cluster, load, fault, **options):
    """Breaks one thing, and says what was seen and whether all is well."""
    seen = failover.break_and_heal(cluster, load, fault, **options)
    seen["wrong"] = failover.verify(cluster, load)
    seen["isNothingLost"], seen["isNoLookupFailed"] = not seen["wrong"], not seen["failedLookups"]
    return seen


def kills(cluster, load, quick):
    faults = [breaking(cluster, load, "primary", hurry=quick, warm_up=3 if quick else 6) for _ in range(1 if quick else KILLS)]
    wanted = 0 if quick else WRITES
    while sum(load.acknowledged().values()) < wanted:
        load.start()
        time.sleep(5)
        load.end()
    wrong = failover.verify(cluster, load)
    return {
        "kills": len(faults), "acknowledged": load.acknowledged(), "refused": {kind.name: len(kind.refused) for kind in load.kinds}, "wrong": wrong,
        "disclosures": len(load.disclosures.acknowledged), "lookups": sum(seen["lookups"] for seen in faults), "failedLookups": sum(sum(seen["failedLookups"].values()) for seen in faults),
        "longestSecondsToPrimary": max(seen["secondsToPrimary"] for seen in faults),
        "longestSecondsFromPrimaryToWrite": max(seen["secondsFromPrimaryToWrite"] for seen in faults),
        "isNothingLost": not wrong and all(seen["isNothingLost"] for seen in faults), "isNoLookupFailed": all(seen["isNoLookupFailed"] for seen in faults),
        "isWrittenInTime": all(seen["secondsFromPrimaryToWrite"] <= WITHIN for seen in faults), "faults": faults}


def etcd(cluster, load, quick):
    within = breaking(cluster, load, "etcd", away=5 if quick else None)
    beyond = breaking(cluster, load, "etcd", away=8 if quick else LEASE + 15)
    return {"within": within, "beyond": beyond, **{name: within[name] and beyond[name] for name in ("isNothingLost", "isNoLookupFailed")}}


def lease(cluster, load, quick):
    """No failover for longer than the lease."""
    del quick
    before = sum(load.acknowledged().values())
    load.start()
    try:
        time.sleep(2)
        cluster.kill("etcd")
        old = cluster.lose_primary()
        broken = time.monotonic()
        failover.say(f"etcd and the primary, {old}, are lost")
        clusters.wait_for("the end of the leases", lambda: all(asked(cluster, name, "/readyz")[0] == 503 for name in cluster.nodes), 2 * LEASE)
        ended = time.monotonic()
        time.sleep(3)
        answers = {name: [*asked(cluster, name, "/readyz"), *looked_up(cluster, load, name)] for name in (*cluster.nodes, "haproxy")}
        failover.say(f"after {ended - broken:.1f} s the leases have ended: {answers}")
        cluster.start_etcd()
        back = time.monotonic()
        failover.new_primary(cluster, old)
        primary_at = time.monotonic()
        clusters.wait_for("lookups", lambda: load.look_up(0) == 200)
        served_at = time.monotonic()
        failover.say(f"etcd is back; a new primary after {primary_at - back:.1f} s, and lookups {served_at - primary_at:.1f} s later")
        written_at = load.first_write_after(primary_at - 1)
        cluster.heal()
        time.sleep(1)
    finally:
        load.end()
    early = [status for at, status, _ in load.looked_up if broken < at < ended - 2]
    away = {str(status) for at, status, _ in load.looked_up if ended < at < back}
    wrong = failover.verify(cluster, load)
    return {
        "broken": f"etcd and {old}", "secondsToEndOfLease": round(ended - broken, 1), "answers": answers, "acknowledged": sum(load.acknowledged().values()) - before,
        "lookupsBeforeTheEnd": len(early), "failedBeforeTheEnd": sum(status != 200 for status in early), "statusesAfterTheEnd": sorted(away),
        "secondsToPrimary": round(primary_at - back, 1), "secondsFromPrimaryToLookups": round(served_at - primary_at, 1),
        "secondsFromPrimaryToWrite": round(max(written_at - primary_at, 0), 1), "wrong": wrong, "isNothingLost": not wrong,
        # Those that failed before the end had no unit of their quota left: they are leased for one to two minutes at the rate before.
        "isRefusedWithRetryAfter": away == {"503"} and all(answer == [503, "1", 503, "1"] for answer in answers.values())}


def asked(cluster, name, path, body=None, headers=None):
    """Status and Retry-After of a request."""
    request = urllib.request.Request(f"http://127.0.0.1:{cluster.port(name)}{path}", body, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers.get("Retry-After")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Retry-After")
    except OSError:
        return 0, None


def looked_up(cluster, load, name):
    body = json.dumps({"profileUrl": "https://www.linkedin.com/in/drill-quell-0"}).encode()
    return asked(cluster, name, "/api/fetchPersonalEmail", body, {"Authorization": f"Bearer {load.token}", "Content-Type": "application/json"})


def run(part, cluster, load, quick):
    if part in FAULTS:
        return breaking(cluster, load, part, **({"away": 5} if quick and part in ("standbys", "node") else {}))
    return {"kills": kills, "etcd": etcd, "lease": lease}[part](cluster, load, quick)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    results = {}
    for part in options.parts or PARTS:
        print(f"== {part}", flush=True)
        people = KEPT + LISTED * (5_000 if part == "kills" else 1_500)
        with tempfile.TemporaryDirectory(prefix="contactd-failover-", ignore_cleanup_errors=True) as directory:
            with clusters.running(directory, stage.BINARY, lease=f"{LEASE}s") as cluster:
                load = Load(cluster, people)
                results[part] = run(part, cluster, load, options.quick)
                results[part]["areCopiesEqual"] = all(failover.compare_copies(cluster).values())
        print(json.dumps({name: value for name, value in results[part].items() if name != "faults"}), flush=True)
    if not options.quick:
        path = stage.ROOT / "soak/runs" / f"{datetime.date.today()}-failover.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        known.update({"commit": stage.commit(), "ttl": clusters.TTL, "leaseSeconds": LEASE, **results})
        path.write_text(json.dumps(known, indent=1) + "\n")
    failed = [f"{part}.{name}" for part, result in results.items() for name, value in result.items() if name.startswith(("is", "are")) and value is False]
    if failed:
        sys.exit("does not hold: " + ", ".join(failed))
    print("all of it holds")


if __name__ == "__main__":
    main()
