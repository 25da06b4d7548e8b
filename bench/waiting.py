#!/usr/bin/env python3
"""Runs commands while a million rows are being written, beside a running server.

    python3 bench/waiting.py                # prints, and writes bench/runs/

`suppress` and `token revoke` have to return within a second. `erase` says that it has suppressed and waits, `remove` says that it
waits, and both finish after the import. Each change has to be in force when its command has returned.
"""
import datetime
import json
import pathlib
import random
import sqlite3
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

import stage

ROWS = 1_000_000
LIMIT_SECONDS = 1.0


def rows_file(path):
    with open(path, "w") as out:
        out.write("profileUrl,phone,email\n")
        for n in random.Random(3).sample(range(ROWS), ROWS):
            out.write(f"https://www.{stage.key(n)},{stage.phone(n + 1)},w{n}@example.com\n")
    return path


def is_writing(data):
    """Whether somebody holds the write lock of the details."""
    db = sqlite3.connect(data / "details.db", timeout=0, isolation_level=None)
    try:
        db.execute("BEGIN IMMEDIATE")
        db.execute("ROLLBACK")
        return False
    except sqlite3.OperationalError:
        return True
    finally:
        db.close()


def status(port, token, number):
    body = json.dumps({"profileUrl": f"https://{stage.key(number)}"}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api/fetchPhoneNumber", body, 
                                     {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        report = run(pathlib.Path(work))
    report = {"command": "python3 bench/waiting.py", "commit": stage.commit(), "rows": ROWS, **report}
    print(json.dumps(report, indent=1))
    out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-waiting.json"
    out.write_text(json.dumps(report, indent=1) + "\n")


def run(work):
    data, people = work / "data", rows_file(work / "people.csv")

    def contactd(*arguments):
        return subprocess.run([stage.BINARY, "--data", data, *map(str, arguments)], check=True, capture_output=True, text=True)

    def background(*arguments):
        return subprocess.Popen([stage.BINARY, "--data", data, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    contactd("import", people, "--source", "first")
    token = contactd("token", "create", "bench").stdout.strip()
    other = json.loads(contactd("token", "create", "other", "--json").stdout)
    port = stage.free_port()
    server = background("serve", "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{stage.free_port()}", "--log-level", "error")
    try:
        for line in server.stderr:
            if "admin on" in line:
                break
        importing = background("import", people, "--source", "second")
        began = time.monotonic()
        while not is_writing(data):
            assert importing.poll() is None, "the import was over before it was seen to write"
            time.sleep(0.01)
        report = {"secondsUntilWriting": round(time.monotonic() - began, 2)}
        for name, command, check in [
            ("suppress", ["suppress", f"https://{stage.key(5)}"], lambda: status(port, token, 5) == 404),
            ("revoke", ["token", "revoke", other["id"]], lambda: status(port, other["token"], 6) == 401),
        ]:
            began = time.monotonic()
            contactd(*command)
            took = time.monotonic() - began
            assert check(), f"{name} is not in force"
            assert took < LIMIT_SECONDS, f"{name} took {took} s"
            report[f"{name}Seconds"] = round(took, 3)
        erasing = background("erase", f"https://{stage.key(7)}")
        removing = background("remove", f"https://{stage.key(8)}")
        report["eraseSays"], report["removeSays"] = erasing.stderr.readline().strip(), removing.stderr.readline().strip()
        assert report["eraseSays"].startswith("suppressed, waiting for the import"), report
        assert report["removeSays"].startswith("waiting"), report
        assert importing.poll() is None, "the import was over before the commands waited"
        assert status(port, token, 7) == 404, "the person is suppressed while the erasure waits"
        assert importing.wait() == 0, importing.stderr.read()
        report["importSeconds"] = round(time.monotonic() - began, 1)
        assert erasing.wait() == 0, erasing.stderr.read()
        assert removing.wait() == 0, removing.stderr.read()
        report["eraseThenSays"], report["removeThenSays"] = erasing.stderr.read().strip(), removing.stderr.read().strip()
        assert (status(port, token, 7), status(port, token, 8), status(port, token, 9)) == (404, 404, 200)
        return report
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
