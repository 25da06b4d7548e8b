#!/usr/bin/env python3
"""Measures the CPU time per request of contactd, nginx, and common alternatives.

    python3 bench/run.py                                        # everything: 1 and 10 million profiles
    python3 bench/run.py --profiles 1000000 --load-only --no-write

Each server gets one core and one worker, and wrk gets the other core: 64 keep-alive connections, POST
with a token and a body, cycling through 20,000 profiles. Rounds are interleaved: each round measures
every server once, and ratios are computed within a round. CPU time is user + system time of the whole
process tree, divided by requests. nginx sends a constant answer, which shows what the machine can do.
The simple peers are measured with a million profiles. Then contactd alone: start time, memory, size on
disk, latency at half load and with a cold page cache (alone.py), and the micro-benchmarks of its parts.

Installs what it needs (Debian packages as root, PyPI and npm packages under target/bench) and
writes the table with its raw numbers to bench/runs/.
"""
import argparse
import datetime
import hashlib
import itertools
import json
import os
import pathlib
import platform
import random
import re
import shutil
import socket
import sqlite3
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
WORK = ROOT / "target/bench"
BINARY = ROOT / "target/release/contactd"
SERVER_CORE, LOAD_CORE = "0", "1"
CONNECTIONS = 64
CHOSEN = 20_000
TOKENS = 8


def sh(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def free_port(candidates=itertools.count(18_000)):
    """A port that is not in use, below the range of ephemeral ports."""
    for port in candidates:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def key(number):
    """The profile's key. Keys are scattered, so that consecutive numbers are not neighbours on disk."""
    return f"linkedin.com/in/bench-quell-{number * 2654435761 % 2**32:08x}"


def phone(number):
    return f"+1415555{100 + number % 100:04}"


def install(peers):
    packages = [package for command, package in [("nginx", "nginx-light"), ("wrk", "wrk")] if not shutil.which(command)]
    if packages:
        sh("apt-get", "update", "-qq")
        sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages, stdout=subprocess.DEVNULL)
    if "fastify" in peers and not (WORK / "fastify/node_modules/better-sqlite3/build").exists():
        shutil.copytree(BENCH / "peers/fastify", WORK / "fastify", dirs_exist_ok=True)
        # Build from source, with the headers that are installed with node.
        environment = os.environ | {"npm_config_nodedir": "/usr", "npm_config_build_from_source": "true"}
        sh("npm", "install", "--no-audit", "--no-fund", "--silent", cwd=WORK / "fastify", env=environment)


def venv():
    """A virtual environment with the PyPI packages. Installed again only when requirements.txt changes."""
    path, wanted = WORK / "venv", (BENCH / "requirements.txt").read_text()
    installed = path / "installed"
    if not installed.exists() or installed.read_text() != wanted:
        sh("python3", "-m", "venv", path)
        sh(path / "bin/pip", "install", "-q", "-r", BENCH / "requirements.txt")
        installed.write_text(wanted)
    return path


def contactd_data(profiles):
    """A data directory with this many invented people, and the tokens for the load."""
    data = WORK / f"contactd-{profiles}"
    tokens_file = data / "tokens"
    if not tokens_file.exists():
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(parents=True)
        people = data / "people.csv"
        sh(venv() / "bin/python", BENCH / "people.py", profiles, people)
        began = time.monotonic()
        sh(BINARY, "import", people, "--source", "bench", "--data", data, stdout=subprocess.DEVNULL)
        print(f"imported {profiles} profiles in {time.monotonic() - began:.0f} s")
        people.unlink()
        made = [subprocess.run([BINARY, "token", "create", "bench", "--data", data], check=True, capture_output=True, text=True).stdout
                for _ in range(TOKENS)]
        tokens_file.write_text("".join(made))
    # Delete the journal of earlier loads, so that it is not indexed or compressed during this one.
    shutil.rmtree(data / "audit", ignore_errors=True)
    for index in data.glob("audit-index.db*"):
        index.unlink()
    return data, tokens_file.read_text().split()


