#!/usr/bin/env python3
"""Checks and measures a cluster: several nodes on one PostgreSQL, all on this machine.

    python3 bench/cluster.py                       # everything; builds the release binary, prints, and writes bench/runs/
    python3 bench/cluster.py opt-outs kills        # only these parts, of: opt-outs, kills, cost, balanced, applying, scale, shipping
    python3 bench/cluster.py --quick               # small, and writes nothing
    python3 bench/cluster.py --binary PATH         # a binary that is built already

opt-outs: three nodes. After `suppress` has returned, no lookup that starts on another node discloses the person: 10,000 lookups with one node's
connection to the database slowed, 200 with that node paused (SIGSTOP) and 200 with it cut off from the database, with a lease of two seconds.
kills: a node is killed (SIGKILL) at 100 random moments while it follows imports, erasures, opt-outs and undone imports; afterwards its copy equals the
database. Then the database is restored to an earlier point: the nodes notice, answer 503, take a new snapshot, and equal it.
cost: CPU per lookup of a node, alone and with three registered, beside the embedded store in the same run.
balanced: what a lookup through HAProxy costs one node, and three that share one core; and what the database does at several rates of lookups.
applying: the p99 of a client while a node applies an import of a million rows, beside the same when it is quiet.
scale: 10 million profiles. Import, beside the embedded import and beside a bare COPY of the same rows into a table with the same key, and into one with all
indexes of the table, in the same server; how long a new node takes until it is ready; how long a single change takes to reach every node.
shipping: a node is killed (SIGKILL) at 50 random moments under lookups while it ships its journal; afterwards the database has every line of its files once, and
verifies without them.
"""
import argparse
import atexit
import contextlib
import datetime
import hashlib
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import disclosure
import postgres
import stage

STARTED = []
PARTS = ("opt-outs", "kills", "cost", "balanced", "applying", "scale", "shipping")
LEASE = 2
# Lookups per second of each node behind HAProxy.
EACH = 2_000


