#!/usr/bin/env python3
"""Measures the cost of the audit, and whether response times reveal why a person is not found.

    python3 bench/audit.py                 # prints, and writes bench/runs/
    python3 bench/audit.py cost            # only the first part

CPU per request at 64 connections with `audit.sync` off, os and disk: same binary, interleaved rounds, same core.
Then 20,000 pairs of requests: one about a suppressed person and one about an unknown person, in random order. The AUC is the
probability that a random request of the first kind is slower than a random one of the second kind. It should be 0.5. The same
for erased people, for people without a phone number and for people whose number has expired; three times with the lookup table in memory, and with
it in its file. Finally the cost of a million suppressions.
"""
import datetime
import json
import pathlib
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import stage

ROUNDS, SECONDS, PAIRS, RUNS = 48, 1, 20_000, 3
# Long enough for what has to be done before.
EXPIRES_AFTER = 120
MODES = ("off", "os", "disk")


def start(data, mode, place="memory"):
    port, admin = stage.free_port(), stage.free_port()
    return stage.Server(f"contactd, {mode}", port, [stage.BINARY, "serve", "--workers", "1", "--audit-sync", mode, "--data", data, "--listen",
                                                  f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}", "--config", stage.table_in(place)],
                        answers=(admin, place))


def cost(work, tokens):
    """Interleaved rounds of the same service with `audit.sync` off, os and disk."""
    data, requests = stage.contactd_data(1_000_000)[0], stage.request_file("contactd", 1_000_000, tokens)
    servers = {}
    try:
        for mode in MODES:
            copy = work / mode
            shutil.copytree(data, copy)
            servers[mode] = start(copy, mode)
            servers[mode].ready(requests.read_bytes().split(b"\n----\n")[0])
            stage.measure(servers[mode], requests, 1)
        rounds = []
        for number in range(ROUNDS):
            rounds.append({})
            for mode in random.Random(number).sample(MODES, len(MODES)):
                rounds[-1][mode] = stage.measure(servers[mode], requests, SECONDS)
                # Wait for pending syncs, so that they do not count in the next round.
                time.sleep(0.3)
            print(f"round {number + 1}: " + ", ".join(f"{mode} {rounds[-1][mode]['cpuMicros']:.2f} µs" for mode in MODES), flush=True)
    finally:
        for server in servers.values():
            server.stop()
    figures = {}
    for mode in MODES:
        ratios = [found[mode]["cpuMicros"] / found["off"]["cpuMicros"] for found in rounds]
        median = {name: round(statistics.median(found[mode][name] for found in rounds), 2) for name in rounds[0][mode]}
        figures[mode] = {**median, "ratio": {"median": round(statistics.median(ratios), 3), "min": round(min(ratios), 3), "max": round(max(ratios), 3)}}
    return {"rounds": rounds, **figures}


def auc(ones, others):
    """The probability that a random value of `ones` is larger than one of `others`. Ties count half."""
    ranked = sorted([(value, 0) for value in ones] + [(value, 1) for value in others])
    ranks, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        ranks += sum(1 for _, sort in ranked[at:end] if sort == 0) * (at + end + 1) / 2
        at = end
    return (ranks - len(ones) * (len(ones) + 1) / 2) / (len(ones) * len(others))