def peer_db(tokens):
    """The same first million people in a plain table, for the simple peers."""
    path = WORK / "peer.db"
    if not path.exists():
        db = sqlite3.connect(path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE contacts (profile TEXT PRIMARY KEY, phone TEXT, email TEXT)")
        db.executemany("INSERT INTO contacts VALUES (?, ?, ?)",
                       ((key(n), phone(n), f"p{n}@example.com") for n in range(1_000_000)))
        db.execute("CREATE TABLE tokens (hash TEXT PRIMARY KEY)")
        db.commit()
        db.close()
    db = sqlite3.connect(path)
    db.execute("DELETE FROM tokens")
    db.executemany("INSERT INTO tokens VALUES (?)", [(hashlib.sha256(token.encode()).hexdigest(),) for token in tokens])
    db.commit()
    db.close()
    return path


def request_file(name, profiles, tokens):
    """Writes the requests that wrk sends."""
    chosen = random.Random(7)
    path = WORK / f"requests-{name}-{profiles}"
    with open(path, "w", newline="") as out:
        for n in range(CHOSEN):
            number = chosen.randrange(profiles)
            if name == "roapi":
                out.write(f"GET /api/kv/people/{key(number).removeprefix('linkedin.com/in/')} HTTP/1.1\r\nHost: bench\r\n\r\n\n----\n")
                continue
            body = json.dumps({"profileUrl": f"https://www.{key(number)}"}, separators=(",", ":"))
            out.write(f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {tokens[n % len(tokens)]}\r\n"
                      f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}\n----\n")
    return path


class Server:
    """A running server, pinned to one core."""

    def __init__(self, name, port, command, **options):
        self.name, self.port = name, port
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *map(str, command)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)

    def tree(self):
        pids, found = [self.process.pid], []
        while pids:
            pid = pids.pop()
            found.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                pids += map(int, task.read_text().split())
        return found

    def cpu_seconds(self):
        ticks = 0
        for pid in self.tree():
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        total = 0
        for pid in self.tree():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            total += int(re.search(r"RssAnon:\s+(\d+)", status).group(1))
        return total // 1024

    def ready(self, first_request):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    connection.sendall(first_request)
                    if connection.recv(65536).startswith(b"HTTP/1.1 200"):
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"{self.name} does not respond")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def start(name, profiles, data, tokens):
    port, loopback = free_port(), "127.0.0.1"
    if name == "contactd":
        return Server(name, port, [BINARY, "serve", "--workers", "1", "--data", data, "--listen", f"{loopback}:{port}",
                                   "--admin-listen", f"{loopback}:{free_port()}"])
    if name == "nginx":
        folder = WORK / "nginx"
        folder.mkdir(exist_ok=True)
        answer = json.dumps({"phoneNumber": phone(1), "profileUrl": f"https://{key(1)}"}, separators=(",", ":"))
        (folder / "nginx.conf").write_text(f"""
            daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null;
            events {{ worker_connections 1024; }}
            http {{
                access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
                uwsgi_temp_path {folder}; scgi_temp_path {folder}; keepalive_requests 1000000000;
                server {{ listen {loopback}:{port}; location / {{ default_type application/json; return 200 '{answer}'; }} }}
            }}""")
        return Server(name, port, ["nginx", "-p", folder, "-c", folder / "nginx.conf"])
    environment = os.environ | {"PEER_DB": str(peer_db(tokens)), "PORT": str(port)}
    if name == "fastapi":
        return Server(name, port, [venv() / "bin/uvicorn", "fastapi_app:app", "--port", port, "--log-level", "error",
                                   "--no-access-log"], cwd=BENCH / "peers", env=environment)
    if name == "fastify":
        return Server(name, port, ["node", "server.mjs"], cwd=WORK / "fastify", env=environment)
    if name == "roapi":
        people = WORK / "roapi.csv"
        if not people.exists():
            with open(people, "w") as out:
                out.write("slug,phone\n")
                out.writelines(f"{key(n).removeprefix('linkedin.com/in/')},'{phone(n)}'\n" for n in range(1_000_000))
        config = WORK / "roapi.yml"
        config.write_text(f"addr:\n  http: {loopback}:{port}\n  postgres: {loopback}:{free_port()}\ntables: []\nkvstores:\n"
                          f"  - name: people\n    uri: {people}\n    key: slug\n    value: phone\n")
        return Server(name, port, [venv() / "bin/roapi", "-c", config], cwd=WORK,
                      env=os.environ | {"RUST_LOG": "warn"})
    raise SystemExit(f"unknown server {name}")


