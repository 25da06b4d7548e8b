#!/usr/bin/env python3
"""Restarts the server 30 times under load, on sockets that stay open, and checks that nobody is refused and no request is lost.

    python3 soak/restart.py                # builds, prints, and writes soak/runs/; about two minutes
    python3 soak/restart.py --restarts 100
    python3 soak/restart.py --quick        # 3 restarts, and writes nothing to soak/runs/
    python3 soak/restart.py --binary PATH  # a binary that is built already

This script holds the listening sockets, as systemd does for a socket unit, and passes them to each server. Meanwhile clients look people
up: on a new connection for each request, on connections that they keep, on connections that they keep and often leave idle, and with
requests that they send in two parts. Another one reads the metrics.

Every attempt has a request id of its own. If a kept connection is closed while it is idle, that is allowed: the client opens another one.
If it is closed when a request was just sent, the server must not have read it: the attempt must have no line in the journal, and the client
repeats it. A request is lost if it was sent on a new connection and not answered, if it was begun and not answered, if its answer was
cut off, or if it has a line in the journal and no answer.
"""
import argparse
import collections
import contextlib
import datetime
import json
import multiprocessing
import pathlib
import random
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

PROCESSES = 3
# How many threads of each kind a process has.
THREADS = {"new": 2, "kept": 2, "idle": 3, "parts": 2, "metrics": 1}
SECONDS_BETWEEN = (0.3, 1.5)
PATIENCE = 60


class Closed(Exception):
    """The connection was closed, and no byte of an answer has come."""


class CutOff(Exception):
    """Only a part of the answer has come."""


class Connection:
    def __init__(self, address):
        self.socket = socket.create_connection(address, timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_fresh, self.is_open = True, True

    def is_closed_by_server(self):
        if not self.is_open or not select.select([self.socket], [], [], 0)[0]:
            return not self.is_open
        with contextlib.suppress(OSError):
            # Nothing was asked, so whatever can be read is the end.
            self.socket.recv(1)
        return True

    def send(self, part):
        try:
            self.socket.sendall(part)
        except OSError as error:
            raise Closed from error

    def receive(self, received):
        try:
            more = self.socket.recv(65536)
        except TimeoutError:
            raise
        except OSError as error:
            raise (CutOff if received else Closed) from error
        if not more:
            raise CutOff if received else Closed
        return received + more

    def answer(self):
        """The status. The connection is open afterwards only if the server keeps it."""
        received = b""
        while b"\r\n\r\n" not in received:
            received = self.receive(received)
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:])
        while len(body) < int(headers["content-length"]):
            received = self.receive(received)
            body = received.partition(b"\r\n\r\n")[2]
        self.is_fresh, self.is_open = False, headers.get("connection") != "close"
        if not self.is_open:
            self.socket.close()
        return int(lines[0].split()[1])