def told_apart(server, token, ones, others):
    """The AUC of the response times for two groups of people, requested in pairs on one connection."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(profile):
        body = json.dumps({"profileUrl": f"https://www.{profile}"}).encode()
        request = (f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body
        began = time.perf_counter_ns()
        connection.sendall(request)
        answer = connection.recv(65536)
        took = time.perf_counter_ns() - began
        assert answer.startswith(b"HTTP/1.1 404"), answer[:20]
        return took

    order, times = random.Random(3), ([], [])
    for number in range(PAIRS + 500):
        pair = [(0, ones[number % len(ones)]), (1, others[number % len(others)])]
        order.shuffle(pair)
        for sort, profile in pair:
            took = ask(profile)
            if number >= 500:
                times[sort].append(took)
    connection.close()
    return round(auc(*times), 4)


def indistinguishable(work, tokens):
    data = work / "apart"
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=EXPIRES_AFTER)
    soon = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
    shutil.copytree(stage.contactd_data(1_000_000)[0], data)
    rows = work / "emails.csv"
    # Slugs of the same length, so that only the kind of person differs.
    held = [person for person in map(stage.key, range(10_000)) if len(person) == len(stage.key(0))][:2_100]
    like = lambda name: [f"linkedin.com/in/{name}-{n:04}".ljust(len(held[0]), "x")[:len(held[0])] for n in range(2_000)]
    empty, unknown, expired = like("em"), like("no"), like("ex")
    rows.write_text("profileUrl,email,phone,expiresAt\n" + "".join(f"https://{person},e{n}@example.com,,\n" for n, person in enumerate(empty))
                    + "".join(f"https://{person},,{stage.phone(n)},{soon}\n" for n, person in enumerate(expired)))
    stage.sh(stage.BINARY, "import", rows, "--source", "apart", "--data", data, stdout=subprocess.DEVNULL)
    suppressed, erased = held[:2_000], held[2_000:]
    listed = work / "suppressed.txt"
    listed.write_text("".join(f"https://{person}\n" for person in suppressed))
    stage.sh(stage.BINARY, "suppress", "--list", listed, "--data", data, stderr=subprocess.DEVNULL)
    for person in erased:
        stage.sh(stage.BINARY, "erase", f"https://{person}", "--data", data, stderr=subprocess.DEVNULL)
    # Copy the files, so that each is written at once: how the file system lays out files written in pieces would affect the times.
    settled = work / "settled"
    shutil.copytree(data, settled)
    while datetime.datetime.now(datetime.UTC) <= ends:
        time.sleep(1)
    figures = {}
    for place in ("memory", "file"):
        server = start(settled, "os", place)
        try:
            while not server.has_its_table():
                time.sleep(0.1)
            runs = [{"suppressed, unknown": told_apart(server, tokens[0], suppressed, unknown),
                     "erased, unknown": told_apart(server, tokens[0], erased, unknown[:100]),
                     "without a number, unknown": told_apart(server, tokens[0], empty, unknown),
                     "expired, unknown": told_apart(server, tokens[0], expired, unknown),
                     "unknown, unknown": told_apart(server, tokens[0], unknown[1_000:], unknown[:1_000])} for _ in range(RUNS)]
        finally:
            server.stop()
        figures[place] = {pair: {"median": statistics.median(run[pair] for run in runs), "runs": [run[pair] for run in runs]} for pair in runs[0]}
    return figures


def million_suppressions(work, tokens):
    """A list of a million suppressions: how long it takes to apply, and what lookups cost with it."""
    data, requests = work / "million", stage.request_file("contactd", 1_000_000, tokens)
    shutil.copytree(stage.contactd_data(1_000_000)[0], data)
    listed = work / "million.txt"
    with open(listed, "w") as out:
        out.writelines(f"https://linkedin.com/in/opted-out-{n}\n" for n in range(1_000_000))
    small = start(stage.contactd_data(1_000_000)[0], "os")
    server = start(data, "os")
    try:
        for one in (small, server):
            one.ready(requests.read_bytes().split(b"\n----\n")[0])
        timed = lambda *arguments: (time.monotonic(), stage.sh(stage.BINARY, *arguments, "--data", data, stderr=subprocess.DEVNULL), time.monotonic())
        began, _, ended = timed("suppress", "--list", listed)
        figures = {"secondsToSuppressAMillion": round(ended - began, 1)}
        began, _, ended = timed("suppress", "https://linkedin.com/in/one-more")
        figures["secondsToSuppressOneMore"] = round(ended - began, 2)
        pairs = [(stage.measure(server, requests, SECONDS)["cpuMicros"], stage.measure(small, requests, SECONDS)["cpuMicros"]) for _ in range(4)]
        figures["cpuMicrosWithAMillion"] = round(statistics.median(with_list for with_list, _ in pairs), 2)
        figures["ratioToNone"] = round(statistics.median(with_list / without for with_list, without in pairs), 3)
        figures["memoryMiB"] = server.memory_mib()
        return figures
    finally:
        server.stop()
        small.stop()


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(())
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    _, tokens = stage.contactd_data(1_000_000)
    report = {"command": "python3 bench/audit.py", "commit": stage.commit()}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        parts = sys.argv[1:] or ["cost", "auc", "millionSuppressions"]
        for name, measure in (("cost", cost), ("auc", indistinguishable), ("millionSuppressions", million_suppressions)):
            if name not in parts:
                continue
            report[name] = measure(work, tokens)
            print(json.dumps({key: value for key, value in report[name].items() if key != "rounds"}, indent=1), flush=True)
    out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-audit.json"
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
