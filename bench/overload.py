#!/usr/bin/env python3
"""Measures what happens when a worker gets more lookups than it can do.

    python3 bench/overload.py              # prints, and writes bench/runs/

Two servers, each with one worker on one core, and an open-loop load from the other core (`latency` of crates/bench-tools): requests are due at random times,
whether earlier ones were answered or not.

A store slowed to 1 ms for each lookup (crates/server/examples/slowed.rs): at 80 % of its capacity, at three times its capacity, and at 80 %
again, in interleaved rounds. How long accepted lookups take, how quickly the rest is refused, whether memory stays flat, and how soon lookups are
as fast as before.

The fast store: at 1.3 times the capacity, on 64 and on 1,000 connections. How many lookups are done, compared with the capacity.
"""
import datetime
import json
import pathlib
import re
import statistics
import subprocess

import stage

ROUNDS, SECONDS = 5, 8


class Slowed:
    """A server whose store takes `micros` for each lookup."""

    def __init__(self, micros):
        binary = stage.ROOT / "target/release/examples/slowed"
        self.process = subprocess.Popen(["taskset", "-c", stage.SERVER_CORE, binary, str(micros), "1"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port, url, *tokens = self.process.stdout.readline().split()
        body = json.dumps({"profileUrl": url})
        self.requests = stage.WORK / f"requests-slowed-{micros}"
        self.requests.write_text("".join(
            f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n{body}\n----\n"
            for token in tokens), newline="")

    def load(self, generator, rate, seconds=SECONDS, connections=256):
        out = subprocess.run(["taskset", "-c", stage.LOAD_CORE, generator, self.port, str(rate), str(seconds), self.requests, "20", str(connections)],
                             check=True, capture_output=True, text=True).stdout
        found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return found | {"memoryKib": int(re.search(r"RssAnon:\s+(\d+)", status).group(1))}

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def capacity(server, generator, connections):
    """How many lookups are done when there are always more."""
    return statistics.median(server.load(generator, 10**6, 4, connections)["rate"] for _ in range(3))


def slow(generator):
    server = Slowed(1_000)
    try:
        # One connection less than would be refused, always busy.
        most = capacity(server, generator, 8)
        rounds = []
        for _ in range(ROUNDS):
            found = {name: server.load(generator, round(most * share)) for name, share in
                     [("at80percent", 0.8), ("at300percent", 3), ]}
            # One second later, measured in a run of its own whose first second does not count.
            found["afterwards"] = server.load(generator, round(most * 0.8))
            calm, busy = found["at80percent"], found["at300percent"]
            found["ratioOfP99"] = round(busy["p99"] / calm["p99"], 2)
            rounds.append(found)
            print(f"80 %: p99 {calm['p99']} µs; 300 %: p99 {busy['p99']} µs ({found['ratioOfP99']} ×), {busy['refused']}/s refused, p99 {busy['refused_p99']} µs; "
                  f"afterwards {found['afterwards']['p99']} µs; {busy['memoryKib']} KiB", flush=True)
    finally:
        server.stop()
    median = lambda name, figure: statistics.median(found[name][figure] for found in rounds)
    return {"capacity": most, "rounds": rounds, "p99At80": median("at80percent", "p99"), "p99At300": median("at300percent", "p99"),
            "ratioOfP99": statistics.median(found["ratioOfP99"] for found in rounds), "refusedP99": median("at300percent", "refused_p99"),
            "p99Afterwards": median("afterwards", "p99"), "memoryKib": [found["at300percent"]["memoryKib"] for found in rounds]}


def fast(generator):
    report = {}
    for connections in (64, 1_000):
        server = Slowed(0)
        try:
            most = capacity(server, generator, connections)
            rounds = [server.load(generator, round(most * 1.3), 5, connections) for _ in range(ROUNDS)]
        finally:
            server.stop()
        goodput = [round(found["rate"] / most, 3) for found in rounds]
        report[connections] = {"capacity": most, "rounds": rounds, "goodput": goodput, "median": statistics.median(goodput)}
        print(f"{connections} connections: capacity {most}/s, at 1.3 times: {goodput}", flush=True)
    return report


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.sh("cargo", "build", "--release", "-q", "-p", "contactd-server", "--example", "slowed", cwd=stage.ROOT)
    generator = stage.tool("latency")
    report = {"command": "python3 bench/overload.py", "commit": stage.commit(), "slowStore": slow(generator), "fastStore": fast(generator)}
    slowed, quick = report["slowStore"], report["fastStore"]
    report["holds"] = {
        "p99 of accepted lookups below 2 × that at 80 %": slowed["ratioOfP99"] < 2,
        "the rest refused within 20 ms (p99)": slowed["refusedP99"] < 20_000,
        "memory flat": max(slowed["memoryKib"]) < 1.2 * min(slowed["memoryKib"]) + 1024,
        "normal again a second later": slowed["p99Afterwards"] < 1.5 * slowed["p99At80"],
        "goodput at 1.3 × at least 80 %": all(found["median"] >= 0.8 for found in quick.values()),
    }
    print(json.dumps(report["holds"], indent=1))
    (stage.BENCH / f"runs/{datetime.date.today().isoformat()}-overload.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
