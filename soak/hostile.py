#!/usr/bin/env python3
"""Sends a million hostile requests to a real server and checks every answer.

    python3 soak/hostile.py                           # builds the release binary, prints, and writes soak/runs/
    python3 soak/hostile.py --requests 20000          # a shorter run
    python3 soak/hostile.py --seed 7 --only 1234      # sends one exchange of a seed again and prints it whole
    python3 soak/hostile.py --binary PATH             # tests this binary, and builds none

The `hostile` of crates/bench-tools makes the requests from a seed: valid ones with bytes changed, wrong lengths, broken chunks, huge heads, odd methods,
paths and tokens, JSON of every shape, several requests at once, and requests that are cut off. Every answer must have a documented
status, never 500, and the headers and body that are documented for it. Among them are good lookups, which must succeed. Afterwards the
server must still run and answer, its log must report no internal error, and its memory in the last quarter of
the run must not be larger than in the third by more than 2 MiB or 3 %.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

THREADS = 8
MOST_GROWTH_KIB, MOST_GROWTH = 2_048, 0.03
# Shorter runs are judged by their answers only: memory has not settled, and rare statuses may not come.
LONG = 500_000
# Documented statuses that a long run cannot miss.
EXPECTED = {200, 204, 307, 400, 401, 404, 405, 413, 415, 429, 431}
DOCUMENTED = EXPECTED | {408, 503}


def tokens(data):
    """Tokens of every kind. The first one has no limits and is used for the good lookups."""
    def create(name, *flags):
        return service.contactd(data, "token", "create", name, *flags).strip()

    made = [service.store(data), create("phone", "--scope", "phone"), create("email", "--scope", "email"), create("slow", "--rate", "20/s"),
            create("few", "--quota", "500/day"), create("short", "--expires", "1s"), create("revoked")]
    listed = json.loads(service.contactd(data, "token", "list", "--json"))
    service.contactd(data, "token", "revoke", listed[-1]["id"])
    return made


def run(options, work):
    generator = stage.tool("hostile")
    data, tokens_file, log, config = work / "data", work / "tokens", work / "log", work / "contactd.toml"
    made = tokens(data)
    # Half of the requests have the good token, so that many get past its checks.
    tokens_file.write_text("".join(f"{token}\n" for token in [made[0]] * len(made) + made))
    config.write_text('[cors]\nallow_origins = ["https://app.example.com"]\n')
    with service.serving(data, "--config", config, "--log-file", log) as server:
        command = [generator, server.port, server.process.pid, options.seed, options.requests, THREADS, tokens_file]
        if options.only is not None:
            stage.sh(*command, options.only)
            return None
        began = time.monotonic()
        said = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
        seconds = time.monotonic() - began
        answers = server.process.poll() is None and server.ask(server.connect(), made[0], 1) == 200
        faults = [line for line in log.read_text().splitlines() if "internal error" in line or "panic" in line or '"ERROR"' in line]
    lines = [line.split("=", 1) for line in said.splitlines() if "=" in line]
    problems = [value for name, value in lines if name == "PROBLEM"]
    found = {name: int(value) for name, value in lines if name in ("REQUESTS", "EXCHANGES", "PROBLEMS")}
    statuses = {int(status): int(count) for status, count in (value.split() for name, value in lines if name == "STATUS")}
    memory = [int(value) for name, value in lines if name == "MEMORY"]
    # The third and the last quarter: single samples vary by a few MiB.
    quarter = len(memory) // 4
    half, end = statistics.median(memory[-2 * quarter:-quarter]), statistics.median(memory[-quarter:])
    return {
        "seed": options.seed, "requests": found["REQUESTS"], "connections": found["EXCHANGES"], "answers": sum(statuses.values()),
        "seconds": round(seconds), "statuses": statuses, "problems": found["PROBLEMS"], "firstProblems": problems,
        "undocumentedStatuses": sorted(set(statuses) - DOCUMENTED), "statusesNeverSeen": sorted(EXPECTED - set(statuses)),
        "stillAnswers": answers, "faultsInLog": faults[:5],
        "memoryKib": memory, "memoryGrowthSecondHalfKib": end - half,
        "isMemoryFlat": end - half <= max(MOST_GROWTH_KIB, half * MOST_GROWTH),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    stage.WORK.mkdir(parents=True, exist_ok=True)
    if options.binary:
        stage.BINARY = options.binary
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        report = run(options, pathlib.Path(work))
    if report is None:
        return
    for problem in report["firstProblems"]:
        print("PROBLEM", problem)
    print(json.dumps({name: value for name, value in report.items() if name != "firstProblems"}, indent=1))
    is_long = report["requests"] >= LONG
    failed = [name for name, is_wrong in {
        "wrong answers": report["problems"], "undocumented statuses": report["undocumentedStatuses"],
        "documented statuses that never came": is_long and report["statusesNeverSeen"], "the server no longer answers": not report["stillAnswers"],
        "internal errors in the log": report["faultsInLog"], "memory grew": is_long and not report["isMemoryFlat"]}.items() if is_wrong]
    out = stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-hostile.json"
    command = " ".join(["python3 soak/hostile.py", *sys.argv[1:]])
    out.write_text(json.dumps({"command": command, "commit": stage.commit(), "failed": failed, **report}, indent=1) + "\n")
    if failed:
        raise SystemExit("failed: " + "; ".join(failed))


if __name__ == "__main__":
    main()
