#!/usr/bin/env python3
"""Measures how long single lookups take beside a token that sends batches of 100 without pause, and beside one that sends them singly.

    python3 bench/beside.py                # builds, prints, and writes bench/runs/
    python3 bench/beside.py --binary PATH  # a binary that is built already

One server with one worker, on one core. On the other, wrk sends the lookups of one token without pause, a hundred at once: in batches on
one connection, or singly on a hundred. With priority, another token sends 500 single lookups a second meanwhile. Rounds take turns; the ratio of the
two p99 is taken within a round.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import stage

ROUNDS, SECONDS, PROFILES, RATE, NAP_MICROS = 9, 6, 1_000_000, 500, 50
CONNECTIONS = {"batches": 1, "singly": stage.BATCH}


def beside(server, load, connections, requests):
    """The latency of the other token's lookups, and how many lookups of the load are answered in a second."""
    heavy = subprocess.Popen(["taskset", "-c", stage.LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{SECONDS + 2}s", "-s", stage.BENCH / "load.lua",
                              f"http://127.0.0.1:{server.port}", "--", load], stdout=subprocess.PIPE, text=True)
    priority = ["chrt", "-f", "10"] if os.getuid() == 0 and shutil.which("chrt") else []
    out = subprocess.run([*priority, "taskset", "-c", stage.LOAD_CORE, stage.tool("latency"), str(server.port), str(RATE), str(SECONDS), requests,
                          str(NAP_MICROS)], check=True, capture_output=True, text=True).stdout
    answered = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", heavy.communicate()[0])}
    if answered["bad"]:
        raise SystemExit(f"{answered['bad']} wrong answers of the load")
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}
    return found | {"loadPerSecond": round(answered["requests"] / answered["micros"] * 1e6)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binary", type=pathlib.Path, help="a contactd that is built already")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(())
    if args.binary:
        stage.BINARY = args.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    data, tokens = stage.contactd_data(PROFILES)
    # The last one has the single lookups for itself.
    loads = {"batches": stage.request_file("contactd-batch", PROFILES, tokens[:1]), "singly": stage.request_file("contactd", PROFILES, tokens[:1])}
    requests = loads["singly"].with_name("requests-beside")
    requests.write_bytes(loads["singly"].read_bytes().replace(tokens[0].encode(), tokens[-1].encode()))
    report = {"command": "python3 bench/beside.py", "commit": stage.commit(), "rate": RATE, "rounds": []}
    server = stage.start("contactd", PROFILES, data, tokens)
    try:
        server.ready(requests.read_bytes().split(b"\n----\n")[0])
        for number in range(ROUNDS):
            order = list(loads) if number % 2 else list(reversed(loads))
            found = {name: beside(server, loads[name], CONNECTIONS[name], requests) for name in order}
            found["batches"]["loadPerSecond"] *= stage.BATCH
            report["rounds"].append(found)
            print(f"round {number + 1}: " + ", ".join(f"{name} p50 {found[name]['p50']} p99 {found[name]['p99']} µs" for name in loads), flush=True)
    finally:
        server.stop()
    ratios = [found["batches"]["p99"] / found["singly"]["p99"] for found in report["rounds"]]
    report["p99Ratio"] = {"median": round(statistics.median(ratios), 2), "min": round(min(ratios), 2), "max": round(max(ratios), 2)}
    print(json.dumps(report["p99Ratio"]))
    if not args.no_write:
        out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-beside.json"
        out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
