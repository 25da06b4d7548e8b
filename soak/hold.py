#!/usr/bin/env python3
"""Holds thousands of connections open in every bad way, and measures what a good client notices.

    python3 soak/hold.py                        # everything; builds the release binary, prints, and writes soak/runs/
    python3 soak/hold.py idle token             # only these parts, of: sockets, idle, token
    python3 soak/hold.py --sockets 500 --idle 500 --rounds 1 --binary PATH    # a small run with another binary

sockets: 5,000 connections, one kind after the other: silent; half a head; one byte a second in the head; one byte a second in the
body; never reading the answers; half a TLS handshake. All must be closed on time, and the p99 of a good client must stay below
three times that of a quiet server, while they are opened, held and closed.
idle: the memory of 10,000 connections that have each done one request, below 20 KiB each, and below 40 KiB with TLS.
token: 64 connections of one token that send slow bodies, or that flood (wrk). All requests of another token must succeed, with a
p99 below three times that of a quiet server.

The server has one worker and is pinned to one core, all clients to the other. It allows 15,000 connections, and its idle timeout is
shorter than the default so that the run is short: see LIMITS. The good client is the `latency` of crates/bench-tools on one connection (`token`: on four, so
that its requests do not wait for each other), and with TLS a loop in Python. As root it has real-time priority, so that it does
not wait for the other clients. Quiet and busy rounds alternate; the medians of their p99 are compared.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import resource
import select
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

PARTS = ("sockets", "idle", "token")
# Seconds. The defaults are 10, 10 and 75.
LIMITS = {"head_timeout": 10, "body_timeout": 10, "idle_timeout": 10}
# The server checks deadlines every 100 ms; the rest is for the load on this machine.
EARLIEST, LATEST = -0.2, 1.0
# Slowly enough that opening connections is not the load that is measured, and fast enough that all are open at once.
OPENED_PER_SECOND = 600
RATE, QUIET_SECONDS = 300, 5
# Of the good client.
CONNECTIONS, TOKEN_CONNECTIONS = 1, 4
MOST_RATIO = 3
MOST_IDLE_KIB = {"plain": 20, "tls": 40}
OPENERS = 4
SLOW_OR_FLOODING = 64


def request(token, person=1):
    body = json.dumps({"profileUrl": service.url(person)})
    return (f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()


def head_of_slow_body(token):
    return (f"POST /api/fetchPhoneNumber HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n"
            "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n").encode()


def half_hello():
    """The first half of what a TLS client sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="bench.example.com")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    return hello[:len(hello) // 2]


class Kind:
    """One way to hold a connection: what it sends first, what it sends every second, and the limit that ends it."""

    def __init__(self, first, limit, each_second=b"", is_deaf=False, is_tls=False):
        self.first, self.limit, self.each_second, self.is_deaf, self.is_tls = first, limit, each_second, is_deaf, is_tls


def kinds(token):
    half_head = request(token)[:60]
    return {
        "silent": Kind(b"", "head_timeout"),
        "halfHead": Kind(half_head, "head_timeout"),
        "slowHead": Kind(half_head, "head_timeout", b"x"),
        "slowBody": Kind(head_of_slow_body(token), "body_timeout", b" "),
        # Far more answers than the buffers of the connection hold.
        "neverReading": Kind(b"GET /openapi.json HTTP/1.1\r\nHost: bench\r\n\r\n" * 400, "idle_timeout", is_deaf=True),
        "halfHandshake": Kind(half_hello(), "head_timeout", is_tls=True),
    }


class Held:
    """Opens connections, keeps them as their kind demands, and records how long the server let each one live."""

    def __init__(self, port, kind, count):
        self.port, self.kind, self.count = port, kind, count
        self.poll = select.epoll()
        self.open, self.most_open, self.lives, self.failed = {}, 0, [], 0

    def connect(self):
        connection = socket.socket()
        if self.kind.is_deaf:
            # Small buffers, and segments of the size usual outside loopback: otherwise the server's system holds megabytes for each.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1460)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection.settimeout(10)
        try:
            connection.connect(("127.0.0.1", self.port))
        except OSError:
            self.failed += 1
            return
        opened = time.monotonic()
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.send(self.kind.first)
        # A deaf client must not notice data, only the end of the connection.
        self.poll.register(connection, 0 if self.kind.is_deaf else select.EPOLLIN | select.EPOLLRDHUP)
        self.open[connection.fileno()] = [connection, opened, opened + 1]
        self.most_open = max(self.most_open, len(self.open))

    def look(self, seconds):
        for number, event in self.poll.poll(seconds, 512):
            connection, opened, _ = self.open[number]
            if event & select.EPOLLIN and not event & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
                with contextlib.suppress(OSError):
                    if connection.recv(65536):
                        continue
            self.lives.append(time.monotonic() - opened)
            self.poll.unregister(number)
            del self.open[number]
            connection.close()

    def run(self):
        """Until all are closed, or long after they should be."""
        began, started = time.monotonic(), 0
        deadline = began + self.count / OPENED_PER_SECOND + LIMITS[self.kind.limit] + 10
        queue_at, queue = 0, []
        while (now := time.monotonic()) < deadline and (started < self.count or self.open):
            due = min(self.count, int((now - began) * OPENED_PER_SECOND) + 1)
            # A few at a time, so that the good client gets the core in between.
            for _ in range(min(due - started, 3)):
                self.connect()
                started += 1
            if self.kind.each_second:
                if queue_at >= len(queue):
                    queue, queue_at = list(self.open), 0
                for number in queue[queue_at:queue_at + 20]:
                    if number in self.open and self.open[number][2] <= now:
                        self.open[number][2] = now + 1
                        with contextlib.suppress(OSError):
                            self.open[number][0].send(self.kind.each_second)
                queue_at += 20
            self.look(0.001)
        left = len(self.open)
        for connection, *_ in self.open.values():
            connection.close()
        self.poll.close()
        return left


def certificate(work):
    """A self-signed certificate and its key."""
    cert, key = work / "server.pem", work / "server.key"
    if not cert.exists():
        stage.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", "/CN=bench.example.com", "-addext", "subjectAltName=DNS:bench.example.com", "-keyout", key, "-out", cert,
                 stderr=subprocess.DEVNULL)
        key.chmod(0o600)
    return cert, key