class Relay(threading.Thread):
    """Stands between a node and the database. It can be slow, or silent."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target, self.delay, self.is_cut = port, 0, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        while self.is_cut:
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.target))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                while self.is_cut:
                    time.sleep(0.01)
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Node:
    def __init__(self, work, name, url, keys=None, lease=LEASE, core=None):
        self.work, self.name, self.url, self.core = work, name, url, core
        self.data, self.config, self.process = work / name, work / f"{name}.toml", None
        self.config.write_text(f'[cluster]\nlease = "{lease}s"\nname = "{name}"\n[retention]\nsweep_every = "1h"\n')
        if keys and not (self.data / "keys").exists():
            self.data.mkdir(mode=0o700, exist_ok=True)
            shutil.copytree(keys, self.data / "keys")
        self.port, self.admin = stage.free_port(), stage.free_port()

    def start(self, wait=True):
        core = ["taskset", "-c", self.core] if self.core else []
        self.process = subprocess.Popen([str(part) for part in (*core, stage.BINARY, "serve", "--workers", 1, "--data", self.data, "--store", self.url,
                                         "--config", self.config, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.admin}")],
                                        stdout=subprocess.DEVNULL, stderr=open(self.work / f"{self.name}.log", "a"))
        STARTED.append(self.process)
        if wait:
            self.wait()
        return self

    def wait(self, seconds=600):
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{self.name} is not ready; see {self.work}/{self.name}.log")
            time.sleep(0.02)

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, token, person, connection=None):
        """The status of a lookup."""
        connection = connection or self.connect()
        connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": disclosure.url(person)}),
                           {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def verify(self):
        """Whether the copy equals the database."""
        done = subprocess.run([str(part) for part in (stage.BINARY, "node", "verify", "--data", self.data, "--store", self.url)],
                              capture_output=True, text=True)
        return done.returncode == 0, (done.stdout + done.stderr).strip()


class Cluster:
    """A database with people, and nodes."""

    def __init__(self, work, server, people, lease=LEASE):
        self.work, self.server, self.lease = work, server, lease
        self.url = server.create()
        self.home = work / "home"
        self.command("import", "-", "--source", "bench", input=disclosure.rows(people))
        self.token = self.command("token", "create", "bench").strip()
        self.nodes = []

    def command(self, *arguments, **options):
        return subprocess.run([str(part) for part in (stage.BINARY, *arguments, "--data", self.home, "--store", self.url)], check=True,
                              capture_output=True, text=True, **options).stdout

    def node(self, name, url=None, core=None):
        node = Node(self.work, name, url or self.url, self.home / "keys", self.lease, core)
        self.nodes.append(node)
        return node

    def stop(self):
        for node in self.nodes:
            node.stop()


def opt_outs(work, options):
    people = 3_000
    slowed, paused = (200, 40) if options.quick else (10_000, 200)
    with postgres.running(work / "postgres") as server:
        cluster = Cluster(work, server, people)
        relay = Relay(server.port)
        a, b, c = cluster.node("a").start(), cluster.node("b", server.url(port=relay.port)).start(), cluster.node("c").start()
        numbers = iter(random.Random(5).sample(range(people), people))
        result = {}

        def tries(name, count, each, before, after):
            """Opts people out, and asks the other nodes from the moment at which the command has returned."""
            statuses, seconds = {}, []
            for _ in range(count // each):
                person = next(numbers)
                assert b.ask(cluster.token, person) == 200 and c.ask(cluster.token, person) == 200
                before()
                began = time.monotonic()
                cluster.command("suppress", disclosure.url(person))
                seconds.append(time.monotonic() - began)
                # Sent now, answered when the node can.
                asked = [(node, node.connect()) for node in (b, c) for _ in range(each // 2)]
                for _, connection in asked:
                    connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": disclosure.url(person)}),
                                       {"Authorization": f"Bearer {cluster.token}", "Content-Type": "application/json"})
                after()
                for node, connection in asked:
                    answer = connection.getresponse()
                    answer.read()
                    statuses[answer.status] = statuses.get(answer.status, 0) + 1
                    connection.close()
                b.wait()
            result[name] = {"lookups": sum(statuses.values()), "statuses": statuses, "disclosed": statuses.get(200, 0),
                            "commandSeconds": {"p50": statistics.median(seconds), "max": max(seconds)}}
            print(name, json.dumps(result[name]), flush=True)

        nothing = lambda: None
        relay.delay = 0.02
        tries("slowed", slowed, 20, nothing, nothing)
        relay.delay = 0

        def resume():
            time.sleep(0.2)
            b.process.send_signal(signal.SIGCONT)

        tries("paused", paused, 10, lambda: b.process.send_signal(signal.SIGSTOP), resume)

        def cut():
            relay.is_cut = True

        def join():
            time.sleep(0.2)
            relay.is_cut = False

        tries("cutOff", paused, 10, cut, join)
        cluster.stop()
    result["isNothingDisclosed"] = all(part["disclosed"] == 0 for part in result.values())
    return result


def kills(work, options):
    count, people = (6, 2_000) if options.quick else (100, 20_000)
    chosen = random.Random(11)
    with postgres.running(work / "postgres") as server:
        cluster = Cluster(work, server, people)
        cluster.node("a").start()
        b = cluster.node("b").start()
        is_over, done = threading.Event(), {"imports": 0, "undone": 0, "erased": 0, "optedOut": 0, "failed": []}

        def change():
            number = 0
            while not is_over.is_set():
                number += 1
                try:
                    first = chosen.randrange(people)
                    rows = "profileUrl,phone\n" + "".join(
                        f"{disclosure.url(n % people)},+1415555{100 + (n + number) % 100:04}\n" for n in range(first, first + 4_000))
                    cluster.command("import", "-", "--source", f"s{number % 3}", input=rows)
                    done["imports"] += 1
                    if number % 3 == 0:
                        newest = json.loads(cluster.command("imports", "--json"))[-1]["id"]
                        cluster.command("imports", "undo", newest)
                        done["undone"] += 1
                    if number % 2 == 0:
                        cluster.command("suppress", disclosure.url(chosen.randrange(people)))
                        done["optedOut"] += 1
                    # An erasure waits for every node, so it fails while one is killed: it removes all the same.
                    erased = subprocess.run([str(part) for part in (stage.BINARY, "erase", disclosure.url(chosen.randrange(people)), "--data", cluster.home,
                                                                    "--store", cluster.url)], capture_output=True, text=True)
                    done["erased"] += 1
                    if erased.returncode not in (0, 1):
                        done["failed"].append(erased.stderr)
                except subprocess.CalledProcessError as error:
                    done["failed"].append(error.stderr)

        changing = threading.Thread(target=change)
        changing.start()
        different = []
        for number in range(count):
            time.sleep(chosen.uniform(0.02, 1.2))
            b.kill()
            b.start(wait=chosen.random() < 0.5)
            if (number + 1) % 20 == 0:
                b.wait()
                is_same, text = b.verify()
                if not is_same:
                    different.append(text)
                print(f"{number + 1} kills, {done['imports']} imports, {done['erased']} erased, {len(different)} differences", flush=True)
        is_over.set()
        changing.join()
        b.wait()
        is_same, text = b.verify()
        if not is_same:
            different.append(text)
        result = {"kills": count, **done, "differences": different, "last": text}
        print(json.dumps(result), flush=True)
        result["restored"] = restored(cluster, server, b, work)
        cluster.stop()
    result["areAllEqual"] = not different and not done["failed"] and result["restored"]["isEqual"]
    return result


def restored(cluster, server, node, work):
    """The database goes back to an earlier point."""
    server.copy_to(work / "postgres/earlier")
    node.wait()
    person = 7
    for number in range(5):
        cluster.command("import", "-", "--source", "later", input=f"profileUrl,email\n{disclosure.url(person)},later{number}@example.com\n")
    node.wait()
    server.restore_from(work / "postgres/earlier")
    was_unready, deadline = False, time.monotonic() + 120
    while time.monotonic() < deadline:
        was_unready |= not node.is_ready()
        if was_unready and node.is_ready():
            break
        time.sleep(0.01)
    is_same, text = node.verify()
    result = {"answered503": was_unready, "isEqual": is_same and was_unready, "verify": text}
    print("restored", json.dumps(result), flush=True)
    return result


def cost(work, options):
    profiles, rounds, seconds = (20_000, 2, 2) if options.quick else (1_000_000, 12, 4)
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install([])
    data, tokens = stage.contactd_data(profiles)
    requests = stage.request_file("contactd", profiles, tokens)
    first = requests.read_bytes().split(b"\n----\n")[0]
    with postgres.running(work / "postgres", core=stage.LOAD_CORE) as server:
        url = server.create()
        copied = work / "moved"
        shutil.copytree(data, copied)
        stage.sh(stage.BINARY, "migrate", "--data", copied, "--to", url, stdout=subprocess.DEVNULL)
        embedded = stage.Server("contactd", port := stage.free_port(), [stage.BINARY, "serve", "--workers", "1", "--data", data, "--listen", f"127.0.0.1:{port}",
                                                                        "--admin-listen", f"127.0.0.1:{stage.free_port()}"])
        node = Node(work, "a", url, copied / "keys", 60, stage.SERVER_CORE).start()
        served = stage.Server.__new__(stage.Server)
        served.name, served.port, served.process = "node", node.port, node.process
        embedded.ready(first)
        served.ready(first)
        one = paired(embedded, served, requests, rounds, seconds)
        others = [Node(work, name, url, copied / "keys", 60, stage.LOAD_CORE).start() for name in ("b", "c")]
        three = paired(embedded, served, requests, rounds, seconds)
        embedded.stop()
        for other in others:
            other.stop()
        result = {"profiles": profiles, "oneNode": one, "threeNodes": three,
                  "isCpuWithin": one["ratio"] <= 1.1 and three["ratio"] <= 1.1}
        print(json.dumps(result), flush=True)
        node.stop()
    return result


def paired(embedded, node, requests, rounds, seconds):
    """CPU per request of both, in rounds one after the other."""
    rows = []
    for _ in range(rounds):
        rows.append([stage.measure(server, requests, seconds)["cpuMicros"] for server in (embedded, node)])
    ratios = [theirs / ours for ours, theirs in rows]
    return {"embeddedMicros": [round(row[0], 2) for row in rows], "nodeMicros": [round(row[1], 2) for row in rows],
            "ratios": [round(ratio, 3) for ratio in ratios], "ratio": round(statistics.median(ratios), 3)}


def balanced(work, options):
    """What a lookup costs the nodes and the database through HAProxy: on one node, and on three that share the same core and have the same
    load each. How many a core carries with one node on it and with three is measured too."""
    profiles, rounds, seconds = (20_000, 1, 2) if options.quick else (1_000_000, 8, 4)
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install([])
    data, tokens = stage.contactd_data(profiles)
    requests = stage.request_file("contactd", profiles, tokens)
    with in_memory() as memory, postgres.running(memory / "postgres", core=stage.LOAD_CORE) as server:
        url, moved = server.create(), work / "moved"
        shutil.copytree(data, moved)
        stage.sh(stage.BINARY, "migrate", "--data", moved, "--to", url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        nodes = [Node(work, name, url, moved / "keys", 60, stage.SERVER_CORE).start() for name in "abc"]
        ports = {"one": nodes[:1], "three": nodes}
        ports = {stage.free_port(): behind for behind in ports.values()}
        with haproxy(work, ports):
            one, three = [stage.Server.__new__(stage.Server) for _ in ports]
            for behind, (port, members) in zip((one, three), ports.items()):
                behind.name, behind.port, behind.tree = "haproxy", port, lambda members=members: [node.process.pid for node in members]
            subprocess.run(["rustc", "-O", "--edition", "2024", "-o", work / "latency", stage.BENCH / "latency.rs"], check=True)
            rows = [[stage.measure(behind, requests, seconds) for behind in (one, three)] for _ in range(rounds)]
            costs = [[cost_at(work, behind, rate, requests, seconds) for behind, rate in ((one, EACH), (three, 3 * EACH))] for _ in range(rounds)]
            result = {"profiles": profiles, "database": database_load(work, server, list(ports)[1], requests, 2 if options.quick else 20)}
        for node in nodes:
            node.stop()
    carried = [[each["requestsPerSecond"] for each in row] for row in rows]
    for name, pairs in (("cpuMicros", costs), ("requestsPerSecond", carried)):
        result[name] = {"one": [round(pair[0], 1) for pair in pairs], "three": [round(pair[1], 1) for pair in pairs],
                        "ratio": round(statistics.median(pair[1] / pair[0] for pair in pairs), 3)}
    result["lookupsPerSecondAndNode"] = EACH
    # At a low rate, three processes that take turns on one core cost more than one; what counts is what the core carries.
    result["areThreeAsGood"] = result["requestsPerSecond"]["ratio"] >= 0.9
    result["isDatabaseLoadFlat"] = result["database"][2000]["transactionsPerSecond"] <= 1.5 * result["database"][500]["transactionsPerSecond"]
    print(json.dumps(result), flush=True)
    return result


def cost_at(work, behind, rate, requests, seconds):
    """CPU of the nodes per lookup at a rate, in microseconds."""
    before = behind.cpu_seconds()
    stage.sh("taskset", "-c", stage.LOAD_CORE, work / "latency", behind.port, rate, seconds, requests, 100, 16, stdout=subprocess.DEVNULL)
    return (behind.cpu_seconds() - before) / (rate * seconds) * 1e6


@contextlib.contextmanager
def haproxy(work, ports):
    """HAProxy as in the drill, on the core of the load, with a port for each group of nodes."""
    text = (stage.ROOT / "drill/haproxy.cfg").read_text()
    head, section = text.split("listen contactd\n")
    groups = (f"listen port-{port}\n{section}    bind 127.0.0.1:{port}\n" + "".join(f"    server {node.name} 127.0.0.1:{node.port} check\n" for node in members)
              for port, members in ports.items())
    (work / "haproxy.cfg").write_text(head + "\n".join(groups))
    command = ["taskset", "-c", stage.LOAD_CORE, shutil.which("haproxy", path="/usr/sbin:/usr/bin"), "-db", "-f", str(work / "haproxy.cfg")]
    process = subprocess.Popen(command, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    STARTED.append(process)
    time.sleep(3)
    yield
    process.terminate()
    process.wait()


def database_load(work, server, port, requests, seconds):
    """Transactions and CPU of the database in a second, at several rates of lookups."""
    database = stage.Server.__new__(stage.Server)
    database.process = server.process
    found = {}
    for rate in (0, 500, 1000, 2000):
        transactions = lambda: int(server.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'contacts'"))
        time.sleep(3)
        before, cpu, began = transactions(), database.cpu_seconds(), time.monotonic()
        if rate:
            stage.sh("taskset", "-c", stage.LOAD_CORE, work / "latency", port, rate, seconds, requests, 100, 16, stdout=subprocess.DEVNULL)
        else:
            time.sleep(seconds)
        took = time.monotonic() - began
        found[rate] = {"transactionsPerSecond": round((transactions() - before) / took, 1), "cpuMillisPerSecond": round((database.cpu_seconds() - cpu) / took * 1000, 1)}
    return found


def applying(work, options):
    """The p99 of a client at a modest rate, while the node applies an import and while it does not."""
    profiles = 20_000 if options.quick else 1_000_000
    stage.WORK.mkdir(parents=True, exist_ok=True)
    data, tokens = stage.contactd_data(profiles)
    requests = stage.request_file("contactd", profiles, tokens)
    # In memory: what the database writes does not use the disk of a node where it has a machine of its own.
    with in_memory() as memory, postgres.running(memory / "postgres", core=stage.LOAD_CORE) as server:
        url, moved = server.create(), work / "moved"
        shutil.copytree(data, moved)
        stage.sh(stage.BINARY, "migrate", "--data", moved, "--to", url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # On all cores, as on a machine of its own; the clients have priority on theirs.
        node = Node(work, "a", url, moved / "keys", 60).start()
        result = latency_while_applying(memory, url, moved, node, requests, options)
        node.stop()
        return result


@contextlib.contextmanager
def in_memory():
    """A directory in memory, which other users can enter."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        directory = pathlib.Path(directory)
        directory.chmod(0o755)
        yield directory


