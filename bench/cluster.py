#!/usr/bin/env python3
"""Measures a cluster: several nodes on one PostgreSQL, all on this machine. soak/node_faults.py breaks one.

    python3 bench/cluster.py                       # everything; builds the release binary, prints, and writes bench/runs/
    python3 bench/cluster.py cost scale            # only these parts, of: cost, balanced, applying, scale
    python3 bench/cluster.py --quick               # small, and writes nothing
    python3 bench/cluster.py --binary PATH         # a binary that is built already

cost: CPU per lookup of a node, alone and with three registered, beside the embedded store in the same run.
balanced: what a lookup through HAProxy costs one node, and three that share one core; and what the database does at several rates of lookups.
applying: the p99 of a client while a node applies an import of a million rows, beside the same when it is quiet.
scale: 10 million profiles. Import, beside the embedded import and beside a bare COPY of the same rows into a table with the same key, and into one with all
indexes of the table, in the same server; how long a new node takes until it is ready; how long a single change takes to reach every node.
"""
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import postgres
import stage
from nodes import Node, STARTED, run_parts

# Lookups per second of each node behind HAProxy.
EACH = 2_000


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
        stage.tool("latency")
        with haproxy(work, ports):
            one, three = [stage.Server.__new__(stage.Server) for _ in ports]
            for behind, (port, members) in zip((one, three), ports.items()):
                behind.name, behind.port, behind.tree = "haproxy", port, lambda members=members: [node.process.pid for node in members]
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
    stage.sh("taskset", "-c", stage.LOAD_CORE, stage.tool("latency"), behind.port, rate, seconds, requests, 100, 16, stdout=subprocess.DEVNULL)
    return (behind.cpu_seconds() - before) / (rate * seconds) * 1e6


@contextlib.contextmanager
def haproxy(work, ports):
    """HAProxy as in the drill, on the core of the load, with a port for each group of nodes."""
    text = (stage.ROOT / "soak/drill/haproxy.cfg").read_text()
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
            stage.sh("taskset", "-c", stage.LOAD_CORE, stage.tool("latency"), port, rate, seconds, requests, 100, 16, stdout=subprocess.DEVNULL)
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
    stage.tool("latency")
    rows, rounds = (20_000, 1) if options.quick else (1_000_000, 5)

    def ask(seconds):
        priority = ["chrt", "-f", "10"] if os.getuid() == 0 and shutil.which("chrt") else []
        command = [*priority, "taskset", "-c", stage.LOAD_CORE, stage.tool("latency"), node.port, 300, seconds, requests, 100, 4]
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


if __name__ == "__main__":
    run_parts({"cost": cost, "balanced": balanced, "applying": applying, "scale": scale},
              stage.BENCH / "runs" / f"{datetime.date.today()}-cluster.json")