@contextlib.contextmanager
def serving(work, is_tls, limits):
    data, config = work / "data", work / "contactd.toml"
    text = "[limits]\nconnections = 15000\n" + "".join(f'{name} = "{seconds}s"\n' for name, seconds in limits.items())
    if is_tls:
        cert, key = certificate(work)
        text += f'[tls]\ncert = "{cert}"\nkey = "{key}"\nadmin = false\n'
    config.write_text(text)
    port = stage.free_port()
    server = stage.Server("contactd", port, [stage.BINARY, "serve", "--workers", "1", "--data", data, "--config", config,
                                             "--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{stage.free_port()}"])
    try:
        ready = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            if time.monotonic() > ready or server.process.poll() is not None:
                raise SystemExit("the service did not start")
            time.sleep(0.02)
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def memory_kib(server):
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{server.process.pid}/status").read_text()).group(1))


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def tls_client():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Asker:
    """The good client, on kept-alive connections. Its p99 is in microseconds, counted from when a request was due."""

    def __init__(self, server, work, token, seconds, is_tls=False, connections=CONNECTIONS):
        requests = work / "requests"
        requests.write_bytes(b"".join(request(token, person) + b"\n----\n" for person in range(500)))
        # The good client must not wait for the other clients on its core.
        first = ["chrt", "-f", "10"] if os.getuid() == 0 and shutil.which("chrt") else []
        program = [sys.executable, __file__, "--ask"] if is_tls else [stage.tool("latency")]
        # With a nap, so that the other clients can use the core.
        more = [] if is_tls else [100, connections]
        command = [*first, "taskset", "-c", stage.LOAD_CORE, *program, server.port, RATE, seconds, requests, *more]
        self.process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self):
        out, errors = self.process.communicate()
        if self.process.returncode:
            # Every answer but 200 and 503 ends it.
            return {"failed": errors.strip()[-300:]}
        return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", out)}


def ask(port, rate, seconds, requests):
    """The good client with TLS, like `latency` with evenly spaced requests."""
    requests = pathlib.Path(requests).read_bytes().split(b"\n----\n")[:-1]
    connection = tls_client().wrap_socket(socket.create_connection(("127.0.0.1", int(port)), timeout=10))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    began, times, refused = time.monotonic(), [], 0
    for number in range(int(rate) * int(seconds)):
        due = began + number / int(rate)
        time.sleep(max(0, due - time.monotonic()))
        connection.sendall(requests[number % len(requests)])
        answer = connection.recv(65536)
        if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 503")):
            raise SystemExit(f"not an answer: {answer[:100]}")
        refused += answer.startswith(b"HTTP/1.1 503")
        # The first second is warm-up.
        if due - began > 1:
            times.append(time.monotonic() - due)
    times.sort()
    p50, p99 = (int(times[int((len(times) - 1) * share)] * 1e6) for share in (0.5, 0.99))
    print(f"RESULT p50={p50} p99={p99} refused={refused}")


