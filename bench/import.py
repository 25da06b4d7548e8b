#!/usr/bin/env python3
"""Measures importing a file of contacts: contactd, PostgreSQL's COPY and SQLite's .import, with the same rows in the same run.

    python3 bench/import.py                    # ten million rows in random order, each with a phone number and an e-mail address
    python3 bench/import.py --rows 1000000 --no-write

contactd validates, normalises, sorts and makes its lookup table. The others load the text unchanged into a table with the profile as
its key. contactd and COPY take turns, three times each. Then contactd imports the same file again, and a file of 100,000 rows into
the full store. Needs the PostgreSQL server
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
import statistics
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


QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def importing(data, people):
    return [stage.BINARY, "import", people, "--source", "bench", "--data", data, "--json"]


def contactd(work, people):
    """Into a new store."""
    data = work / "contactd"
    shutil.rmtree(data, ignore_errors=True)
    os.sync()
    return timed(importing(data, people), **QUIET)


def contactd_again(work, people, rows):
    """What is imported into the full store."""
    data, update = work / "contactd", work / "update.csv"
    store, table = (sum(file.stat().st_size for file in data.glob(names)) for names in ("*.db*", "*.table"))
    again = timed(importing(data, people), **QUIET)
    with open(people) as source, open(update, "w") as out:
        out.write(source.readline().strip() + ",confidence\n")
        out.writelines(line.strip() + ",77\n" for line, _ in zip(source, range(100_000)))
    small = timed(importing(data, update), **QUIET)
    return {"again": again, "update100k": small, "bytesPerProfile": round(store / rows), "tableBytesPerProfile": round(table / rows)}


def postgres_bin():
    found = shutil.which("initdb") or next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))), None)
    if not found:
        stage.sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql", stdout=subprocess.DEVNULL)
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))[-1]
    return pathlib.Path(os.path.realpath(found)).parent


def postgres(work, people):
    """COPY into a table whose key is the profile, on a separate server."""
    programs, data, port = postgres_bin(), work / "postgres", stage.free_port()
    shutil.rmtree(data, ignore_errors=True)
    os.sync()
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
    arguments.add_argument("--rounds", type=int, default=3, help="how often contactd and COPY import the file, one after the other")
    arguments.add_argument("--binary", type=pathlib.Path, help="a contactd that is built already")
    arguments.add_argument("--no-write", action="store_true", help="print only")
    args = arguments.parse_args()
    if args.binary:
        stage.BINARY = args.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    work = stage.WORK / "import"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    people = work / "people.csv"
    make_file(people, args.rows, 3)
    report = {"command": f"python3 bench/import.py --rows {args.rows} --rounds {args.rounds}", "commit": stage.commit(), "rows": args.rows,
              "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}", "rounds": []}
    try:
        for number in range(args.rounds):
            report["rounds"].append({"contactd": contactd(work, people), "copy": postgres(work, people)})
            print(f"round {number + 1}:", json.dumps(report["rounds"][-1]), flush=True)
        report |= contactd_again(work, people, args.rows)
        report["sqliteImport"] = sqlite(work, people)
    finally:
        shutil.rmtree(work, ignore_errors=True)

    def median(name):
        return {figure: statistics.median(each[name][figure] for each in report["rounds"]) for figure in ("seconds", "cpuSeconds", "peakMiB")}

    ours = median("contactd")
    ratios = [each["contactd"]["seconds"] / each["copy"]["seconds"] for each in report["rounds"]]
    report["timesCopy"] = {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)}

    def line(name, figures):
        return (f"| {name} | {figures['seconds']} s | {args.rows / figures['seconds'] / 1e6:.2f} M rows/s | "
                f"{ours['seconds'] / figures['seconds']:.2f} | {figures['cpuSeconds']} s | {figures['peakMiB']} MiB |")

    text = "\n".join([
        "| | time | rate | contactd's time beside it | processor time | most memory |", "|---|---|---|---|---|---|",
        line("contactd, validated and normalised, with its lookup table", ours), line("contactd, the same file again", report["again"]),
        line("PostgreSQL COPY (processor time and memory of psql only)", median("copy")), line("sqlite3 .import", report["sqliteImport"]), "",
        f"contactd's time is {report['timesCopy']['median']:.2f} ({report['timesCopy']['min']:.2f}–{report['timesCopy']['max']:.2f}) of COPY's beside it.",
        f"100,000 rows into the full store: {report['update100k']['seconds']} s. On disk: {report['bytesPerProfile']} bytes per profile "
        f"with a phone number and an e-mail address, and {report['tableBytesPerProfile']} of the lookup table."])
    print(text)
    if not args.no_write:
        out = stage.BENCH / f"runs/{datetime.date.today().isoformat()}-import-{args.rows}"
        out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        out.with_suffix(".md").write_text(f"{args.rows:,} rows, {report['machine']}, commit {report['commit']}: `{report['command']}`\n\n{text}\n")


if __name__ == "__main__":
    main()
