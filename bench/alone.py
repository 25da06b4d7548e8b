"""Measures contactd alone: start time, memory, size on disk, latency at half load and with a cold page cache."""
import os
import pathlib
import random
import re
import socket
import statistics
import subprocess
import time

import stage

STARTS = 10
LOOKUPS = 50_000
COLD_LOOKUPS = 5_000


class Service:
    """A running service, started as an operator would, and one connection to it."""

    def __init__(self, data, token, *flags):
        self.admin = stage.free_port()
        self.token, self.began = token, time.monotonic()
        self.process = subprocess.Popen(
            [stage.BINARY, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", f"127.0.0.1:{self.admin}", *flags],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        while not (found := re.search(r"listening on http://127\.0\.0\.1:(\d+)", self.process.stderr.readline())):
            pass
        self.port = int(found.group(1))
        self.socket = socket.create_connection(("127.0.0.1", self.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def look_up(self, key):
        body = f'{{"profileUrl":"https://www.{key}"}}'
        self.socket.sendall((f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.token}\r\n"
                             f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        return self.socket.recv(65536)[9:12]

    def memory_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return {name: int(re.search(rf"{field}:\s+(\d+)", status).group(1)) * 1024
                for name, field in [("anonymous", "RssAnon"), ("pageCacheMapped", "RssFile")]}

    def memory(self):
        return {name: size >> 20 for name, size in self.memory_bytes().items()}

    def pages_from_disk(self):
        return int(re.search(r"read_bytes: (\d+)", pathlib.Path(f"/proc/{self.process.pid}/io").read_text()).group(1)) // 4096

    def stop(self):
        self.socket.close()
        self.process.terminate()
        self.process.wait()

    def kill(self):
        self.socket.close()
        self.process.kill()
        self.process.wait()


def measure(profiles, data, tokens, full_rate):
    warm(data)
    return {"bytesOnDiskPerProfile": round(sum(file.stat().st_size for file in data.glob("*.db*")) / profiles),
            **start_and_memory(profiles, data, tokens[0]),
            "halfLoad": half_load(profiles, data, tokens, full_rate),
            "cold": cold(profiles, data, tokens[0])}


def warm(data):
    for file in data.glob("*.db"):
        file.read_bytes()


def start_and_memory(profiles, data, token):
    starts = []
    for _ in range(STARTS):
        service = Service(data, token)
        assert service.look_up(stage.key(7)) == b"200"
        starts.append(round((time.monotonic() - service.began) * 1000, 1))
        service.stop()
    service, chosen = Service(data, token), random.Random(7)
    for number in range(LOOKUPS):
        known = number % 2 == 0
        status = service.look_up(stage.key(chosen.randrange(profiles)) if known else f"linkedin.com/in/unknown-{number}")
        assert status == (b"200" if known else b"404"), status
    memory = service.memory()
    service.stop()
    return {"startToFirstAnswerMillis": {"median": round(statistics.median(starts), 1), "max": max(starts)}, "memoryMiB": memory}


def half_load(profiles, data, tokens, full_rate):
    """Latency of contactd at half its maximum rate on one core, and of nginx with a constant answer at the same rate."""
    generator, requests = stage.tool("latency"), stage.request_file("contactd", profiles, tokens)
    figures = {"requestsPerSecond": round(full_rate / 2)}
    for name in ("contactd", "nginx"):
        server = stage.start(name, profiles, data, tokens)
        try:
            server.ready(requests.read_bytes().split(b"\n----\n")[0])
            out = subprocess.run(["taskset", "-c", stage.LOAD_CORE, generator, str(server.port), str(full_rate / 2), "10", requests],
                                 check=True, capture_output=True, text=True).stdout
        finally:
            server.stop()
        figures[name] = {f"{share}Micros": int(value) for share, value in re.findall(r"\b(p\d+)=(\d+)", out)}
    return figures


def cold(profiles, data, token):
    """Sequential lookups of random people, starting with nothing of the store in the page cache."""
    for file in data.glob("*.db*"):
        with open(file, "rb") as handle:
            os.fsync(handle.fileno())
            os.posix_fadvise(handle.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    service, chosen, times = Service(data, token), random.Random(11), []
    pages = service.pages_from_disk()
    for _ in range(COLD_LOOKUPS):
        key = stage.key(chosen.randrange(profiles))
        began = time.monotonic()
        assert service.look_up(key) == b"200"
        times.append((time.monotonic() - began) * 1e6)
    pages = service.pages_from_disk() - pages
    service.stop()
    times.sort()
    return {"lookups": COLD_LOOKUPS, "pagesFromDiskPerLookup": round(pages / COLD_LOOKUPS, 2),
            "p50Micros": round(times[len(times) // 2]), "p99Micros": round(times[len(times) * 99 // 100]),
            "maxMicros": round(times[-1])}
