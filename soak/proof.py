#!/usr/bin/env python3
"""Checks that nobody can change the journal unnoticed, and that no kill breaks it.

    python3 soak/proof.py                 # prints, and writes soak/runs/
    python3 soak/proof.py --quick         # fewer cases

Random manipulations in process: 10,000 without keys and 10,000 with all current keys (crates/journal/tests/journal/tamper.rs). Then some
hundred with a real server and the commands an operator uses, also of the rows of the index. Each is found by `audit verify` with the
root and a head that were noted down, or has no effect on what `audit show` and `subject` say.
SIGKILL of the server at 200 random moments, with checkpoints, epochs, segments, retention and administrative changes going on: it
recovers by itself, the journal verifies, no acknowledged lookup and no change is without its line.
"""
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

QUICK = "--quick" in sys.argv
IN_PROCESS, WITH_SERVER, KILLS = (1_000, 30, 20) if QUICK else (10_000, 300, 200)
CONFIG = '[audit]\nsegment_bytes = 6000\nepoch = "1s"\n'


def copy(data, target):
    shutil.copytree(data, target, ignore=shutil.ignore_patterns("control.sock"))


def run(data, *arguments):
    return subprocess.run([stage.BINARY, *map(str, arguments), "--data", data], capture_output=True, text=True)


def in_process():
    """The cases of the tests, more of them."""
    found = {}
    for name in ("without_keys", "with_all_current_keys"):
        out = subprocess.run(["cargo", "test", "--release", "-q", "-p", "contactd-journal", "--test", "journal", "--", f"tamper::{name}", "--nocapture"],
                             cwd=stage.ROOT, env=os.environ | {"CONTACTD_TAMPER_CASES": str(IN_PROCESS)}, capture_output=True, text=True)
        said = re.search(r"^found .*$", out.stdout, re.M)
        if out.returncode or not said:
            raise SystemExit(out.stdout[-3000:] + out.stderr[-2000:])
        found[name] = said.group()
        print(f"{name}: {said.group()}", flush=True)
    return found


def lookups(server, token, count, prefix):
    connection = server.connect()
    for number in range(count):
        server.ask(connection, token, number % 40, f"{prefix}{number:014x}", random.choice(["PersonalEmail", "PhoneNumber"]))
    connection.close()


def told(data):
    """What the journal says to those who ask, without the requests that were made after the manipulation."""
    shown = json.loads(run(data, "audit", "show", "--json").stdout or "[]")
    requests = [event for event in shown if event.get("requestId") and not event["requestId"].startswith("ff")]
    person = json.loads(run(data, "subject", service.url(3), "--json").stdout or "{}").get("disclosures", [])
    return requests, [given for given in person if not given["requestId"].startswith("ff")]


def segments(data):
    return sorted(path for path in (data / "audit").iterdir() if path.name[0].isdigit())


def manipulate(data, older, random_):
    """One manipulation; returns what was done."""
    kind = random_.randrange(12)
    if kind >= 9:
        return change_index(data, random_)
    if not (files := segments(data)):
        return "nothing is left"
    path = random_.choice(files)
    lines = path.read_bytes().splitlines(keepends=True)
    at, other = random_.randrange(len(lines) or 1), random_.randrange(len(lines) or 1)
    if kind == 0 and lines:
        old, new = random_.choice([(b'"hit"', b'"miss"'), (b"phone", b"email"), (b"tok_", b"tik_"), (b"2026-", b"2025-"), (b'"seq":', b'"seq":1')])
        lines[at] = lines[at].replace(old, new, 1)
    elif kind == 1 and lines:
        del lines[at:at + 1 + random_.randrange(3)]
    elif kind == 2 and lines:
        lines[at], lines[other] = lines[other], lines[at]
    elif kind == 3 and lines:
        lines.insert(at, lines[other])
    elif kind == 4:
        lines = lines[:at]
    elif kind == 5:
        path.rename(path.with_name(f"{random_.choice([2, at + 2, 999_999]):012}.jsonl"))
        return f"rename {path.name}"
    elif kind == 6:
        number = random_.choice([2, 999_999, max(int(file.name[:12]) for file in files) + len(lines) + 1])
        line = (b'{"seq":%d,"time":"2026-11-15T20:30:46.342Z","node":"n1","requestId":"00000000000000000000000000000bad","token":"tok_x","operation":"phone",'
                b'"outcome":"hit","chain":"%s"}\n' % (number, b"ab" * 16))
        path.with_name(f"{number:012}.jsonl").write_bytes(line)
        return f"forge {number}"
    elif kind == 7:
        path.unlink()
        return f"remove {path.name}"
    elif kind == 8:
        if (older / path.name).exists():
            shutil.copy(older / path.name, path)
        return f"an older copy of {path.name}"
    path.write_bytes(b"".join(lines))
    return f"{['edit', 'drop', 'swap', 'duplicate', 'cut'][min(kind, 4)]} in {path.name}, line {at + 1}"