def wrk(server, script, connections, seconds, *arguments):
    """Runs a load and returns the counts of its script. Fails if any answer is an error."""
    out = subprocess.run(["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", BENCH / script,
                          f"http://127.0.0.1:{server.port}", "--", *map(str, arguments)],
                         check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out[out.index("RESULT"):])}
    if wrong := sum(found[name] for name in ("connect", "read", "write", "timeout", "bad")):
        raise SystemExit(f"{server.name}: {wrong} wrong answers\n{out}")
    return found


def measure(server, requests, seconds):
    before = server.cpu_seconds()
    found = wrk(server, "load.lua", CONNECTIONS, seconds, requests)
    cpu, count = server.cpu_seconds() - before, found["requests"]
    return {"cpuMicros": cpu / count * 1e6, "requestsPerSecond": count / found["micros"] * 1e6,
            "p50Micros": found["p50"], "p99Micros": found["p99"], "requests": count}


def rounds_of(names, profiles, rounds, seconds, data, tokens):
    """Runs interleaved rounds of all servers. Returns the results, and the memory of each server at the end."""
    servers, requests = [], {}
    try:
        for name in names:
            requests[name] = request_file(name, profiles if name in ("contactd", "nginx") else 1_000_000, tokens)
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


def micro():
    """Runs the micro-benchmarks. Returns the median by name, as printed."""
    out = subprocess.run(["cargo", "bench", "-q", "-p", "contactd-profile", "-p", "contactd-core", "-p", "contactd-store-sqlite"],
                         cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found, group = {}, ""
    for line in out.splitlines():
        if name := re.match(r"[├╰]─ (\S+)", line):
            group = name.group(1)
        if figures := re.match(r"(   |│  )?[├╰]─ (\S.*?)\s+[\d.]+ \S+\s+│ [\d.]+ \S+\s+│ ([\d.]+ \S+)", line):
            found[f"{group} {figures.group(2)}" if figures.group(1) else group] = figures.group(3)
    return found


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--profiles", type=int, nargs="+", default=[1_000_000, 10_000_000])
    arguments.add_argument("--rounds", type=int, default=6)
    arguments.add_argument("--seconds", type=int, default=5)
    arguments.add_argument("--peers", nargs="*", default=["roapi", "fastify", "fastapi"], help="servers to measure besides nginx, with a million profiles")
    arguments.add_argument("--load-only", action="store_true", help="only the comparison under load")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    sh("cargo", "build", "--release", "-q", cwd=ROOT)
    install(args.peers)
    for profiles in args.profiles:
        print(f"{profiles:,} profiles", flush=True)
        data, tokens = contactd_data(profiles)
        names = ["contactd", "nginx", *(args.peers if profiles == 1_000_000 else [])]
        results, memory = rounds_of(names, profiles, args.rounds, args.seconds, data, tokens)
        table, text = summary(results, memory)
        report = {"command": "python3 bench/run.py", "rounds": len(results), "secondsPerRound": args.seconds, "commit": commit(),
                  "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}"}
        if not args.load_only:
            import alone
            report["alone"] = alone.measure(profiles, data, tokens, table["contactd"]["requestsPerSecond"])
            if profiles == args.profiles[0]:
                report["micro"] = micro()
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
                                               f"({cold['readsFromDiskPerLookup']} reads from disk per lookup, one client)")]
    rows += [(f"`{name}`", median) for name, median in report.get("micro", {}).items()]
    return "\n".join(["| contactd alone | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows)])


if __name__ == "__main__":
    main()
