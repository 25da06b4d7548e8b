#!/usr/bin/env python3
"""Tests imports that are killed, that run out of disk space, and that run while a server is running.

    python3 soak/faults.py                # prints, and writes soak/runs/

Fifty imports are killed at random times (SIGKILL): the store has the old data or the new data, both databases pass SQLite's
integrity_check, and the next import works. A disk that is too small (a tmpfs, as root): a clear error, nothing is changed.
Lookups at a steady rate, without and then during an import, several times: errors, latency, CPU per request. Then a token is
revoked and a person suppressed during an import. The import shares a core with the load generator, which has real-time priority
(as root), so that only the waiting time caused by the server is measured. `enrich` of 100,000 rows, killed twice and resumed.
"""
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

KILLS = 50
RATE = 10_000
ROUNDS, QUIET_SECONDS, IMPORTED_BESIDE = 5, 10, 300_000
ENRICHED_ROWS, ENRICHED_URLS = 100_000, 80_000


def rows_file(path, count, marker):
    with open(path, "w") as out:
        out.write("profileUrl,phone,email,confidence\n")
        for n in random.Random(marker).sample(range(count), count):
            out.write(f"https://www.{stage.key(n)},{stage.phone(n + marker)},m{marker}p{n}@example.com,{50 + marker % 50}\n")
    return path


def contactd(data, *arguments, check=True):
    return subprocess.run([stage.BINARY, *map(str, arguments), "--data", data], check=check, capture_output=True, text=True)


def fingerprint(data):
    return hashlib.sha256(subprocess.run([stage.BINARY, "export", "--data", data], check=True, capture_output=True).stdout).hexdigest()


def is_whole(data):
    for name in ("details.db", "contactd.db"):
        with contextlib.closing(sqlite3.connect(data / name)) as db:
            if db.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
                return False
    return True


def kills(work):
    """How often a killed import left the old data, and how often the new data."""
    data, moments, counts = work / "kills", random.Random(5), {"before": 0, "after": 0}
    contactd(data, "import", rows_file(work / "base.csv", 50_000, 1), "--source", "base")
    began = time.monotonic()
    contactd(data, "import", rows_file(work / "probe.csv", 100_000, 2), "--source", "probe")
    usual = time.monotonic() - began
    before = fingerprint(data)
    for number in range(KILLS):
        people = rows_file(work / "next.csv", 100_000, 3 + number)
        importing = subprocess.Popen([stage.BINARY, "import", people, "--source", f"kill-{number}", "--data", data],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, 1.3 * usual))
        importing.send_signal(signal.SIGKILL)
        importing.wait()
        assert is_whole(data), f"kill {number}: a database is damaged"
        now = fingerprint(data)
        if now == before:
            counts["before"] += 1
            continue
        imports = json.loads(contactd(data, "imports", "--json").stdout)
        assert imports[-1]["source"] == f"kill-{number}" and imports[-1]["detailsNew"] == 200_000, f"kill {number}: neither the old nor the new data"
        counts["after"] += 1
        contactd(data, "imports", "undo", imports[-1]["id"])
        assert fingerprint(data) == before, f"kill {number}: the import was not undone"
    contactd(data, "import", work / "next.csv", "--source", "last")
    return {"kills": KILLS, "secondsOfAnImport": round(usual, 1), **counts}


def full_disk(work):
    """The error of an import on a disk that is too small. Checks that nothing was changed."""
    if not stage.may_mount():
        return "not run: may not mount a small tmpfs"
    said = {}
    people = rows_file(work / "large.csv", 400_000, 7)
    for megabytes in (24, 48, 72):
        small = work / f"small-{megabytes}"
        small.mkdir()
        stage.sh("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", small)
        try:
            data = small / "data"
            contactd(data, "import", rows_file(work / "few.csv", 10_000, 1), "--source", "base")
            before = fingerprint(data)
            failed = contactd(data, "import", people, "--source", "large", check=False)
            assert failed.returncode == 1, failed
            assert fingerprint(data) == before and is_whole(data)
            said[f"{megabytes} MiB"] = failed.stderr.strip().splitlines()[-1].replace(str(work), "")
        finally:
            stage.sh("umount", small)
    return said


