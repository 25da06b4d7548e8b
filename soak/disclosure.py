#!/usr/bin/env python3
"""Checks that nothing is disclosed that is not recorded, or that was suppressed or erased.

    python3 soak/disclosure.py            # prints, and writes soak/runs/

A million lookups while the server is killed twenty times (SIGKILL): every request that was answered with a detail is in the
journal, by request id, and the chain is intact after each restart. A journal on a full file system, on a read-only one, and one
that fails on the Nth write for every N up to 100, with 10,000 tries each: nothing is disclosed without a line, and the server
recovers without help. Suppress and erase people, then import and restore them ten times each: none of them is disclosed again.
100,000 steps of suppress, import and lookup by several clients: no lookup that starts after `suppress` has returned discloses
the person.
"""
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

LOOKUPS, KILLS, TRIES, STEPS = 1_100_000, 20, 10_000, 100_000

LUA = """
local token, prefix, file = "%s", "%s", io.open("%s", "a")
local number, asked = 0, {}
function request()
  number = number + 1
  local id = prefix .. string.format("%%024x", number)
  return wrk.format("POST", "/api/fetchPersonalEmail", {["Authorization"] = "Bearer " .. token, ["Content-Type"] = "application/json",
    ["X-Request-Id"] = id, ["Host"] = "bench"}, '{"profileUrl":"https://linkedin.com/in/told-quell-' .. (number %% 1200) .. '"}')
end
function response(status, headers)
  if status == 200 then file:write(headers["X-Request-Id"] or headers["x-request-id"], "\\n") end
  if number %% 64 == 0 then file:flush() end
end
"""


def recorded(data):
    return {event["requestId"] for event in json.loads(service.contactd(data, "audit", "show", "--outcome", "hit", "--json"))}