def latency_while_applying(work, url, keys_of, node, requests, options):
    rows, rounds = (20_000, 1) if options.quick else (1_000_000, 5)
    subprocess.run(["rustc", "-O", "--edition", "2024", "-o", work / "latency", stage.BENCH / "latency.rs"], check=True)

    def ask(seconds):
        priority = ["chrt", "-f", "10"] if os.getuid() == 0 and shutil.which("chrt") else []
        command = [*priority, "taskset", "-c", stage.LOAD_CORE, work / "latency", node.port, 300, seconds, requests, 100, 4]
        out = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}["p99"]

    people = work / "people.csv"
    quiet, busy, took = [], [], []
    for number in range(rounds):
        with open(people, "w") as out:
            out.write("profileUrl,phone,confidence\n")
            out.writelines(f"https://{stage.key(n)},{stage.phone(n + number)},{10 + number}\n" for n in range(rows))
        quiet.append([ask(3) for _ in range(3)])
        before = position(node)
        stage.sh("nice", "-n", "19", "taskset", "-c", stage.LOAD_CORE, stage.BINARY, "import", people, "--source", f"s{number}", "--data", keys_of, "--store", url,
                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"CONTACTD_STORE": url})
        began = time.monotonic()
        measured = []
        while position(node) == before or not measured:
            measured.append(ask(3))
        took.append(round(time.monotonic() - began, 1))
        busy.append(measured)
        print("applying", quiet[-1], busy[-1], took[-1], flush=True)
    # Of each round the median of its windows of three seconds: in some of them the machine itself does nothing for a while.
    ratios = [statistics.median(theirs) / statistics.median(ours) for ours, theirs in zip(quiet, busy)]
    return {"rows": rows, "quietP99Micros": quiet, "applyingP99Micros": busy, "applySeconds": took, "ratio": round(statistics.median(ratios), 2),
            "isWithin2": statistics.median(ratios) <= 2}