def compared(quiet, busy):
    """The medians of the rounds, and whether the bounds hold."""
    failures = [found["failed"] for found in quiet + busy if "failed" in found]
    p99 = {name: [found.get("p99") for found in rounds] for name, rounds in (("quiet", quiet), ("busy", busy))}
    known = {name: [value for value in values if value is not None] for name, values in p99.items()}
    report = {"quietP99Micros": p99["quiet"], "busyP99Micros": p99["busy"],
              # `refused` is a rate and may be rounded to 0, but then the longest time of a refusal is not.
              "roundsWith503": sum(found.get("refused", 0) + found.get("refused_max", 0) > 0 for found in busy), "failures": failures}
    if all(known.values()):
        ratio = statistics.median(known["busy"]) / statistics.median(known["quiet"])
        report |= {"ratio": round(ratio, 2), "isRatioBelow3": ratio < MOST_RATIO}
    return report | {"isAllAnswered": not failures and not report["roundsWith503"]}


def sockets(work, token, options):
    report = {"sockets": options.sockets, "limitsSeconds": LIMITS}
    bad = service.contactd(work / "data", "token", "create", "bad").strip()
    for name, kind in kinds(bad).items():
        if options.kinds and name not in options.kinds:
            continue
        quiet, busy, lives, open_at_once, left, failed, descriptors_left = [], [], [], [], 0, 0, 0
        with serving(work, kind.is_tls, LIMITS) as server:
            Asker(server, work, token, 2, kind.is_tls).result()
            for _ in range(options.rounds):
                quiet.append(Asker(server, work, token, QUIET_SECONDS, kind.is_tls).result())
                before = descriptors(server)
                seconds = int(options.sockets / OPENED_PER_SECOND + LIMITS[kind.limit]) + 2
                asker = Asker(server, work, token, seconds, kind.is_tls)
                held = Held(server.port, kind, options.sockets)
                left += held.run()
                busy.append(asker.result())
                failed += held.failed
                open_at_once.append(held.most_open)
                lives += [life - LIMITS[kind.limit] for life in held.lives]
                time.sleep(1.5)
                descriptors_left = max(descriptors_left, descriptors(server) - before)
        lives.sort()
        after = {share: round(lives[int((len(lives) - 1) * part)], 2)
                 for share, part in (("min", 0), ("p50", 0.5), ("p99", 0.99), ("max", 1)) if lives}
        on_time = sum(EARLIEST <= life <= LATEST for life in lives)
        report[name] = {"limit": kind.limit, "closed": len(lives), "closedOnTime": on_time, "neverClosed": left, "notConnected": failed,
                        "secondsAfterLimit": after, "mostOpenAtOnce": open_at_once, "descriptorsLeft": descriptors_left,
                        **compared(quiet, busy), "wereAllOpenAtOnce": min(open_at_once) == options.sockets,
                        "areAllClosedOnTime": on_time == options.sockets * options.rounds and descriptors_left <= 5}
        print(name, json.dumps(report[name]), flush=True)
    return report