def beside_a_server(work):
    data, tokens = stage.contactd_data(1_000_000)
    copy = work / "beside"
    shutil.copytree(data, copy)
    generator, requests = stage.tool("latency"), stage.request_file("contactd", 1_000_000, tokens)
    people = rows_file(work / "beside.csv", IMPORTED_BESIDE, 9)
    server = stage.start("contactd", 1_000_000, copy, tokens)
    first = ["chrt", "--fifo", "1"] if os.getuid() == 0 else []

    def load(seconds):
        before = server.cpu_seconds()
        out = subprocess.run(["taskset", "-c", stage.LOAD_CORE, *first, generator, str(server.port), str(RATE), str(seconds), requests, "20"],
                             check=True, capture_output=True, text=True).stdout
        figures = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}
        return {**figures, "cpuMicrosPerRequest": round((server.cpu_seconds() - before) / (RATE * seconds) * 1e6, 1)}

    def import_it():
        return subprocess.Popen([stage.BINARY, "import", people, "--source", "beside", "--data", copy],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def as_it_was():
        contactd(copy, "imports", "undo", json.loads(contactd(copy, "imports", "--json").stdout)[-1]["id"])

    try:
        server.ready(requests.read_bytes().split(b"\n----\n")[0])
        # Measure how long an import takes under load, so that the measured load covers a whole import.
        began = time.monotonic()
        rehearsal = import_it()
        while rehearsal.poll() is None:
            load(2)
        took = {"secondsOfAnImport": round(time.monotonic() - began, 1)}
        assert rehearsal.returncode == 0
        as_it_was()
        rounds = []
        for _ in range(ROUNDS):
            quiet = load(QUIET_SECONDS)
            importing = import_it()
            busy = load(round(took["secondsOfAnImport"]) + 1)
            assert importing.wait() == 0
            as_it_was()
            rounds.append({"quiet": quiet, "duringAnImport": busy, "p99Ratio": round(busy["p99"] / quiet["p99"], 2)})
        importing = import_it()
        time.sleep(1)
        contactd(copy, "token", "create", "short-lived")
        listed = json.loads(contactd(copy, "token", "list", "--json").stdout)[-1]["id"]
        for name, command in [("revoke", ["token", "revoke", listed]), ("suppress", ["suppress", f"https://{stage.key(5)}"])]:
            began = time.monotonic()
            contactd(copy, *command)
            took[f"{name}Seconds"] = round(time.monotonic() - began, 2)
        assert importing.poll() is None, "the import was over before the revocation"
        importing.terminate()
        importing.wait()
    finally:
        server.stop()
    return {"medianP99Ratio": statistics.median(found["p99Ratio"] for found in rounds), **took, "rounds": rounds}


def lookups_of(admin_port):
    with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics") as answer:
        return sum(int(float(line.rsplit(" ", 1)[1])) for line in answer.read().decode().splitlines()
                   if line.startswith("contactd_lookups_total"))


def enrich(work):
    """A run that is killed twice has the same output as one that is not. Only the batches in progress at a kill are repeated."""
    data, tokens = stage.contactd_data(1_000_000)
    port, admin = stage.free_port(), stage.free_port()
    server = subprocess.Popen([stage.BINARY, "serve", "--data", data, "--listen", f"127.0.0.1:{port}", "--admin-listen",
                               f"127.0.0.1:{admin}"], stderr=subprocess.DEVNULL)
    people, moments = work / "enrich.csv", random.Random(8)
    with open(people, "w") as out:
        out.write("id,profileUrl\n")
        # Half of the people are unknown, and a fifth of the rows repeat a person.
        out.writelines(f"{row},https://www.{stage.key(2 * (row % ENRICHED_URLS) + 1_000_000 * (row % 2))}\n" for row in range(ENRICHED_ROWS))
    command = [stage.BINARY, "enrich", people, "--url", f"http://127.0.0.1:{port}", "--token", tokens[0], "--json"]
    try:
        time.sleep(1)
        began, before = time.monotonic(), lookups_of(admin)
        subprocess.run([*command, work / "whole.csv"], check=True, capture_output=True)
        usual, alone = time.monotonic() - began, lookups_of(admin) - before
        before = lookups_of(admin)
        for _ in range(2):
            killed = subprocess.Popen([*command, work / "killed.csv"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(moments.uniform(0.1, 0.45) * usual)
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            assert not (work / "killed.csv").exists()
        summary = subprocess.run([*command, work / "killed.csv"], check=True, capture_output=True, text=True).stdout
        interrupted = lookups_of(admin) - before
    finally:
        server.terminate()
        server.wait()
    assert (work / "whole.csv").read_bytes() == (work / "killed.csv").read_bytes(), "the outputs differ"
    return {"rows": ENRICHED_ROWS, "distinctUrls": ENRICHED_URLS, "seconds": round(usual, 1), "lookupsUninterrupted": alone,
            "lookupsKilledTwice": interrupted, "sameOutput": True, "summaryOfTheLastRun": json.loads(summary)}


def main():
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    stage.WORK.mkdir(parents=True, exist_ok=True)
    report = {"command": "python3 soak/faults.py", "commit": stage.commit()}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        report["fullDisk"] = full_disk(work)
        print(json.dumps(report["fullDisk"], indent=1), flush=True)
        report["kills"] = kills(work)
        print(json.dumps(report["kills"]), flush=True)
        report["besideAServer"] = beside_a_server(work)
        print(json.dumps(report["besideAServer"], indent=1), flush=True)
        report["enrich"] = enrich(work)
        print(json.dumps(report["enrich"], indent=1), flush=True)
    out = stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-import-faults.json"
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
