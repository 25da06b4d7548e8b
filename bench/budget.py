#!/usr/bin/env python3
"""Counts the cost of one lookup: instructions, system calls, allocations.

    python3 bench/budget.py                      # prints, and writes bench/runs/
    python3 bench/budget.py --no-write --functions 40

Builds the release binary with line tables, starts it with a million profiles and sends lookups over
64 keep-alive connections, one request at a time on each: eight of them at once while callgrind counts instructions and
allocations, and all of them at once, as in run.py, while strace counts system calls. A lookup is one read and one write; looking for
requests is one call for all that have arrived: with eight at once at least 0.125 of a call, with all at least 0.016. The counts do not depend on how busy the machine is, so use
them to judge a change. They do not include the kernel or the effects of caches.

Valgrind runs SHA-256 without the processor's SHA instructions, so hashing is counted separately. The audit is off: its threads
run independently of single lookups. bench/audit.py measures its cost.
"""
import argparse
import collections
import datetime
import json
import re
import shutil
import socket
import subprocess
import time

import stage

BINARY = stage.ROOT / "target/budget/release/contactd"
# How many lookups are sent at once. Under valgrind a lookup takes so long that more would be refused.
UNDER_VALGRIND, UNDER_STRACE = 8, stage.CONNECTIONS

# Assigns an instruction to a part by its source file; the first match counts. Code of Rust's standard library belongs to
# the function that it was inlined into.
PARTS = [
    ("hashing: SHA-256 (without SHA instructions), BLAKE3", r"/sha2-|/digest-|/block-buffer-|/cpufeatures-|blake3", r"sha2::|digest::|blake3"),
    ("SQLite", r"sqlite3\.c", None),
    ("rusqlite", r"/rusqlite-|/hashlink-|/foldhash-|/hashbrown-|/libsqlite3-sys-", r"rusqlite::|foldhash::|hashlink::"),
    ("HTTP grammar: httparse, http", r"/http-1|/httparse-|/httpdate-", r"httparse::|http::"),
    ("event loop: tokio, mio", r"/tokio-|/mio-|/slab-", r"tokio::|mio::"),
    ("JSON: serde", r"/serde|/itoa-|/ryu-|/zmij-", r"serde"),
    ("buffers: bytes, memchr", r"/bytes-|/memchr-|/smallvec-", r"bytes::|memchr::"),
    ("allocator: mimalloc", r"mimalloc", r"^_?mi_"),
    ("contactd: profile URLs", r"crates/profile/", r"contactd_profile::"),
    ("contactd: tokens, limits, suppression, lookup", r"crates/core/", r"contactd_core::"),
    ("contactd: store", r"crates/store-sqlite/", r"contactd_store_sqlite::"),
    ("contactd: HTTP handling", r"crates/(server|contract|contactd)/", r"contactd_(server|contract)::"),
    ("Rust's library", r"/library/(core|alloc|std)/|/rustc/", r""),
    ("C library", r"", None),
]
RUST = "Rust's library"
ALLOCATES = re.compile(r"^(mi_(malloc|zalloc|realloc)\w*|malloc|calloc|realloc)$")


def client(port, requests, rounds, together):
    """Sends one request on each connection, this many rounds. Every lookup must be a hit."""
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(stage.CONNECTIONS)]
    at = 0
    yield
    for _ in range(rounds):
        for first in range(0, len(connections), together):
            some = connections[first:first + together]
            for connection in some:
                connection.sendall(requests[at % len(requests)])
                at += 1
            for connection in some:
                if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
                    raise SystemExit("a lookup was not answered with 200")
    yield
    for connection in connections:
        connection.close()