def position(node):
    """The number of the last change of details that the node has applied."""
    connection = http.client.HTTPConnection("127.0.0.1", node.admin, timeout=10)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    return re.search(r'contactd_copy_number\{counter="details"\} (\d+)', text).group(1)


def scale(work, options):
    profiles = 50_000 if options.quick else 10_000_000
    stage.WORK.mkdir(parents=True, exist_ok=True)
    people = work / "people.csv"
    stage.sh(stage.venv() / "bin/python", stage.BENCH / "people.py", profiles, people)

    def timed(*command, **more):
        began = time.monotonic()
        stage.sh(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        return round(time.monotonic() - began, 1)

    result = {"profiles": profiles}
    result["embeddedImportSeconds"] = timed(stage.BINARY, "import", people, "--source", "bench", "--data", work / "embedded")
    result["embeddedBytes"] = (work / "embedded/details.db").stat().st_size
    shutil.rmtree(work / "embedded")
    print(json.dumps(result), flush=True)
    with postgres.running(work / "postgres") as server:
        url = server.create()
        home = work / "home"
        server.sql("CHECKPOINT", "postgres")
        result["importSeconds"] = timed(stage.BINARY, "import", people, "--source", "bench", "--data", home, "--store", url)
        people.unlink()
        result["databaseBytes"] = int(server.sql("SELECT pg_total_relation_size('contactd.details')"))
        rows = work / "rows"
        psql = [postgres.program("psql"), "-qAtX", "-d", url, "-c"]
        stage.sh(*psql, f"\\copy (SELECT * FROM contactd.details ORDER BY id) TO '{rows}' (FORMAT binary)")
        for name, table in [("bareCopySeconds", "CREATE TABLE bare (LIKE contactd.details); ALTER TABLE bare ADD PRIMARY KEY (id)"),
                            ("bareCopyWithIndexesSeconds", "CREATE TABLE bare (LIKE contactd.details INCLUDING INDEXES)")]:
            server.sql(table)
            server.sql("CHECKPOINT")
            result[name] = timed(*psql, f"\\copy bare FROM '{rows}' (FORMAT binary)")
            server.sql("DROP TABLE bare")
        rows.unlink()
        result["importTimesBareCopy"] = round(result["importSeconds"] / result["bareCopySeconds"], 2)
        print(json.dumps(result), flush=True)
        nodes = [Node(work, name, url, home / "keys", 60) for name in ("a", "b", "c")]
        began = time.monotonic()
        nodes[0].start()
        result["nodeReadySeconds"] = round(time.monotonic() - began, 1)
        result["nodeTimesEmbeddedImport"] = round(result["nodeReadySeconds"] / result["embeddedImportSeconds"], 2)
        print(json.dumps(result), flush=True)
        for node in nodes[1:]:
            node.start()
        token = subprocess.run([stage.BINARY, "token", "create", "bench", "--data", home, "--store", url], check=True, capture_output=True, text=True).stdout.strip()
        result["changeSeconds"] = [change_reaches(nodes, home, url, token, number) for number in range(3 if options.quick else 20)]
        for node in nodes:
            node.stop()
    result["isWithin"] = {"import": result["importTimesBareCopy"] <= 2, "node": result["nodeTimesEmbeddedImport"] <= 3, "change": max(result["changeSeconds"]) < 1}
    print(json.dumps(result), flush=True)
    return result


def change_reaches(nodes, home, url, token, number):
    """How long after `put` was committed every node discloses the new detail, counted from the end of the command."""
    person = f"https://linkedin.com/in/new-quell-{number}"
    stage.sh(stage.BINARY, "put", person, "--email", f"new{number}@example.com", "--source", "hand", "--data", home, "--store", url,
             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began, waiting = time.monotonic(), list(nodes)
    while waiting and time.monotonic() < began + 30:
        for node in list(waiting):
            connection = node.connect()
            connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": person}),
                               {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
            if connection.getresponse().status == 200:
                waiting.remove(node)
    return round(time.monotonic() - began, 3)


def shipping(work, options):
    count, people = (5, 500) if options.quick else (50, 2_000)
    chosen = random.Random(15)
    with postgres.running(work / "postgres") as server:
        cluster = Cluster(work, server, people)
        # A node has the digest keys of the others, and its own keys of the journal.
        keys = work / "a" / "keys"
        keys.mkdir(parents=True)
        keys.parent.chmod(0o700)
        for key in (cluster.home / "keys").glob("digest-*.key"):
            shutil.copy(key, keys)
        node = cluster.node("a")
        with node.config.open("a") as config:
            config.write('[audit]\nsegment_bytes = 1000000\nepoch = "2s"\n')
        node.start()
        is_over, done = threading.Event(), {"answered": 0, "failed": 0}

        def ask(first):
            number, connection = first, None
            while not is_over.is_set():
                try:
                    connection = connection or node.connect()
                    done["answered"] += node.ask(cluster.token, number % people, connection) == 200
                    number += 1
                except (OSError, http.client.HTTPException):
                    # It is being killed, or starts again.
                    done["failed"] += 1
                    connection = None
                    time.sleep(0.01)

        asking = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
        for thread in asking:
            thread.start()
        waited = []
        for number in range(count):
            time.sleep(chosen.uniform(0.05, 1.5))
            waited.append(unshipped(node))
            node.kill()
            node.start()
            if (number + 1) % 10 == 0:
                print(f"{number + 1} kills, {done['answered']} answered, {waited[-1]} lines waited at the last one", flush=True)
        is_over.set()
        for thread in asking:
            thread.join()
        node.stop()
        files, twice = lines_of(node.data / "audit")
        rows = server.sql("SELECT seq, md5(line) FROM contactd.journal_lines ORDER BY seq")
        shipped = dict(row.split("|") for row in rows.splitlines())
        copies = int(server.sql("SELECT count(*) FROM contactd.journal_copies"))
        shutil.rmtree(node.data)
        verified = subprocess.run([str(part) for part in (stage.BINARY, "audit", "verify", "--json", "--data", cluster.home, "--store", cluster.url)],
                                  capture_output=True, text=True)
    missing = sum(seq not in shipped for seq in files)
    changed = sum(seq in shipped and shipped[seq] != text for seq, text in files.items())
    added = sum(seq not in files for seq in shipped)
    result = {"kills": count, **done, "lines": len(files), "shipped": len(rows.splitlines()), "missing": missing, "changed": changed, "added": added,
              "twiceInFiles": twice, "copies": copies, "unshippedAtKills": waited, "isOnce": missing == changed == added == twice == 0 and copies == 1,
              "isVerifiedWithoutFiles": verified.returncode == 0}
    print(json.dumps({**result, "unshippedAtKills": f"at most {max(waited)}"}), flush=True)
    if verified.returncode:
        print(verified.stdout, verified.stderr, flush=True)
    return result


def unshipped(node):
    """How many lines of the node's journal are not in the database yet."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection("127.0.0.1", node.admin, timeout=5)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        return int(re.search(r"^contactd_journal_unshipped_lines (\d+)", text, re.M).group(1))
    return -1


def lines_of(directory):
    """The lines of a journal's files by number, as digests; and how many numbers are there more than once."""
    lines, twice = {}, 0
    for path in sorted(directory.glob("0*.jsonl*")):
        if path.suffix == ".zst" and path.with_suffix("").exists():
            # It was killed after it had compressed this file, and before it removed the original.
            continue
        if path.suffix == ".zst":
            text = subprocess.run(["zstd", "-dc", str(path)], check=True, capture_output=True).stdout
        else:
            text = path.read_bytes()
        for line in text.splitlines():
            seq = str(json.loads(line)["seq"])
            twice += seq in lines
            lines[seq] = hashlib.md5(line).hexdigest()
    return lines, twice


@atexit.register
def end_all():
    """Nodes do not outlive this script, also if it fails."""
    for process in STARTED:
        if process.poll() is None:
            process.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    run = {"opt-outs": opt_outs, "kills": kills, "cost": cost, "balanced": balanced, "applying": applying, "scale": scale, "shipping": shipping}
    results = {}
    for part in options.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="contactd-cluster-") as work:
            work = pathlib.Path(work)
            work.chmod(0o755)
            results[part] = run[part](work, options)
    if not options.quick:
        path = stage.BENCH / "runs" / f"{datetime.date.today()}-cluster.json"
        known = json.loads(path.read_text()) if path.exists() else {}
        known.update({"commit": stage.commit(), **results})
        path.write_text(json.dumps(known, indent=1) + "\n")
    failed = [f"{part}.{name}" for part, result in results.items() for name, value in result.items() if name.startswith(("is", "are")) and value is False]
    failed += [f"{part}.isWithin.{name}" for part, result in results.items() for name, value in result.get("isWithin", {}).items() if not value]
    if failed:
        sys.exit("does not hold: " + ", ".join(failed))
    print("all bounds hold")


if __name__ == "__main__":
    main()
