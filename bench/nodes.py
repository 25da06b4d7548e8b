"""Nodes of contactd on one PostgreSQL, all on this machine, and what the runs with them share. Not a run itself."""
import argparse
import atexit
import contextlib
import http.client
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

import service
import stage

STARTED = []
LEASE = 2


class Relay(threading.Thread):
    """Stands between a node and the database. It can be slow, or silent."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.target, self.delay, self.is_cut = port, 0, False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        while self.is_cut:
            time.sleep(0.05)
        with contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self.target))
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                if self.delay:
                    time.sleep(self.delay)
                while self.is_cut:
                    time.sleep(0.01)
                other.sendall(data)
        for each in (one, other):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Node:
    def __init__(self, work, name, url, keys=None, lease=LEASE, core=None):
        self.work, self.name, self.url, self.core = work, name, url, core
        self.data, self.config, self.process = work / name, work / f"{name}.toml", None
        self.config.write_text(f'[cluster]\nlease = "{lease}s"\nname = "{name}"\n[retention]\nsweep_every = "1h"\n')
        if keys and not (self.data / "keys").exists():
            self.data.mkdir(mode=0o700, exist_ok=True)
            shutil.copytree(keys, self.data / "keys")
        self.port, self.admin = stage.free_port(), stage.free_port()

    def start(self, wait=True):
        core = ["taskset", "-c", self.core] if self.core else []
        self.process = subprocess.Popen([str(part) for part in (*core, stage.BINARY, "serve", "--workers", 1, "--data", self.data, "--store", self.url,
                                         "--config", self.config, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.admin}")],
                                        stdout=subprocess.DEVNULL, stderr=open(self.work / f"{self.name}.log", "a"))
        STARTED.append(self.process)
        if wait:
            self.wait()
        return self

    def wait(self, seconds=600):
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{self.name} is not ready; see {self.work}/{self.name}.log")
            time.sleep(0.02)

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(self, token, person, connection=None):
        """The status of a lookup."""
        connection = connection or self.connect()
        connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": service.url(person)}),
                           {"Authorization": f"Bearer {token}", "Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def verify(self):
        """Whether the copy equals the database."""
        done = subprocess.run([str(part) for part in (stage.BINARY, "node", "verify", "--data", self.data, "--store", self.url)],
                              capture_output=True, text=True)
        return done.returncode == 0, (done.stdout + done.stderr).strip()


class Cluster:
    """A database with people, and nodes."""

    def __init__(self, work, server, people, lease=LEASE):
        self.work, self.server, self.lease = work, server, lease
        self.url = server.create()
        self.home = work / "home"
        self.command("import", "-", "--source", "bench", input=service.rows(people))
        self.token = self.command("token", "create", "bench").strip()
        self.nodes = []

    def command(self, *arguments, **options):
        return subprocess.run([str(part) for part in (stage.BINARY, *arguments, "--data", self.home, "--store", self.url)], check=True,
                              capture_output=True, text=True, **options).stdout

    def node(self, name, url=None, core=None):
        node = Node(self.work, name, url or self.url, self.home / "keys", self.lease, core)
        self.nodes.append(node)
        return node

    def stop(self):
        for node in self.nodes:
            node.stop()


@atexit.register
def end_all():
    """Nodes do not outlive this script, also if it fails."""
    for process in STARTED:
        if process.poll() is None:
            process.kill()


def run_parts(run, written):
    """Runs the parts that the command line names, or all of them, and writes what they found to this file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[*run, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    results = {}
    for part in options.parts or run:
        with tempfile.TemporaryDirectory(prefix="contactd-cluster-") as work:
            work = pathlib.Path(work)
            work.chmod(0o755)
            results[part] = run[part](work, options)
    if not options.quick:
        known = json.loads(written.read_text()) if written.exists() else {}
        known.update({"commit": stage.commit(), **results})
        written.write_text(json.dumps(known, indent=1) + "\n")
    failed = [f"{part}.{name}" for part, result in results.items() for name, value in result.items() if name.startswith(("is", "are")) and value is False]
    failed += [f"{part}.isWithin.{name}" for part, result in results.items() for name, value in result.get("isWithin", {}).items() if not value]
    if failed:
        sys.exit("does not hold: " + ", ".join(failed))
    print("all bounds hold")