def serve(command, port, admin, data):
    return subprocess.Popen([*command, BINARY, "serve", "--workers", "1", "--audit-sync", "off", "--data", data, "--listen", f"127.0.0.1:{port}",
                             "--admin-listen", f"127.0.0.1:{admin}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(port, admin, request):
    """Waits until lookups are answered from memory: the table is read into it after the first answers."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(request)
                if connection.recv(65536).startswith(b"HTTP/1.1 200") and stage.is_answered_from(admin, "memory"):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("the service does not respond")


def load(port, requests, rounds, together):
    """Returns what closes the connections."""
    steps = client(port, requests, rounds, together)
    next(steps)
    next(steps)
    return steps


def callgrind(data, requests, rounds):
    """Instructions by source file and function, and calls by function, including the allocator's."""
    out, port, admin = stage.WORK / "callgrind.out", stage.free_port(), stage.free_port()
    for old in stage.WORK.glob("callgrind.out*"):
        old.unlink()
    server = serve(["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"], port, admin, data)
    try:
        wait_for(port, admin, requests[0])
        held = load(port, requests, 20, UNDER_VALGRIND)
        control("-i", "on", server.pid)
        held = load(port, requests, rounds, UNDER_VALGRIND)
        control("-i", "off", server.pid)
        del held
    finally:
        server.terminate()
        server.wait()
    return read_callgrind(out)


def control(*arguments):
    stage.sh("callgrind_control", *arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read_callgrind(path):
    """The self cost by (file, function), and how often each function was called."""
    names = {}

    def name(text):
        number, _, given = text.partition(" ")
        return names.setdefault((kind, number), given) if number.startswith("(") else text

    cost, calls = collections.Counter(), collections.Counter()
    file = function = callee = ""
    called = False
    for line in path.read_text(errors="replace").splitlines():
        key, separator, rest = line.partition("=")
        if separator and key in ("fl", "fi", "fe", "fn", "cfi", "cfl", "cfn", "ob", "cob"):
            kind = {"f": "file", "o": "object"}[key.lstrip("c")[0]] if not key.endswith("fn") else "function"
            value = name(rest)
            if key in ("fl", "fi", "fe"):
                file = value
            elif key == "fn":
                function = value
            elif key == "cfn":
                callee = value
        elif key == "calls":
            calls[callee] += int(rest.split()[0])
            called = True
        elif line and line[0] in "0123456789+-*":
            if not called:
                cost[file, function] += int(line.split()[1])
            called = False
    return cost, calls


def part_of(file, function):
    if function.startswith(("mi_", "_mi_")):
        return "allocator: mimalloc"
    part = next(part for part, pattern, _ in PARTS if re.search(pattern, file))
    if part == RUST:
        part = next(part for part, _, pattern in PARTS if pattern is not None and re.search(pattern, function))
    return part


def system_calls(data, requests, rounds):
    """System calls of the whole process, by name."""
    out, port, admin = stage.WORK / "strace.out", stage.free_port(), stage.free_port()
    server = serve([], port, admin, data)
    try:
        wait_for(port, admin, requests[0])
        steps = client(port, requests, rounds, UNDER_STRACE)
        next(steps)
        # Connecting is not part of a lookup.
        time.sleep(0.5)
        tracer = subprocess.Popen(["strace", "-f", "-c", "-o", out, "-p", str(server.pid)], stderr=subprocess.DEVNULL)
        time.sleep(1)
        next(steps)
        tracer.terminate()
        tracer.wait()
        del steps
    finally:
        server.terminate()
        server.wait()
    found = {}
    for line in out.read_text().splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1] != "total":
            found[fields[-1]] = int(fields[3])
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=300, help="requests on each of the 64 connections")
    arguments.add_argument("--functions", type=int, default=0, help="also show this many functions")
    arguments.add_argument("--no-build", action="store_true", help="use the binary of the last run")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    missing = [package for command, package in [("valgrind", "valgrind"), ("strace", "strace")] if not shutil.which(command)]
    if missing:
        stage.sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, stdout=subprocess.DEVNULL)
    if not args.no_build:
        stage.sh("cargo", "build", "--release", "-q", "--config", 'profile.release.debug="line-tables-only"', "--config", "profile.release.strip=false", "--target-dir", stage.ROOT / "target/budget", cwd=stage.ROOT)
    stage.BINARY = BINARY
    data, tokens = stage.contactd_data(1_000_000)
    requests = stage.request_file("contactd", 1_000_000, tokens).read_bytes().split(b"\n----\n")[:-1]

    cost, calls = callgrind(data, requests, args.rounds)
    count = args.rounds * stage.CONNECTIONS
    by_part = collections.Counter()
    for (file, function), instructions in cost.items():
        by_part[part_of(file, function)] += instructions / count
    total = sum(by_part.values())
    hashing = by_part[PARTS[0][0]]
    allocations = sum(times for function, times in calls.items() if ALLOCATES.match(function)) / count
    syscalls = {name: times / count for name, times in system_calls(data, requests, args.rounds).items()}

    lines = [f"{total - hashing:,.0f} instructions per lookup, and {hashing:,.0f} of hashing, with SHA-256 in software; "
             f"{allocations:.1f} allocations; {sum(syscalls.values()):.2f} system calls.", "",
             "| part | instructions |", "|---|---|"]
    lines += [f"| {part} | {instructions:,.0f} |" for part, instructions in by_part.most_common()]
    lines += ["", "| system call | per lookup |", "|---|---|"]
    lines += [f"| {name} | {times:.3f} |" for name, times in sorted(syscalls.items(), key=lambda entry: -entry[1]) if times >= 0.0005]
    text = "\n".join(lines)
    print(text)
    if args.functions:
        by_function = collections.Counter()
        for (_, function), instructions in cost.items():
            by_function[function] += instructions / count
        for function, instructions in by_function.most_common(args.functions):
            print(f"{instructions:8,.0f} {calls[function] / count:6.1f}x {function[:150]}")
    if args.no_write:
        return
    out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-budget"
    out.with_suffix(".json").write_text(json.dumps({
        "command": f"python3 bench/budget.py --rounds {args.rounds}", "commit": stage.commit(), "requests": count,
        "instructions": round(total - hashing), "instructionsOfHashing": round(hashing), "allocations": allocations,
        "systemCalls": syscalls, "parts": {part: round(value) for part, value in by_part.most_common()}}, indent=1) + "\n")
    out.with_suffix(".md").write_text(f"1,000,000 profiles, {count:,} lookups, commit {stage.commit()}.\n\n{text}\n")


if __name__ == "__main__":
    main()
