#!/usr/bin/env python3
"""Start time and memory with a million profiles.

    cargo build --release && python3 bench/start.py            # prints, and writes bench/runs/

Imports invented people into a throw-away data directory, starts the service on it ten times
and measures from the start of the process to its first answered lookup; then looks up 50,000
people, half of them unknown, and reads the memory that is not page cache (RssAnon).
"""
import csv
import datetime
import json
import os
import pathlib
import platform
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target/release/contactd"
PROFILES = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
STARTS = 10
LOOKUPS = 50_000


def url(number):
    return f"https://www.linkedin.com/in/bench-quell-{number * 2654435761 % 2**32:08x}"


def run(data, *args):
    return subprocess.run([BINARY, *args, "--data", data], check=True, capture_output=True, text=True).stdout.strip()


def load(data, directory):
    path = os.path.join(directory, "people.csv")
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["profileUrl", "phone", "email"])
        for n in range(PROFILES):
            out.writerow([url(n), f"+1415555{100 + n % 100:04}", f"p{n}@example.com"])
    began = time.monotonic()
    run(data, "import", path, "--source", "bench")
    took = time.monotonic() - began
    os.remove(path)
    return took


class Service:
    def __init__(self, data):
        began = time.monotonic()
        self.process = subprocess.Popen(
            [BINARY, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while True:
            found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.process.stderr.readline())
            if found:
                break
        self.socket = socket.create_connection(("127.0.0.1", int(found.group(1))))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.began = began

    def look_up(self, token, profile_url):
        body = json.dumps({"profileUrl": profile_url})
        self.socket.sendall((f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
                             f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        return self.socket.recv(65536)[9:12].decode()

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {name: int(re.search(rf"{name}:\s+(\d+)", status).group(1)) // 1024 for name in ("VmRSS", "RssAnon", "RssFile")}

    def stop(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()


def main():
    with tempfile.TemporaryDirectory() as directory:
        data = os.path.join(directory, "data")
        import_seconds = load(data, directory)
        token = run(data, "token", "create", "bench")
        starts = []
        for _ in range(STARTS):
            service = Service(data)
            assert service.look_up(token, url(7)) == "200"
            starts.append(round((time.monotonic() - service.began) * 1000, 1))
            service.stop()
        service = Service(data)
        chosen = random.Random(7)
        for n in range(LOOKUPS):
            known = n % 2 == 0
            status = service.look_up(token, url(chosen.randrange(PROFILES)) if known else f"https://linkedin.com/in/unknown-{n}")
            assert status == ("200" if known else "404"), status
        memory = service.memory()
        service.stop()
        size = sum(file.stat().st_size for file in pathlib.Path(data).glob("*.db*"))
    report = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Linux {platform.release().split('-')[0]}",
        "profiles": PROFILES,
        "importSeconds": round(import_seconds, 1),
        "startToFirstAnswerMillis": {"median": statistics.median(starts), "max": max(starts), "all": starts},
        "memoryMiB": {"anonymous": memory["RssAnon"], "pageCacheMapped": memory["RssFile"], "resident": memory["VmRSS"]},
        "bytesOnDiskPerProfile": round(size / PROFILES),
    }
    text = json.dumps(report, indent=2)
    print(text)
    out = ROOT / f"bench/runs/{report['date']}-start-{PROFILES}.json"
    out.write_text(text + "\n")


if __name__ == "__main__":
    main()
