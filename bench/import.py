#!/usr/bin/env python3
"""Measures importing a file of contacts: contactd, PostgreSQL's COPY and SQLite's .import, with the same rows in the same run.

    python3 bench/import.py                    # ten million rows in random order, each with a phone number and an e-mail address
    python3 bench/import.py --rows 1000000 --no-write

contactd validates, normalises and sorts. The others load the text unchanged into a table with the profile as its key.
Then contactd imports the same file again, and a file of 100,000 rows into the full store. Needs the PostgreSQL server
(installed as a Debian package if it is missing) and a user to run it, because PostgreSQL does not run as root.
"""
import argparse
import datetime
import glob
import json
import os
import pathlib
import platform
import random
import resource
import shutil
import subprocess
import time

import stage

POSTGRES_USER = "postgres"


def make_file(path, rows, seed):
    """Invented people in random order."""
    numbers = list(range(rows))
    random.Random(seed).shuffle(numbers)
    with open(path, "w") as out:
        out.write("profileUrl,phone,email\n")
        out.writelines(f"https://www.{stage.key(n)},{stage.phone(n)},p{n}@example.com\n" for n in numbers)


def timed(command, **options):
    """Runs a command. Returns its elapsed seconds, CPU seconds, and peak memory."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen([str(part) for part in command], **options)
    peak = 0
    while process.poll() is None:
        try:
            status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
            peak = max([peak] + [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")])
        except OSError:
            pass
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"failed: {command}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"seconds": round(time.monotonic() - began, 1), "peakMiB": peak // 1024,
            "cpuSeconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1)}


def contactd(work, people, rows):
    data = work / "contactd"
    importing = [stage.BINARY, "import", people, "--source", "bench", "--data", data, "--json"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = timed(importing, **quiet)
    size = sum(file.stat().st_size for file in data.glob("*.db*"))
    second = timed(importing, **quiet)
    update = work / "update.csv"
    with open(people) as source, open(update, "w") as out:
        out.write(source.readline().strip() + ",confidence\n")
        out.writelines(line.strip() + ",77\n" for line, _ in zip(source, range(100_000)))
    small = timed([stage.BINARY, "import", update, "--source", "bench", "--data", data], **quiet)
    return {"first": first, "again": second, "update100k": small, "bytesPerProfile": round(size / rows)}


def postgres_bin():
    found = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))), None)
    if not found:
        stage.sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql", stdout=subprocess.DEVNULL)
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))[-1]
    return pathlib.Path(os.path.realpath(found)).parent


def postgres(work, people):
    """COPY into a table whose key is the profile, on a separate server."""
    programs, data, port = postgres_bin(), work / "postgres", stage.free_port()
    as_user = ["setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--clear-groups"] if os.getuid() == 0 else []
    data.mkdir()
    if as_user:
        shutil.chown(data, POSTGRES_USER, POSTGRES_USER)
    stage.sh(*as_user, programs / "initdb", "-D", data, "-U", "bench", "--auth=trust", stdout=subprocess.DEVNULL, cwd="/")
    options = f"-p {port} -k {data} -c listen_addresses= -c shared_buffers=1GB -c max_wal_size=8GB"
    stage.sh(*as_user, programs / "pg_ctl", "-D", data, "-w", "-l", data / "log", "-o", options, "start", stdout=subprocess.DEVNULL, cwd="/")
    try:
        psql = [programs / "psql", "-q", "-h", data, "-p", str(port), "-U", "bench", "postgres", "-c"]
        stage.sh(*psql, "CREATE TABLE contacts (profile text PRIMARY KEY, phone text, email text)")
        return timed([*psql, f"\\copy contacts FROM '{people}' CSV HEADER"], stdout=subprocess.DEVNULL)
    finally:
        stage.sh(*as_user, programs / "pg_ctl", "-D", data, "-m", "fast", "stop", stdout=subprocess.DEVNULL, cwd="/")


def sqlite(work, people):
    if not shutil.which("sqlite3"):
        stage.sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "sqlite3", stdout=subprocess.DEVNULL)
    script = work / "import.sql"
    script.write_text("PRAGMA journal_mode = WAL;\nCREATE TABLE contacts (profile TEXT PRIMARY KEY, phone TEXT, email TEXT) WITHOUT ROWID;\n"
                      f".import --csv --skip 1 {people} contacts\n")
    with open(script) as commands:
        return timed(["sqlite3", work / "plain.db"], stdin=commands, stdout=subprocess.DEVNULL)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=10_000_000)
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    work = stage.WORK / "import"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    people = work / "people.csv"
    make_file(people, args.rows, 3)
    report = {"command": f"python3 bench/import.py --rows {args.rows}", "commit": stage.commit(), "rows": args.rows,
              "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}"}
    try:
        report["contactd"] = contactd(work, people, args.rows)
        print(json.dumps(report["contactd"]), flush=True)
        report["postgresCopy"] = postgres(work, people)
        print(json.dumps(report["postgresCopy"]), flush=True)
        report["sqliteImport"] = sqlite(work, people)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    ours = report["contactd"]

    def line(name, figures):
        return (f"| {name} | {figures['seconds']} s | {args.rows / figures['seconds'] / 1e6:.2f} M rows/s | "
                f"{ours['first']['seconds'] / figures['seconds']:.2f} | {figures['peakMiB']} MiB |")

    text = "\n".join([
        "| | time | rate | contactd's time / this time | peak memory |", "|---|---|---|---|---|",
        line("contactd, validated and normalised", ours["first"]), line("contactd, the same file again", ours["again"]),
        line("PostgreSQL COPY (memory of psql only)", report["postgresCopy"]), line("sqlite3 .import", report["sqliteImport"]), "",
        f"100,000 rows into the full store: {ours['update100k']['seconds']} s. On disk: {ours['bytesPerProfile']} bytes per profile "
        "with a phone number and an e-mail address."])
    print(text)
    if not args.no_write:
        out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-import-{args.rows}"
        out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        out.with_suffix(".md").write_text(f"{args.rows:,} rows, {report['machine']}, commit {report['commit']}: `{report['command']}`\n\n{text}\n")


if __name__ == "__main__":
    main()