def change_index(data, random_):
    with contextlib.closing(sqlite3.connect(data / "audit-index.db")) as index, index:
        statement = random_.choice([
            "DELETE FROM events WHERE seq = (SELECT seq FROM events ORDER BY random() LIMIT 1)",
            "UPDATE events SET outcome = 1 WHERE seq = (SELECT seq FROM events WHERE outcome = 0 ORDER BY random() LIMIT 1)",
            "UPDATE events SET token = (SELECT id FROM names ORDER BY random() LIMIT 1) WHERE seq = (SELECT seq FROM events ORDER BY random() LIMIT 1)",
            "UPDATE names SET name = 'tok_other' WHERE name LIKE 'tok_%'",
            "INSERT INTO events SELECT node, seq + 100000, at, request_id, token, operation, outcome, reason, digest_key, profile, given_id, value, count, place FROM events LIMIT 1",
            "UPDATE positions SET seq = seq + 50",
            "UPDATE usage SET hits = hits + 1",
            "DELETE FROM admin_events",
            "DELETE FROM positions",
        ])
        index.execute(statement)
    return statement.split(" WHERE")[0]


def one_case(base, work, number):
    random_ = random.Random(number)
    state = random_.choice(base["states"])
    data = work / f"case-{number}"
    copy(state["data"], data)
    try:
        done = [manipulate(data, base["older"], random_) for _ in range(random_.randint(1, 3))]
        if is_served := random_.random() < .5:
            config = data / "c.toml"
            config.write_text(CONFIG)
            with service.serving(data, "--config", config) as server:
                if random_.random() < .6:
                    lookups(server, base["token"], 5, "ff")
                server.process.send_signal(random_.choice([signal.SIGTERM, signal.SIGKILL]))
                server.process.wait()
        verified = run(data, "audit", "verify", "--root", base["root"], "--head", state["head"])
        if verified.returncode == 1:
            return "found"
        if verified.returncode == 0 and told(data) == state["told"]:
            return "without effect"
        return f"UNDETECTED: case {number}, {done}, served {is_served}: {verified.stdout}{verified.stderr}"
    finally:
        shutil.rmtree(data)


def with_server(work):
    data = work / "base"
    token = service.store(data)
    config = work / "c.toml"
    config.write_text(CONFIG)
    base, states = {"token": token, "older": work / "older"}, []
    with service.serving(data, "--config", config) as server:
        lookups(server, token, 60, "aa")
        time.sleep(1.3)
        shutil.copytree(data / "audit", base["older"])
        lookups(server, token, 60, "ab")
        time.sleep(1.3)
        run(data, "suppress", service.url(30))
        base["root"] = run(data, "audit", "root").stdout.strip()
        head = run(data, "audit", "head").stdout.strip()
        lookups(server, token, 5, "ac")
        server.process.kill()
        server.process.wait()
    killed = work / "killed"
    copy(data, killed)
    states.append({"data": killed, "head": head, "told": told(killed)})
    with service.serving(data, "--config", config) as server:
        lookups(server, token, 20, "ad")
        server.process.terminate()
        server.process.wait()
    states.append({"data": data, "head": run(data, "audit", "head").stdout.strip(), "told": told(data)})
    for state in states:
        verified = run(state["data"], "audit", "verify", "--root", base["root"], "--head", state["head"])
        assert verified.returncode == 0, verified.stdout
    base["states"] = states
    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for outcome in pool.map(lambda number: one_case(base, work, number), range(WITH_SERVER)):
            if outcome.startswith("UNDETECTED"):
                print(outcome, flush=True)
                outcome = "undetected"
            found[outcome] = found.get(outcome, 0) + 1
    print(f"with a real server: {found}", flush=True)
    return found