class Client:
    """A thread that sends one kind of requests until it is told to stop."""

    def __init__(self, kind, number, addresses, token):
        self.kind, self.number, self.token = kind, number, token
        self.address = addresses["admin" if kind == "metrics" else "public"]
        self.counts, self.problems, self.longest = collections.Counter(), [], 0
        self.answered, self.unanswered, self.sent = [], [], 0
        self.connection, self.random = None, random.Random(number)

    def request(self, request_id):
        if self.kind == "metrics":
            return b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b""
        body = json.dumps({"profileUrl": service.url(self.random.randrange(40))})
        close = "Connection: close\r\n" if self.kind == "new" else ""
        head = (f"POST /api/fetchPersonalEmail HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {self.token}\r\nContent-Type: application/json\r\n"
                f"X-Request-Id: {request_id}\r\n{close}Content-Length: {len(body)}\r\n\r\n")
        return head.encode(), body.encode()

    def is_begun(self, head):
        """Sends a part of a request. Waits, and says whether the server goes on with it."""
        at = self.random.choice([20, len(head) // 2, len(head)])
        self.connection.send(head[:at])
        time.sleep(self.random.uniform(0.05, 0.3))
        if select.select([self.connection.socket], [], [], 0)[0]:
            return None
        return head[at:]

    def attempt(self, request_id):
        """Whether the request was answered."""
        if self.connection and self.connection.is_closed_by_server():
            self.counts["closedWhileIdle"] += self.connection.is_open
            self.connection.socket.close()
            self.connection = None
        if not self.connection:
            self.connection = Connection(self.address)
        head, body = self.request(request_id)
        is_fresh, may_be_repeated = self.connection.is_fresh, not self.connection.is_fresh
        try:
            if self.kind == "parts":
                rest = self.is_begun(head)
                if rest is None:
                    raise Closed
                may_be_repeated = False
                self.connection.send(rest + body)
            else:
                self.connection.send(head + body)
            status = self.connection.answer()
        except (Closed, CutOff, TimeoutError) as error:
            self.unanswered.append(request_id)
            self.connection.socket.close()
            self.connection = None
            if isinstance(error, Closed) and may_be_repeated:
                self.counts["closedBeforeItWasRead"] += 1
            else:
                self.counts["lost"] += 1
                self.problems.append({"lost": request_id, "kind": self.kind, "how": type(error).__name__, "isNewConnection": is_fresh})
            return False
        if status == 200:
            self.answered.append(request_id)
            return True
        self.counts["otherAnswers"] += 1
        self.problems.append({"answer": status, "kind": self.kind})
        return True

    def run(self, is_over):
        while not is_over.is_set():
            began, is_answered = time.monotonic(), False
            self.counts["requests"] += 1
            while not is_answered:
                self.sent += 1
                try:
                    is_answered = self.attempt(f"{self.number:08x}{self.sent:024x}")
                except ConnectionRefusedError:
                    self.counts["refused"] += 1
                    self.problems.append({"refused": self.kind})
                    time.sleep(0.05)
                except OSError as error:
                    self.counts["notConnected"] += 1
                    self.problems.append({"notConnected": self.kind, "error": repr(error)})
                if not is_answered and time.monotonic() - began > PATIENCE:
                    self.problems.append({"neverAnswered": self.kind})
                    return
            self.counts["answered"] += 1
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(self.random.uniform(0, 1.6) if self.kind == "idle" else 0.05 if self.kind == "metrics" else 0.004)


def client_process(number, addresses, token, is_over, out):
    kinds = [kind for kind, count in THREADS.items() for _ in range(count)]
    clients = [Client(kind, number * 1_000 + place, addresses, token) for place, kind in enumerate(kinds)]
    threads = [threading.Thread(target=client.run, args=(is_over,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    out.write_text(json.dumps([{"kind": client.kind, "counts": client.counts, "problems": client.problems, "longest": client.longest,
                                "answered": client.answered if client.kind != "metrics" else [], "unanswered": client.unanswered}
                               for client in clients]))


def listening():
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(4096)
    return listener


def started(data, public, admin, log):
    """A server that gets the sockets as file descriptors 3 and 4, as from systemd, and is ready."""
    shell = ("exec 3<&0 4<&1 0</dev/null 1>/dev/null\n"
             'export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=public:admin\nexec "$0" "$@"')
    server = subprocess.Popen(["/bin/sh", "-c", shell, stage.BINARY, "serve", "--data", data], stdin=public, stdout=admin, stderr=log)
    probe = Connection(public.getsockname())
    probe.send(b"GET /healthz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")
    if probe.answer() != 200 or server.poll() is not None:
        raise SystemExit("the server did not start")
    return server


def restarts(work, count):
    data, log = work / "data", work / "log"
    token = service.store(data)
    public, admin = listening(), listening()
    addresses = {"public": public.getsockname(), "admin": admin.getsockname()}
    is_over = multiprocessing.Event()
    outs = [work / f"client-{number}" for number in range(PROCESSES)]
    clients = [multiprocessing.Process(target=client_process, args=(number, addresses, token, is_over, out)) for number, out in enumerate(outs)]
    stops, starts, problems, moments = [], [], [], random.Random(9)
    with open(log, "w") as stderr:
        server = started(data, public, admin, stderr)
        try:
            for client in clients:
                client.start()
            for _ in range(count):
                time.sleep(moments.uniform(*SECONDS_BETWEEN))
                began = time.monotonic()
                server.terminate()
                if server.wait(PATIENCE) != 0:
                    problems.append({"exit": server.returncode})
                stopped = time.monotonic()
                server = started(data, public, admin, stderr)
                stops.append(stopped - began)
                starts.append(time.monotonic() - stopped)
            time.sleep(1)
            is_over.set()
            for client in clients:
                client.join(2 * PATIENCE)
                if client.exitcode != 0:
                    problems.append({"client": client.exitcode})
        finally:
            for client in clients:
                if client.is_alive():
                    client.kill()
            server.terminate()
            server.wait()
    found = [each for out in outs if out.exists() for each in json.loads(out.read_text())]
    total, by_kind = collections.Counter(), {}
    for each in found:
        total.update(each["counts"])
        by_kind.setdefault(each["kind"], collections.Counter()).update(each["counts"])
        problems += each["problems"]
    answered, unanswered = ({request for each in found for request in each[which]} for which in ("answered", "unanswered"))
    shown = [event["requestId"] for event in json.loads(service.contactd(data, "audit", "show", "--json")) if event["requestId"]]
    recorded = set(shown)
    problems += [{"recordedAndNotAnswered": request} for request in sorted(recorded - answered)[:20]]
    problems += [{"answeredAndNotRecorded": request} for request in sorted(answered - recorded)[:20]]
    if subprocess.run([stage.BINARY, "audit", "verify", "--data", data], capture_output=True).returncode:
        problems.append({"journal": "does not verify"})
    if problems:
        print(log.read_text()[-3000:])
    lost = {each["lost"] for each in problems if "lost" in each} | (unanswered & recorded)
    return {"restarts": count, "requests": total["requests"], "answered": total["answered"], "otherAnswers": total["otherAnswers"],
            "closedWhileIdle": total["closedWhileIdle"], "closedBeforeItWasRead": total["closedBeforeItWasRead"],
            "lost": len(lost), "refused": total["refused"], "recorded": len(shown), "recordedAndNotAnswered": len(recorded - answered),
            "longestWaitSeconds": {kind: round(max(each["longest"] for each in found if each["kind"] == kind), 2) for kind in by_kind},
            "longestStopSeconds": round(max(stops), 2), "longestStartSeconds": round(max(starts), 2),
            "byKind": by_kind, "problems": problems[:100]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    chosen = parser.parse_args()
    stage.WORK.mkdir(parents=True, exist_ok=True)
    if chosen.binary:
        stage.BINARY = chosen.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    report = {"command": "python3 soak/restart.py", "commit": stage.commit()}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        report |= restarts(pathlib.Path(work), 3 if chosen.quick else chosen.restarts)
    print(json.dumps(report, indent=1))
    if not chosen.quick:
        (stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-restart.json").write_text(json.dumps(report, indent=1) + "\n")
    if report["problems"] or report["lost"] or report["refused"]:
        raise SystemExit("a request was refused, lost or answered with an error")


if __name__ == "__main__":
    main()
