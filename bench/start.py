#!/usr/bin/env python3
"""Measures start time and memory of contactd after many lookups, with its lookup table in its file and in memory.

    python3 bench/start.py                                        # four million lookups, a million profiles
    python3 bench/start.py --lookups-before 200000 --binary PATH  # a shorter one, with a contactd that is built already

A server with one worker answers the lookups as fast as it can, with the journal on. Its memory is read meanwhile, and afterwards while
it indexes what is left. Then it is stopped and started several times, and several times killed under full load and started again: each
time more lines are not indexed.

A start is the time from exec to the first answer of 200. On a machine that does something else too, look at `withoutWaiting`: the same
without the time in which the thread that starts was ready and had no core. `withQuota` is the time from exec to the first answer to a
token with a quota, which after a kill waits until it is counted what was used.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

import alone
import stage
from stage import BENCH, ROOT, WORK, commit, contactd_data, request_file, sh

STARTS = 8
PARTS = 20
KILLED_AFTER_SECONDS = 2
WATCHED_SECONDS = 10


class Run:
    """A data directory, and a server on it that is started again and again."""

    def __init__(self, place, profiles):
        self.place = place
        self.data, self.tokens = contactd_data(profiles)
        self.requests = request_file("contactd", profiles, self.tokens)
        alone.warm(self.data)
        self.limited = self.contactd("token", "create", f"limited-{time.time_ns()}", "--quota", "1000000000/month").strip()
        self.start()
        while not stage.is_answered_from(self.service.admin, place):
            time.sleep(0.1)

    def contactd(self, *arguments):
        return subprocess.run([stage.BINARY, *arguments, "--data", self.data], check=True, capture_output=True, text=True).stdout

    def start(self):
        self.service = service = alone.Service(self.data, self.tokens[0], "--workers", "1", "--config", stage.table_in(self.place))
        # The first thread does everything until the server listens.
        _, waited, _ = map(int, pathlib.Path(f"/proc/{service.process.pid}/schedstat").read_text().split())
        assert service.look_up(stage.key(7)) == b"200"
        millis = self.millis()
        service.token = self.limited
        while service.look_up(stage.key(7)) != b"200":
            pass
        return {"millis": millis, "withoutWaiting": round(millis - waited / 1e6, 1), "withQuota": self.millis()}

    def millis(self):
        return round((time.monotonic() - self.service.began) * 1000, 1)

    def stopped_and_started(self):
        self.service.stop()
        return self.start()

    def killed_and_started(self):
        load = self.load(10_000_000)
        time.sleep(KILLED_AFTER_SECONDS)
        self.service.kill()
        load.wait()
        return self.start()

    def load(self, lookups):
        return subprocess.Popen(["taskset", "-c", stage.LOAD_CORE, stage.tool("lookups"), str(self.service.port), str(lookups), self.requests],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def memory(self):
        """In MiB, without the table."""
        table = sum(file.stat().st_size for file in self.data.glob("lookup-*.table")) if self.place == "memory" else 0
        return {name: round((size - table) / 2**20, 1) for name, size in self.service.memory_bytes().items()}


def measure(place, profiles, lookups):
    run = Run(place, profiles)
    report = {"startBefore": summary(run.stopped_and_started), "memoryBefore": run.memory()}
    during, indexing = [], []
    for _ in range(PARTS):
        if run.load(lookups // PARTS).wait():
            raise SystemExit("a lookup was not answered 200")
        during.append(run.memory())
    for _ in range(WATCHED_SECONDS):
        time.sleep(1)
        indexing.append(run.memory())
    report |= {"memoryAfter": during[-1], "mostMemory": most(during), "mostMemoryWhileIndexing": most(indexing),
               "startAfterStop": summary(run.stopped_and_started), "startAfterKill": summary(run.killed_and_started)}
    run.service.stop()
    return report


def most(memories):
    return {name: max(memory[name] for memory in memories) for name in memories[0]}


def summary(start):
    found = [start() for _ in range(STARTS)]
    return {name: {"median": round(statistics.median(times), 1), "min": min(times), "max": max(times)}
            for name in found[0] if (times := [start[name] for start in found])}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--profiles", type=int, default=1_000_000)
    arguments.add_argument("--lookups-before", type=int, default=4_000_000)
    arguments.add_argument("--binary", type=pathlib.Path, help="a contactd that is built already")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if args.binary:
        stage.BINARY = args.binary.resolve()
    else:
        sh("cargo", "build", "--release", "-q", cwd=ROOT)
    stage.tool("lookups")
    report = {"command": f"python3 bench/start.py --profiles {args.profiles} --lookups-before {args.lookups_before}", "commit": commit(),
              "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}",
              **{f"tableIn{place.capitalize()}": measure(place, args.profiles, args.lookups_before) for place in ("file", "memory")}}
    print(json.dumps(report, indent=1))
    if not args.no_write:
        out = BENCH / f"runs/{datetime.date.today().isoformat()}-start.json"
        out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
