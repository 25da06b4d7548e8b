"""What the benchmarks share: the servers under test, their data, requests for them, and load.

Not a benchmark itself. Ports, cores and directories are chosen here, once.
"""
import contextlib
import functools
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BENCH = ROOT / "bench"
WORK = ROOT / "target/bench"
BINARY = ROOT / "target/release/contactd"
SERVER_CORE, LOAD_CORE = "0", "1"
CONNECTIONS = 64
CHOSEN = 20_000
TOKENS = 8
BATCH = 100
# More batches at once than fit into what a worker lets wait are refused.
BATCH_CONNECTIONS = 8


def sh(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, **options)


def may_mount():
    """Whether this may mount file systems: root may, but not in most containers."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


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


@functools.cache
def tool(name):
    """A program of crates/bench-tools, built when it is first needed."""
    sh("cargo", "build", "--release", "-q", "-p", "contactd-bench-tools", "--bin", name, cwd=ROOT)
    return ROOT / "target/release" / name


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
        made = [subprocess.run([BINARY, "token", "create", f"bench-{number}", "--data", data], check=True, capture_output=True, text=True).stdout
                for number in range(TOKENS)]
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
        if name == "contactd-batch":
            for n in range(CHOSEN // BATCH):
                lookups = [{"operation": "fetchPhoneNumber", "profileUrl": f"https://www.{key(chosen.randrange(profiles))}"} for _ in range(BATCH)]
                body = json.dumps({"lookups": lookups}, separators=(",", ":"))
                out.write(f"POST /api/batch HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {tokens[n % len(tokens)]}\r\n"
                          f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}\n----\n")
            return path
        for n in range(CHOSEN):
            number = chosen.randrange(profiles)
            if name == "roapi":
                out.write(f"GET /api/kv/people/{key(number).removeprefix('linkedin.com/in/')} HTTP/1.1\r\nHost: bench\r\n\r\n\n----\n")
                continue
            body = json.dumps({"profileUrl": f"https://www.{key(number)}"}, separators=(",", ":"))
            out.write(f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {tokens[n % len(tokens)]}\r\n"
                      f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}\n----\n")
    return path


def is_answered_from(admin, place):
    """Whether lookups are answered from this place: memory, file or store."""
    with urllib.request.urlopen(f"http://127.0.0.1:{admin}/metrics") as metrics:
        return f'contactd_lookups_answered_from{{place="{place}"}} 1' in metrics.read().decode()


class Server:
    """A running server, pinned to one core."""

    def __init__(self, name, port, command, answers=None, **options):
        """answers: the admin port of contactd, and where its lookups have to be answered from before it is ready."""
        self.name, self.port, self.answers = name, port, answers
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
            # It may have ended meanwhile.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_mib(self):
        total = 0
        for pid in self.tree():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            total += int(re.search(r"RssAnon:\s+(\d+)", status).group(1))
        return total // 1024

    def ready(self, first_request, wrap=lambda connection: connection):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with wrap(socket.create_connection(("127.0.0.1", self.port), timeout=1)) as connection:
                    connection.sendall(first_request)
                    if connection.recv(65536).startswith(b"HTTP/1.1 200") and self.has_its_table():
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"{self.name} does not respond")

    def has_its_table(self):
        return not self.answers or is_answered_from(*self.answers)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def start(name, profiles, data, tokens, pair=None):
    """A server; with TLS if there is a pair of a certificate and a key, for contactd and nginx."""
    port, loopback = free_port(), "127.0.0.1"
    if name in ("contactd", "contactd-batch", "contactd-file"):
        tls = ["--tls-cert", pair[0], "--tls-key", pair[1]] if pair else []
        place = "file" if name == "contactd-file" else "memory"
        if name != "contactd":
            # The same store once more: each server has one of its own.
            copy = WORK / f"{pathlib.Path(data).name}-{name.removeprefix('contactd-')}"
            shutil.rmtree(copy, ignore_errors=True)
            data = shutil.copytree(data, copy, ignore=shutil.ignore_patterns("control.sock"))
        admin = free_port()
        return Server(name, port, [BINARY, "serve", "--workers", "1", "--data", data, "--listen", f"{loopback}:{port}", "--config", table_in(place),
                                   "--admin-listen", f"{loopback}:{admin}", *tls], answers=None if pair else (admin, place))
    if name == "nginx":
        folder = WORK / ("nginx-tls" if pair else "nginx")
        folder.mkdir(exist_ok=True)
        listen_with = f" ssl; ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]}; ssl_session_tickets off" if pair else ""
        answer = json.dumps({"phoneNumber": phone(1), "profileUrl": f"https://{key(1)}"}, separators=(",", ":"))
        (folder / "nginx.conf").write_text(f"""
            daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null;
            events {{ worker_connections 1024; }}
            http {{
                access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
                uwsgi_temp_path {folder}; scgi_temp_path {folder}; keepalive_requests 1000000000;
                server {{ listen {loopback}:{port}{listen_with}; location / {{ default_type application/json; return 200 '{answer}'; }} }}
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


def table_in(place):
    """A configuration file, for a lookup table in memory or in its file."""
    path = WORK / f"table-in-{place}.toml"
    # Nothing is swept meanwhile, so that what has expired stays as it is.
    path.write_text(("[serve]\ntable_bytes = 0\n" if place == "file" else "") + '[retention]\nsweep_every = "1d"\n')
    return path


def wrk(server, script, connections, seconds, *arguments, scheme="http"):
    """Runs a load and returns the counts of its script. Fails if any answer is an error."""
    out = subprocess.run(["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", BENCH / script,
                          f"{scheme}://127.0.0.1:{server.port}", "--", *map(str, arguments)],
                         check=True, capture_output=True, text=True).stdout
    found = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out[out.index("RESULT"):])}
    if wrong := sum(found[name] for name in ("connect", "read", "write", "timeout", "bad")):
        raise SystemExit(f"{server.name}: {wrong} wrong answers\n{out}")
    return found


def measure(server, requests, seconds, scheme="http"):
    before, is_batch = server.cpu_seconds(), server.name == "contactd-batch"
    found = wrk(server, "load.lua", BATCH_CONNECTIONS if is_batch else CONNECTIONS, seconds, requests, scheme=scheme)
    # A batch counts as its lookups.
    cpu, count = server.cpu_seconds() - before, found["requests"] * (BATCH if is_batch else 1)
    return {"cpuMicros": cpu / count * 1e6, "requestsPerSecond": count / found["micros"] * 1e6,
            "p50Micros": found["p50"], "p99Micros": found["p99"], "requests": count}


def commit():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
