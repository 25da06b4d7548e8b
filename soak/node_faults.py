#!/usr/bin/env python3
"""Breaks nodes of a cluster on one PostgreSQL, all on this machine, and checks that nothing is disclosed or lost.

    python3 soak/node_faults.py                        # everything; builds the release binary, prints, and writes soak/runs/
    python3 soak/node_faults.py opt-outs kills           # only these parts, of: opt-outs, kills, shipping
    python3 soak/node_faults.py --quick                  # small, and writes nothing
    python3 soak/node_faults.py --binary PATH            # a binary that is built already

opt-outs: three nodes. After `suppress` has returned, no lookup that starts on another node discloses the person: 10,000 lookups with one node's
connection to the database slowed, 200 with that node paused (SIGSTOP) and 200 with it cut off from the database, with a lease of two seconds.
kills: a node is killed (SIGKILL) at 100 random moments while it follows imports, erasures, opt-outs and undone imports; afterwards its copy equals the
database. Then the database is restored to an earlier point: the nodes notice, answer 503, take a new snapshot, and equal it.
shipping: a node is killed (SIGKILL) at 50 random moments under lookups while it ships its journal; afterwards the database has every line of its files once, and
verifies without them.
"""
import contextlib
import datetime
import hashlib
import http.client
import json
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import postgres
import service
import stage
from nodes import Cluster, Relay, run_parts


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
                cluster.command("suppress", service.url(person))
                seconds.append(time.monotonic() - began)
                # Sent now, answered when the node can.
                asked = [(node, node.connect()) for node in (b, c) for _ in range(each // 2)]
                for _, connection in asked:
                    connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": service.url(person)}),
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
                        f"{service.url(n % people)},+1415555{100 + (n + number) % 100:04}\n" for n in range(first, first + 4_000))
                    cluster.command("import", "-", "--source", f"s{number % 3}", input=rows)
                    done["imports"] += 1
                    if number % 3 == 0:
                        newest = json.loads(cluster.command("imports", "--json"))[-1]["id"]
                        cluster.command("imports", "undo", newest)
                        done["undone"] += 1
                    if number % 2 == 0:
                        cluster.command("suppress", service.url(chosen.randrange(people)))
                        done["optedOut"] += 1
                    # An erasure waits for every node, so it fails while one is killed: it removes all the same.
                    erased = subprocess.run([str(part) for part in (stage.BINARY, "erase", service.url(chosen.randrange(people)), "--data", cluster.home,
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
        cluster.command("import", "-", "--source", "later", input=f"profileUrl,email\n{service.url(person)},later{number}@example.com\n")
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


if __name__ == "__main__":
    run_parts({"opt-outs": opt_outs, "kills": kills, "shipping": shipping},
              stage.ROOT / "soak/runs" / f"{datetime.date.today()}-node-faults.json")
