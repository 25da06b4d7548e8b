#!/usr/bin/env python3
"""Measures whether work in the console delays lookups.

    python3 bench/console.py                  # builds the release binary, prints, and writes bench/runs/
    python3 bench/console.py --quick          # small, and writes nothing
    python3 bench/console.py --binary PATH    # a binary that is built already

A server has a million people, and a journal of 10 million lines, all of them real lookups. In each round, lookups are sent at 1,000 a second: for a while
with nothing else to do, then while a file of 10 million rows is uploaded and imported and, at the same time, reports over the whole journal are made one after the
other (`/audit/summary`). The first round uploads the file and lets the import go to its end; the others import the same file once more as a dry run. The p99 while
all this runs is compared with the p99 before it, in windows of three seconds; the median of the rounds counts.
"""
import argparse
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import stage

RATE = 1_000
API = "/admin/api/v1"


class Console:
    """A caller of the admin API."""

    def __init__(self, port, token):
        self.port, self.headers = port, {"Authorization": f"Bearer {token}"}

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        kind = {} if body is None or headers else {"Content-Type": "application/json"}
        sent = body if headers or body is None else json.dumps(body)
        connection.request(method, API + path, sent, self.headers | kind | (headers or {}))
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text)

    def upload(self, path):
        with open(path, "rb") as body:
            return self.ask("POST", "/uploads", body, {"Content-Type": "application/octet-stream", "X-File-Name": path.name, "Content-Length": str(path.stat().st_size)})

    def import_file(self, upload, dry_run):
        mapping = {"profileUrl": "profileUrl", "phone": "phone", "email": "email"}
        return self.ask("POST", "/imports", {"upload": upload["id"], "source": "console", "mapping": mapping, "requireBasis": False, "replaceSource": False, "dryRun": dry_run})["id"]


def measure(work, options):
    profiles, lines, rows, rounds = (20_000, 50_000, 50_000, 1) if options.quick else (1_000_000, 10_000_000, 10_000_000, 3)
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install([])
    data, tokens = stage.contactd_data(profiles)
    data = pathlib.Path(shutil.copytree(data, work / "data"))
    requests = stage.request_file("contactd", profiles, tokens)
    admin_token = subprocess.run([stage.BINARY, "admin-token", "create", "bench", "--role", "admin", "--data", data], check=True, capture_output=True, text=True).stdout.strip()
    stage.tool("latency")
    people = work / "people.csv"
    with open(people, "w") as out:
        out.write("profileUrl,phone,email\n")
        out.writelines(f"https://{stage.key(number)},{stage.phone(number)},p{number}@example.com\n" for number in range(rows))
    # On all cores, as on a machine of its own: jobs leave the first one to lookups.
    server = stage.Server.__new__(stage.Server)
    server.name, server.port, admin = "contactd", stage.free_port(), stage.free_port()
    port = server.port
    command = [stage.BINARY, "serve", "--workers", "1", "--data", data, "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin}"]
    server.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server.ready(requests.read_bytes().split(b"\n----\n")[0])
    console = Console(admin, admin_token)
    written = 0
    while written < lines:
        written += stage.wrk(server, "load.lua", stage.CONNECTIONS, 2 if options.quick else 20, requests)["requests"]
        print(f"{written} lines", flush=True)
    summary = console.ask("GET", "/audit/summary")
    indexed = sum(recipient["requests"] for recipient in summary["recipients"])
    print(f"{indexed} lines are indexed", flush=True)

    def p99():
        priority = ["chrt", "-f", "10"] if os.getuid() == 0 and shutil.which("chrt") else []
        command = [*priority, "taskset", "-c", stage.LOAD_CORE, stage.tool("latency"), port, RATE, 3, requests, 100, 8]
        out = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}["p99"]

    quiet, busy, took, reports, upload = [], [], [], [], None
    for number in range(rounds):
        time.sleep(1 if options.quick else 20)
        quiet.append([p99() for _ in range(5)])
        ended, seen, began = threading.Event(), [], time.monotonic()

        def report():
            while not ended.is_set():
                console.ask("GET", "/audit/summary")
                seen.append(1)

        reporting = threading.Thread(target=report)
        reporting.start()
        state = {}

        def load():
            nonlocal upload
            upload = upload or console.upload(people)
            state["uploaded"] = round(time.monotonic() - began, 1)
            job = console.import_file(upload, dry_run=number > 0)
            while (shown := console.ask("GET", f"/jobs/{job}"))["state"] == "running":
                time.sleep(0.5)
            state["state"], state["message"] = shown["state"], shown["message"]

        loading = threading.Thread(target=load)
        loading.start()
        busy.append([])
        while loading.is_alive():
            busy[-1].append(p99())
        took.append(round(time.monotonic() - began, 1))
        ended.set()
        reporting.join()
        reports.append(len(seen))
        print(quiet[-1], busy[-1], took[-1], len(seen), state, flush=True)
        if state.get("state") != "done":
            raise SystemExit(f"the import failed: {state}")
    server.stop()
    ratios = [statistics.median(theirs) / statistics.median(ours) for ours, theirs in zip(quiet, busy)]
    ratio = round(statistics.median(ratios), 2)
    return {"commit": stage.commit(), "profiles": profiles, "journalLines": indexed, "rows": rows, "lookupsPerSecond": RATE, "quietP99Micros": quiet, "busyP99Micros": busy,
            "seconds": took, "reports": reports, "ratios": [round(each, 2) for each in ratios], "ratio": ratio, "isWithin2": ratio <= 2}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    with tempfile.TemporaryDirectory(prefix="contactd-console-") as work:
        result = measure(pathlib.Path(work), options)
    print(json.dumps(result))
    if not options.quick:
        (stage.BENCH / "runs" / f"{datetime.date.today()}-console.json").write_text(json.dumps(result, indent=1) + "\n")
    if not result["isWithin2"]:
        sys.exit("does not hold: isWithin2")
    print("all bounds hold")


if __name__ == "__main__":
    main()
