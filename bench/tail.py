#!/usr/bin/env python3
"""Measures the tail of the latency at half load beside nginx, and whether a write to the journal waits for a sync.

    python3 bench/tail.py                  # prints, and writes bench/runs/

15 interleaved rounds of contactd, of contactd without its journal, and of nginx with a constant answer, at half of contactd's
full rate, each server on one core and alone on it. Then one more round in which perf traces the system calls of the journal's threads:
how long each write took, and how long the writes took that began while a sync was under way.
"""
import datetime
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import audit
import stage

SYNCS = ("journal-sync", "journal-late")
ROUNDS, SECONDS, PROFILES = 15, 6, 1_000_000


def latency(generator, requests, server, rate, seconds):
    out = subprocess.run(["taskset", "-c", stage.LOAD_CORE, generator, str(server.port), str(rate), str(seconds), requests],
                         check=True, capture_output=True, text=True).stdout
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}


def threads(server):
    """The ids of the journal's threads, by name."""
    found = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        found[(task / "comm").read_text().strip()] = int(task.name)
    return found


def trace(generator, requests, server, rate):
    """The system calls of the journal's threads during a round: when each began, and how long it took."""
    ids = threads(server)
    with tempfile.TemporaryDirectory() as work:
        data, events = pathlib.Path(work) / "perf.data", "raw_syscalls:sys_enter,raw_syscalls:sys_exit"
        perf = subprocess.Popen(["perf", "record", "-q", "-e", events, "-o", data, "-m", "4096", "-t",
                                 ",".join(str(ids[name]) for name in ("journal", *SYNCS))], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        found = latency(generator, requests, server, rate, 4)
        perf.terminate()
        perf.wait()
        lines = subprocess.run(["perf", "script", "-i", data, "-F", "tid,time,event,trace"], capture_output=True, text=True).stdout
    began, calls = {}, []
    for tid, at, event, what in re.findall(r"(\d+)\s+(\d+\.\d+):\s+raw_syscalls:(sys_\w+):\s+(.*)", lines):
        number = int(re.search(r"NR (\d+)", what).group(1))
        if event == "sys_enter":
            began[tid] = (float(at), number)
        elif tid in began and began[tid][1] == number:
            start, _ = began.pop(tid)
            calls.append((int(tid), number, start, float(at)))
    # x86-64: 1 is write, 75 is fdatasync.
    syncs = [(start, end) for tid, number, start, end in calls if tid in [ids[name] for name in SYNCS] and number == 75]
    writes = [(start, end) for tid, number, start, end in calls if tid == ids["journal"] and number == 1]
    during = [end - start for start, end in writes if any(a <= start < b for a, b in syncs)]
    micros = lambda values: summary([value * 1e6 for value in values])
    return {"syncs": micros([end - start for start, end in syncs]), "writes": micros([end - start for start, end in writes]),
            "writesDuringASync": micros(during), "latency": found}


def summary(values):
    ranked = sorted(values)
    at = lambda share: round(ranked[min(len(ranked) - 1, int(len(ranked) * share))], 1)
    return {"count": len(ranked), **({"p50": at(.5), "p99": at(.99), "max": round(ranked[-1], 1)} if ranked else {})}


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(())
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    data, tokens = stage.contactd_data(PROFILES)
    generator, requests = stage.tool("latency"), stage.request_file("contactd", PROFILES, tokens)
    report = {"command": "python3 bench/tail.py", "commit": stage.commit(), "rounds": []}
    work = tempfile.TemporaryDirectory(dir=stage.WORK)
    without = pathlib.Path(work.name) / "without"
    shutil.copytree(data, without, ignore=shutil.ignore_patterns("control.sock"))
    servers = {"contactd": stage.start("contactd", PROFILES, data, tokens), "off": audit.start(without, "off"),
               "nginx": stage.start("nginx", PROFILES, data, tokens)}
    try:
        for server in servers.values():
            server.ready(requests.read_bytes().split(b"\n----\n")[0])
        full = statistics.median(stage.measure(servers["contactd"], requests, 3)["requestsPerSecond"] for _ in range(3))
        report["rate"] = rate = round(full / 2)
        print(f"half load: {rate:,} requests/s", flush=True)
        for number in range(ROUNDS):
            order = random.Random(number).sample(list(servers), len(servers))
            found = {name: latency(generator, requests, servers[name], rate, SECONDS) for name in order}
            report["rounds"].append(found)
            print(f"round {number + 1}: " + ", ".join(f"{name} p50 {found[name]['p50']} p99 {found[name]['p99']} p999 {found[name]['p999']} µs"
                                                      for name in servers), flush=True)
        for name, other in (("contactd", "nginx"), ("contactd", "off")):
            ratios = [found[name]["p99"] / found[other]["p99"] for found in report["rounds"]]
            report[f"p99RatioTo{other.capitalize()}"] = {"median": round(statistics.median(ratios), 2), "min": round(min(ratios), 2),
                                                         "max": round(max(ratios), 2)}
        report["trace"] = trace(generator, requests, servers["contactd"], rate)
    finally:
        for server in servers.values():
            server.stop()
        work.cleanup()
    print(json.dumps({key: value for key, value in report.items() if key != "rounds"}, indent=1))
    out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-tail.json"
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
