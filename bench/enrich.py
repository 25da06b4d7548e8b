#!/usr/bin/env python3
"""How long `enrich` takes for many rows, beside an earlier build, on the same running service.

    python3 bench/enrich.py --before PATH                                # a binary of the earlier version; builds, and writes bench/runs/
    python3 bench/enrich.py --before PATH --binary PATH --rows 50000     # a smaller one, with a binary that is built already; writes nothing

The versions take turns. Half of the rows are people who are on file. Neither is bound to a core: the service and the command share
the machine, as they do when an operator enriches a file. The outputs have to be the same, byte by byte. `seconds` are those of the whole
command, from its start to the finished file; `memoryMib` is the most that the command had in memory.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

import stage


def enrich(binary, people, out, port, token):
    """Enriches the file. Returns the seconds, and the most memory in MiB."""
    began = time.monotonic()
    process = subprocess.Popen([binary, "enrich", people, out, "--url", f"http://127.0.0.1:{port}", "--token", token],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, process.returncode
    return time.monotonic() - began, usage.ru_maxrss // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not options.binary:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    stage.BINARY = (options.binary or stage.BINARY).resolve()
    binaries = {"before": options.before.resolve(), "after": stage.BINARY}
    stage.WORK.mkdir(parents=True, exist_ok=True)
    data, tokens = stage.contactd_data(options.rows)
    port = stage.free_port()
    took, memory = {name: [] for name in binaries}, {name: [] for name in binaries}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        people = work / "people.csv"
        with open(people, "w") as rows:
            rows.write("id,profileUrl\n")
            rows.writelines(f"{row},https://www.{stage.key(2 * row)}\n" for row in range(options.rows))
        server = subprocess.Popen([stage.BINARY, "serve", "--data", data, "--listen", f"127.0.0.1:{port}", "--admin-listen",
                                   f"127.0.0.1:{stage.free_port()}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(5)
            for number in range(options.rounds):
                for name, binary in binaries.items():
                    seconds, mib = enrich(binary, people, work / f"{name}.csv", port, tokens[0])
                    took[name].append(seconds)
                    memory[name].append(mib)
                    print(f"round {number + 1}, {name}: {seconds:.1f} s, {options.rows / seconds:.0f} rows/s, {mib} MiB", flush=True)
                outputs = [(work / f"{name}.csv").read_bytes() for name in binaries]
                assert outputs[0] == outputs[1], "the outputs differ"
                for name in binaries:
                    (work / f"{name}.csv").unlink()
        finally:
            server.terminate()
            server.wait()
    ratio = statistics.median(before / after for before, after in zip(took["before"], took["after"]))
    result = {"rows": options.rows, "timesAsFast": round(ratio, 2),
              "seconds": {name: [round(seconds, 1) for seconds in all] for name, all in took.items()}, "memoryMib": memory}
    print(json.dumps(result))
    if options.rows >= 1_000_000:
        command = f"python3 bench/enrich.py --before {options.before.name} --rows {options.rows} --rounds {options.rounds}"
        report = {"command": command, "commit": stage.commit(), "machine": {"cpus": os.cpu_count(), "kernel": platform.release()}, **result}
        (stage.BENCH / f"runs/{datetime.date.today()}-enrich.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
