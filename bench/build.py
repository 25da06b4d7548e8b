#!/usr/bin/env python3
"""How long a newcomer waits: the release build, the demo, and every check, each from an empty target in a fresh clone.

    python3 bench/build.py                  # all three; prints, and writes bench/runs/
    python3 bench/build.py release demo     # only some

The packages of the registry are there already: how long they take to arrive says nothing about us. Nothing else may run meanwhile.
Machines differ, also from one hour to the next, so the run has the time of a fixed computation before and after each step: compare
runs by that.
"""
import datetime
import hashlib
import json
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
MINUTES_AT_MOST = {"release": 8, "demo": 4, "check": 15}


def release(clone):
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=clone, check=True)


def demo(clone):
    """The first command of the README, until the first of the commands that it prints has its answer."""
    serving = subprocess.Popen(["cargo", "run", "--", "serve", "--demo"], cwd=clone, stdout=subprocess.PIPE, text=True)
    try:
        curl = next(line for line in serving.stdout if line.startswith("curl "))
        answer = subprocess.run(shlex.split(curl), check=True, capture_output=True, text=True).stdout
        if "phoneNumber" not in answer:
            raise SystemExit(f"the demo answered {answer}")
    finally:
        serving.terminate()
        serving.wait()


def check(clone):
    (ROOT / "target").mkdir(exist_ok=True)
    with open(ROOT / "target" / "check.log", "w") as log:
        done = subprocess.run(["./check"], cwd=clone, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    if done.returncode:
        raise SystemExit("a check failed: target/check.log")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fixed_work_ms():
    """How long a fixed computation takes on one core: the median of five."""
    def once():
        began = time.monotonic()
        hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 1_000_000)
        return time.monotonic() - began
    return round(sorted(once() for _ in range(5))[2] * 1000)


def measure(step):
    with tempfile.TemporaryDirectory(prefix="contactd-build-") as directory:
        # PostgreSQL runs as another user, who has to get there.
        os.chmod(directory, 0o755)
        clone = pathlib.Path(directory) / "contactd"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        fixed_work = fixed_work_ms()
        began, used = time.monotonic(), cpu_seconds()
        step(clone)
        taken = {"seconds": round(time.monotonic() - began), "cpu_seconds": round(cpu_seconds() - used)}
        return {**taken, "fixed_work_ms": [fixed_work, fixed_work_ms()]}


def main():
    # Everything is built in the clone, whatever the caller's own settings are.
    os.environ.pop("CARGO_TARGET_DIR", None)
    subprocess.run(["cargo", "fetch", "--quiet", "--locked"], cwd=ROOT, check=True)
    steps = sys.argv[1:] or list(MINUTES_AT_MOST)
    measured = {}
    for name in steps:
        measured[name] = measure(globals()[name])
        print(name, measured[name], f"at most {MINUTES_AT_MOST[name] * 60}", flush=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    run = {"commit": commit, "cores": os.cpu_count(), **measured}
    path = ROOT / "bench" / "runs" / f"{datetime.date.today()}-build.json"
    path.write_text(json.dumps(run, indent=1) + "\n")
    print(path.relative_to(ROOT))
    late = [name for name in steps if measured[name]["seconds"] > MINUTES_AT_MOST[name] * 60]
    if late:
        raise SystemExit(f"too long: {', '.join(late)}")


if __name__ == "__main__":
    main()
