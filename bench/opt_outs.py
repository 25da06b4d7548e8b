#!/usr/bin/env python3
"""How long an opt-out takes in a cluster of three nodes, beside an earlier build, with many opt-outs on file.

    python3 bench/opt_outs.py --before PATH                       # a binary of the earlier version; builds the release binary, and writes bench/runs/
    python3 bench/opt_outs.py --before PATH --binary PATH --opt-outs 100000

Each version has a cluster of its own on one PostgreSQL, and they take turns. `suppress` returns when the opt-out is in force on every node, and on record.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import sys
import tempfile
import time

import postgres
import service
import stage
from nodes import Cluster


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--opt-outs", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    if not options.binary:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    binaries = {"before": options.before.resolve(), "after": (options.binary or stage.BINARY).resolve()}
    took = {name: [] for name in binaries}
    with tempfile.TemporaryDirectory(prefix="contactd-opt-outs-") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        people = work / "people"
        people.write_text("".join(f"https://linkedin.com/in/out-quell-{number}\n" for number in range(options.opt_outs)))
        with postgres.running(work / "postgres") as server:
            clusters = {}
            for name, stage.BINARY in binaries.items():
                (work / name).mkdir()
                url = server.url(name)
                create, server.create = server.create, lambda name=name: create(name)
                cluster = clusters[name] = Cluster(work / name, server, 1_000, lease=10)
                server.create = create
                assert cluster.url == url
                cluster.command("suppress", "--list", people) if options.opt_outs else None
                for node in "abc":
                    cluster.node(node).start()
                print(f"{name}: {options.opt_outs} opt-outs are on file, three nodes serve", flush=True)
            for number in range(options.rounds):
                for name, stage.BINARY in binaries.items():
                    began = time.monotonic()
                    clusters[name].command("suppress", service.url(number))
                    took[name].append(time.monotonic() - began)
            for cluster in clusters.values():
                cluster.stop()
    ratio = statistics.median(after / before for before, after in zip(took["before"], took["after"]))
    result = {"optOuts": options.opt_outs, "rounds": options.rounds, "ratio": round(ratio, 3),
              "seconds": {name: {"p50": round(statistics.median(seconds), 4), "max": round(max(seconds), 4)} for name, seconds in took.items()}}
    print(json.dumps(result))
    if not options.binary:
        name = stage.BENCH / f"runs/{datetime.date.today()}-opt-outs.json"
        name.write_text(json.dumps({"commit": stage.commit(), **result}, indent=1) + "\n")
    sys.exit(f"{ratio:.2f} times as long as before" if ratio > 1.2 else 0)


if __name__ == "__main__":
    main()
