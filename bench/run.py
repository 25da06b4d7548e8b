#!/usr/bin/env python3
"""Measures the CPU time per request of contactd, nginx, and common alternatives.

    python3 bench/run.py                                        # everything: 1 and 10 million profiles
    python3 bench/run.py --profiles 1000000 --load-only --no-write

Each server gets one core and one worker, and wrk gets the other core: 64 keep-alive connections, POST
with a token and a body, cycling through 20,000 profiles. Rounds are interleaved: each round measures
every server once, and ratios are computed within a round. CPU time is user + system time of the whole
process tree, divided by requests. nginx sends a constant answer, which shows what the machine can do.
The simple peers are measured with a million profiles. Then contactd alone: start time, memory, size on
disk, latency at half load and with a cold page cache (alone.py). contactd has its lookup table in memory, contactd-file in its file.
contactd-batch gets the same lookups in batches of 100 on 8 connections, which count as their lookups; its latency is that of a batch.

Installs what it needs (Debian packages as root, PyPI and npm packages under target/bench) and
writes the table with its raw numbers to bench/runs/.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics

import alone
import stage
from stage import BENCH, ROOT, WORK, commit, contactd_data, install, measure, request_file, sh, start


OURS = ("contactd", "contactd-batch", "contactd-file", "nginx")


def rounds_of(names, profiles, rounds, seconds, data, tokens):
    """Runs interleaved rounds of all servers. Returns the results, and the memory of each server at the end."""
    servers, requests = [], {}
    try:
        for name in names:
            requests[name] = request_file(name, profiles if name in OURS else 1_000_000, tokens)
            server = start(name, profiles, data, tokens)
            servers.append(server)
            server.ready(requests[name].read_bytes().split(b"\n----\n")[0])
            measure(server, requests[name], 1)
        results = []
        for number in range(rounds):
            results.append({server.name: measure(server, requests[server.name], seconds) for server in servers})
            print(f"round {number + 1}: " + ", ".join(f"{name} {result['cpuMicros']:.2f} µs" for name, result in results[-1].items()),
                  flush=True)
        return results, {server.name: server.memory_mib() for server in servers}
    finally:
        for server in servers:
            server.stop()


def summary(results, memory):
    """Medians, and ratios computed within each round."""
    def median(name, figure):
        return statistics.median(result[name][figure] for result in results)

    lines = ["| server | CPU per request | / nginx (range) | / contactd (range) | requests/s on one core | memory |", "|---|---|---|---|---|---|"]
    table = {}
    for name in results[0]:
        ratios = {}
        for base in ("nginx", "contactd"):
            paired = [result[name]["cpuMicros"] / result[base]["cpuMicros"] for result in results]
            ratios[base] = {"median": statistics.median(paired), "min": min(paired), "max": max(paired)}
        table[name] = {"cpuMicros": median(name, "cpuMicros"), "requestsPerSecond": median(name, "requestsPerSecond"), "ratios": ratios}
        shown = [f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})" for ratio in ratios.values()]
        lines.append(f"| {name} | {median(name, 'cpuMicros'):.1f} µs | {' | '.join(shown)} | {median(name, 'requestsPerSecond'):,.0f} | {memory[name]} MiB |")
    return table, "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--profiles", type=int, nargs="+", default=[1_000_000, 10_000_000])
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--peers", nargs="*", default=["roapi", "fastify", "fastapi"], help="servers to measure besides nginx, with a million profiles")
    arguments.add_argument("--load-only", action="store_true", help="only the comparison under load")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    arguments.add_argument("--binary", type=pathlib.Path, help="a contactd that is built already")
    args = arguments.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    if args.binary:
        stage.BINARY = args.binary.resolve()
    else:
        sh("cargo", "build", "--release", "-q", cwd=ROOT)
    install(args.peers)
    for profiles in args.profiles:
        print(f"{profiles:,} profiles", flush=True)
        data, tokens = contactd_data(profiles)
        names = [*OURS, *(args.peers if profiles == 1_000_000 else [])]
        results, memory = rounds_of(names, profiles, args.rounds, args.seconds, data, tokens)
        table, text = summary(results, memory)
        report = {"command": "python3 bench/run.py", "rounds": len(results), "secondsPerRound": args.seconds, "commit": commit(),
                  "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}"}
        if not args.load_only:
            report["alone"] = alone.measure(profiles, data, tokens, table["contactd"]["requestsPerSecond"])
            text += "\n\n" + shown(report)
        print(text, flush=True)
        if not args.no_write:
            out = BENCH / f"runs/{datetime.date.today().isoformat()}-load-{profiles}"
            out.with_suffix(".json").write_text(json.dumps({**report, "memoryMiB": memory, "summary": table, "raw": results},
                                                           indent=1, ensure_ascii=False) + "\n")
            out.with_suffix(".md").write_text(f"{profiles:,} profiles, {len(results)} rounds, {report['machine']}, commit {report['commit']}: "
                                              f"`{report['command']}`\n\n{text}\n")


def shown(report):
    alone, cold, half = report["alone"], report["alone"]["cold"], report["alone"]["halfLoad"]
    rows = [("start to first answer", f"{alone['startToFirstAnswerMillis']['median']} ms (worst of ten {alone['startToFirstAnswerMillis']['max']} ms)"),
            ("memory without the page cache", f"{alone['memoryMiB']['anonymous']} MiB"),
            ("on disk", f"{alone['bytesOnDiskPerProfile']} bytes per profile with a phone number and an e-mail address"),
            *((f"latency at half load, {half['requestsPerSecond']:,} requests/s: {name}",
               ", ".join(f"{label} {half[name][share]} µs" for label, share in [("p50", "p50Micros"), ("p90", "p90Micros"), ("p99", "p99Micros")]))
              for name in ("contactd", "nginx")),
            ("latency with a cold page cache", f"p50 {cold['p50Micros']} µs, p99 {cold['p99Micros']} µs "
                                               f"({cold['pagesFromDiskPerLookup']} pages from disk per lookup, one client)")]
    return "\n".join(["| contactd alone | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)])


if __name__ == "__main__":
    main()