def idle(work, token, options):
    report = {"connections": options.idle}
    for name, most in MOST_IDLE_KIB.items():
        with serving(work, name == "tls", {"idle_timeout": 600}) as server:
            context = tls_client()

            def opened():
                connection = socket.create_connection(("127.0.0.1", server.port), timeout=30)
                if name == "tls":
                    connection = context.wrap_socket(connection)
                connection.sendall(request(token))
                if not connection.recv(65536).startswith(b"HTTP/1.1 200"):
                    raise SystemExit("not an answer")
                return connection

            # What the first requests allocate once is not counted.
            for connection in [opened() for _ in range(20)]:
                connection.close()
            time.sleep(1)
            before = memory_kib(server)
            connections, lock = [], threading.Lock()

            def some(count):
                for _ in range(count):
                    connection = opened()
                    with lock:
                        connections.append(connection)

            threads = [threading.Thread(target=some, args=(options.idle // OPENERS,)) for _ in range(OPENERS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            time.sleep(1)
            each = (memory_kib(server) - before) / max(len(connections), 1)
            is_open = len(connections) == options.idle // OPENERS * OPENERS and descriptors(server) >= len(connections)
            for connection in connections:
                connection.close()
        report[name] = {"beforeKib": before, "kibPerConnection": round(each, 2), "mostKib": most, "areAllOpen": is_open,
                        "isBelowMost": each < most and is_open}
        print("idle", name, json.dumps(report[name]), flush=True)
    return report


def slow_bodies(server, token, is_over):
    """64 connections that send a byte a second in the body, and connect again when they are closed."""
    kind = Kind(head_of_slow_body(token), "body_timeout", b" ")
    held = Held(server.port, kind, 0)
    while not is_over.is_set():
        while len(held.open) < SLOW_OR_FLOODING and not is_over.is_set():
            held.connect()
        for entry in held.open.values():
            if entry[2] <= time.monotonic():
                entry[2] += 1
                with contextlib.suppress(OSError):
                    entry[0].send(b" ")
        held.look(0.02)
    for connection, *_ in held.open.values():
        connection.close()


@contextlib.contextmanager
def slow(server, _work, token, _seconds):
    is_over = threading.Event()
    thread = threading.Thread(target=slow_bodies, args=(server, token, is_over))
    thread.start()
    try:
        yield {}
    finally:
        is_over.set()
        thread.join()


@contextlib.contextmanager
def flooding(server, work, token, seconds):
    requests = work / "flood"
    requests.write_bytes(b"".join(request(token, person) + b"\n----\n" for person in range(500)))
    flood = subprocess.Popen(["taskset", "-c", stage.LOAD_CORE, "wrk", "-t1", f"-c{SLOW_OR_FLOODING}", f"-d{seconds + 1}s",
                              "-s", stage.BENCH / "load.lua", f"http://127.0.0.1:{server.port}", "--", requests],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    sent = {}
    try:
        time.sleep(0.3)
        yield sent
    finally:
        said = flood.communicate()[0]
        sent |= {name: int(value) for name, value in re.findall(r"(requests|micros|bad)=(\d+)", said)}


def token_part(work, token, options):
    other, report = service.contactd(work / "data", "token", "create", "other").strip(), {"connections": SLOW_OR_FLOODING}
    for name, pressed in (("slowBodies", slow), ("flooding", flooding)):
        quiet, busy, floods = [], [], []
        with serving(work, False, LIMITS) as server:
            def asked(seconds=QUIET_SECONDS):
                return Asker(server, work, other, seconds, connections=TOKEN_CONNECTIONS).result()

            asked(2)
            for _ in range(options.rounds):
                quiet.append(asked())
                with pressed(server, work, token, QUIET_SECONDS) as flood:
                    busy.append(asked())
                floods += [flood] if flood else []
                time.sleep(0.5)
        report[name] = compared(quiet, busy) | ({"floods": floods} if floods else {})
        print("token", name, json.dumps(report[name]), flush=True)
    return report


def main():
    if sys.argv[1:2] == ["--ask"]:
        return ask(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of: {', '.join(PARTS)}")
    parser.add_argument("--sockets", type=int, default=5_000)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--kinds", nargs="*", help="only these kinds of sockets, such as silent and slowBody")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(())
    if options.binary:
        stage.BINARY = options.binary
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    # Built now, not while something is measured.
    stage.tool("latency")
    report = {"command": " ".join(["python3 soak/hold.py", *sys.argv[1:]]), "commit": stage.commit(), "rounds": options.rounds}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        os.sched_setaffinity(0, {int(stage.LOAD_CORE)})
        token = service.store(work / "data")
        for name, measure in zip(PARTS, (sockets, idle, token_part)):
            if not options.parts or name in options.parts:
                began = time.monotonic()
                report[name] = measure(work, token, options)
                report[name]["seconds"] = round(time.monotonic() - began)
    wrong = [f"{part} {kind}: {bound}" for part in PARTS if part in report for kind, found in report[part].items() if isinstance(found, dict)
             for bound, holds in found.items() if holds is False]
    out = stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-hold.json"
    out.write_text(json.dumps({**report, "failed": wrong}, indent=1) + "\n")
    if wrong:
        raise SystemExit("does not hold: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