def kills(work):
    data, config = work / "kills", work / "k.toml"
    token = service.store(data)
    config.write_text('[audit]\nsegment_bytes = 100000\nepoch = "1s"\nkeep = "60s"\n[retention]\nsweep_every = "1s"\n')
    answered, changed, problems, number, attempts = {}, {}, [], [0], [0]
    for kill in range(KILLS):
        with service.serving(data, "--config", config) as server:
            stop = threading.Event()

            def load(name):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    connection = server.connect()
                    while not stop.is_set():
                        number[0] += 1
                        request_id = f"{kill:08x}{name:08x}{number[0]:016x}"
                        if server.ask(connection, token, number[0] % 40, request_id) == 200:
                            answered[request_id] = time.time()

            def administer():
                while not stop.is_set():
                    # A command whose server was killed may have made its change and fail: every attempt has its own ticket.
                    attempts[0] += 1
                    ticket = f"T-{kill}-{attempts[0]}"
                    person = service.url(100 + len(changed) % 800)
                    if run(data, random.choice(["suppress", "unsuppress"]), person, "--ticket", ticket).returncode == 0:
                        changed[ticket] = time.time()

            threads = [threading.Thread(target=load, args=(name,)) for name in range(2)] + [threading.Thread(target=administer)]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(0.05, 1.3))
            server.process.kill()
            server.process.wait()
            stop.set()
            for thread in threads:
                thread.join()
        if kill % 10 == 9 or kill + 1 == KILLS:
            root = run(data, "audit", "root").stdout.split()
            shown = json.loads(run(data, "audit", "show", "--json").stdout)
            verified = run(data, "audit", "verify")
            if verified.returncode:
                problems.append({"kill": kill, "verify": verified.stdout[-800:] + verified.stderr[-300:]})
            if run(data, "audit", "verify", "--dir", data, "--root", root[0]).returncode:
                problems.append({"kill": kill, "verify": "a copy does not verify with the root alone"})
            # Older lines may have been removed after their retention time.
            recent = time.time() - 40
            ids = {event["requestId"] for event in shown if event.get("requestId")}
            tickets = [event["ticket"] for event in shown if event.get("ticket")]
            problems += [{"kill": kill, "lost": request} for request, at in answered.items() if at > recent and request not in ids]
            problems += [{"kill": kill, "unrecorded": ticket} for ticket, at in changed.items() if at > recent and ticket not in tickets]
            problems += [{"kill": kill, "twice": ticket} for ticket in set(tickets) if tickets.count(ticket) > 1]
            print(f"{kill + 1} kills: {len(answered)} answered, {len(changed)} changes, problems {problems[:3]}", flush=True)
    return {"kills": KILLS, "answered": len(answered), "changes": len(changed), "problems": problems}


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    report = {"command": "python3 soak/proof.py", "commit": stage.commit()}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        report["kills"] = kills(work)
        report["withServer"] = with_server(work)
    report["inProcess"] = in_process()
    print(json.dumps(report, indent=1))
    if not QUICK:
        (stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-proof.json").write_text(json.dumps(report, indent=1) + "\n")
    if report["kills"]["problems"] or report["withServer"].get("undetected"):
        raise SystemExit("not everything was found or recovered")


if __name__ == "__main__":
    main()