def kills(work):
    """Sends lookups with wrk, which records the ids of requests answered with 200. Meanwhile the server is killed."""
    data, answers, moments = work / "kills", work / "answered", random.Random(4)
    token, rate, done = service.store(data), None, 0
    for number in range(KILLS + 1):
        with service.serving(data) as server:
            script = work / "kill.lua"
            script.write_text(LUA % (token, f"{number:08x}", answers))
            left = max(LOOKUPS - done, 1_000) / (KILLS + 1 - number)
            seconds = 1.5 if rate is None else max(0.4, left / rate * moments.uniform(0.8, 1.2))
            load = subprocess.Popen(["wrk", "-t1", "-c32", f"-d{int(seconds) + 1}s", "-s", script, f"http://127.0.0.1:{server.port}"],
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            time.sleep(seconds)
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            said = load.communicate()[0]
            count = int(re.search(r"(\d+) requests in", said).group(1))
            done, rate = done + count, max(count / seconds, 1_000)
        with service.serving(data):
            verified = json.loads(service.contactd(data, "audit", "verify", "--json"))
            assert verified["isWhole"], verified["findings"][:3]
    # The last line may be incomplete because wrk was interrupted, so it is ignored.
    answered = {line for line in answers.read_text().split("\n")[:-1]}
    missing = answered - recorded(data)
    assert not missing, f"{len(missing)} were answered and not recorded"
    return {"lookups": done, "kills": KILLS, "answered": len(answered), "notRecorded": len(missing), "wholeAfterEach": True}


def shim(work):
    library = work / "faults.so"
    stage.sh("cc", "-shared", "-fPIC", "-O1", "-o", library, stage.ROOT / "crates/contactd/tests/it/faults.c")
    control = work / "faults"
    control.write_text("ok")

    def fail(how):
        (work / "next").write_text(how)
        (work / "next").rename(control)

    return {**os.environ, "LD_PRELOAD": str(library), "FAULTS": str(control)}, fail


def tries(server, token, name, count, answered):
    """Sends this many lookups on four connections. Adds the ids of those answered with a detail to `answered`."""
    def some(part):
        connection = server.connect()
        for number in range(count // 4):
            request_id = f"{name.encode().hex()}{part:02x}{number:016x}"
            with contextlib.suppress(http.client.HTTPException, OSError):
                if server.ask(connection, token, number % service.PEOPLE, request_id) == 200:
                    answered.add(request_id)

    threads = [threading.Thread(target=some, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def recovers(server, token):
    began = time.monotonic()
    while time.monotonic() - began < 20:
        if server.ask(server.connect(), token, 1) == 200:
            return round(time.monotonic() - began, 2)
        time.sleep(0.01)
    raise SystemExit("the service did not recover")


def faults(work):
    data, found = work / "faults-data", {}
    token = service.store(data)
    environment, fail = shim(work)
    answered = set()
    with service.serving(data, env=environment) as server:
        for how in ("full", "read-only"):
            fail(how)
            before = len(answered)
            tries(server, token, how, TRIES, answered)
            found[how] = {"tries": TRIES, "disclosed": len(answered) - before}
            assert not found[how]["disclosed"], how
            fail("ok")
            found[how]["secondsToRecover"] = recovers(server, token)
        slowest = 0
        for n in range(1, 101):
            fail(f"nth {n}")
            tries(server, token, f"nth{n}", TRIES, answered)
            slowest = max(slowest, recovers(server, token))
        missing = answered - recorded(data)
        found["nthWrite"] = {"n": 100, "triesEach": TRIES, "disclosed": len(answered), "notRecorded": len(missing), "slowestRecoverySeconds": slowest}
        assert not missing
        assert json.loads(service.contactd(data, "audit", "verify", "--json"))["isWhole"]
    found["realMounts"] = mounts(work)
    return found


def mounts(work):
    """The same on a small real file system that is full, and on one that is read-only. Needs the right to mount."""
    if not stage.may_mount():
        return "not run: may not mount"
    found = {}
    data = work / "mounted"
    audit = data / "audit"
    audit.mkdir(parents=True, mode=0o700)
    stage.sh("mount", "-t", "tmpfs", "-o", "size=2m,mode=700", "tmpfs", audit)
    try:
        token = service.store(data)
        with service.serving(data) as server:
            answered = set()
            assert server.ask(server.connect(), token, 1) == 200
            filler = audit / "filler"
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as out:
                while True:
                    out.write(b"x" * 4096)
            time.sleep(0.2)
            tries(server, token, "warm", 200, set())
            tries(server, token, "full", TRIES, answered)
            filler.unlink()
            seconds = recovers(server, token)
            missing = answered - recorded(data)
            found["fullTmpfs"] = {"tries": TRIES, "disclosed": len(answered), "notRecorded": len(missing), "secondsToRecover": seconds}
            assert not missing
            assert json.loads(service.contactd(data, "audit", "verify", "--json"))["isWhole"]
        # A file system cannot become read-only while a file is open for writing, so this is done before the server starts.
        stage.sh("mount", "-o", "remount,ro", audit)
        with service.serving(data) as server:
            answered = set()
            tries(server, token, "read-only", TRIES, answered)
            stage.sh("mount", "-o", "remount,rw", audit)
            found["readOnlyMount"] = {"tries": TRIES, "disclosed": len(answered), "secondsToRecover": recovers(server, token)}
            assert not answered
            assert json.loads(service.contactd(data, "audit", "verify", "--json"))["isWhole"]
    finally:
        stage.sh("umount", "-l", audit)
    return found


def comes_back(work):
    """Looks up suppressed people, erased people and suppressed values after ten imports of each format and ten restores."""
    data, disclosed, lookups = work / "back", 0, 0
    token = service.store(data)
    backup = work / "back.backup"
    service.contactd(data, "backup", backup)
    suppressed, erased, values = range(0, 10), range(10, 20), range(20, 30)
    service.contactd(data, "suppress", *[service.url(person) for person in suppressed])
    for person in erased:
        service.contactd(data, "erase", service.url(person))
    service.contactd(data, "suppress", *[flag for person in values for flag in ("--email", f"TOLD{person}@example.com")])
    lines = "".join(json.dumps({"profileUrl": service.url(n), "phones": [f"+1415555{100 + n % 100:04}"], "emails": [{"value": f"told{n}@example.com"}]}) + "\n"
                    for n in range(service.PEOPLE))

    def ask_all(server):
        nonlocal disclosed, lookups
        connection = server.connect()
        for person in [*suppressed, *erased, *values]:
            lookups += 1
            disclosed += server.ask(connection, token, person) == 200

    with service.serving(data) as server:
        for number in range(10):
            for text in (service.rows(), lines):
                service.contactd(data, "import", "-", "--source", f"again-{number}", input=text)
                ask_all(server)
    for number in range(10):
        restored = work / f"restored-{number}"
        service.contactd(restored, "restore", backup, "--suppressions-from", data)
        service.contactd(restored, "import", "-", "--source", "again", input=service.rows())
        with service.serving(restored) as server:
            ask_all(server)
    assert disclosed == 0
    return {"imports": 20, "restores": 10, "lookups": lookups, "disclosed": disclosed}


def interleavings(work):
    """Clients look up people while others import, suppress and unsuppress. Every answer is checked by when it was requested."""
    data, steps, wrong = work / "inter", 0, 0
    token = service.store(data)
    # For each suppressed person: the time at which `suppress` returned. Removed before `unsuppress` starts.
    out_since, lock, is_over = {}, threading.Lock(), threading.Event()

    def look_up(seed):
        nonlocal steps, wrong
        chosen, connection = random.Random(seed), server.connect()
        while not is_over.is_set():
            person = chosen.randrange(20)
            with lock:
                since = out_since.get(person)
            status = server.ask(connection, token, person)
            with lock:
                steps += 1
                # Wrong if the person was suppressed before the request, and the same suppression still holds after the answer.
                if status == 200 and since is not None and out_since.get(person) == since:
                    wrong += 1

    def import_all():
        nonlocal steps
        while not is_over.is_set():
            service.contactd(data, "import", "-", "--source", "inter", input=service.rows(20))
            with lock:
                steps += 1

    with service.serving(data) as server:
        threads = [threading.Thread(target=look_up, args=(seed,)) for seed in range(4)] + [threading.Thread(target=import_all)]
        for thread in threads:
            thread.start()
        chosen, opt_outs = random.Random(9), 0
        while steps < STEPS:
            person = chosen.randrange(20)
            if person in out_since:
                with lock:
                    out_since.pop(person)
                service.contactd(data, "unsuppress", service.url(person))
            else:
                service.contactd(data, "suppress", service.url(person))
                with lock:
                    out_since[person] = time.monotonic()
                opt_outs += 1
            with lock:
                steps += 1
        is_over.set()
        for thread in threads:
            thread.join()
    assert wrong == 0
    return {"steps": steps, "optOuts": opt_outs, "disclosedAfterwards": wrong}


def main():
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(())
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    report = {"command": "python3 soak/disclosure.py", "commit": stage.commit()}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        for name, measure in (("comesBack", comes_back), ("interleavings", interleavings), ("kills", kills), ("faults", faults)):
            began = time.monotonic()
            report[name] = {**measure(work), "seconds": round(time.monotonic() - began)}
            print(name, json.dumps(report[name], indent=1), flush=True)
    out = stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-disclosure.json"
    out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
