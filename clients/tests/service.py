#!/usr/bin/env python3
"""Starts a service with 10,000 invented people, and a proxy before it that breaks things; runs a command, and stops both.

    python3 clients/tests/service.py BINARY COMMAND...

The command has in its environment: CONTACTD_URL, the service itself; CONTACTD_TOKEN, CONTACTD_RATED (100/s), CONTACTD_METERED (a quota of 3)
and CONTACTD_REVOKED, tokens; and PROXY_URL and PROXY_TLS_URL, the proxy (see proxy.py).
"""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import proxy

PEOPLE = 10_000

# Those of the demo, whom the documentation looks up.
SHOWN = """https://www.linkedin.com/in/ada-quell-1a2b3c,+14155550123,ada@example.com
https://www.xing.com/profile/Mira_Quellbach2,,mira.quellbach@example.org
"""


class Service:
    """A server that can be restarted on its port, and commands on its data directory."""

    def __init__(self, binary, work):
        self.binary, self.data, self.log = binary, work / "data", work / "log"
        self.lock, self.process = threading.Lock(), None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        rows = (f"https://linkedin.com/in/told-quell-{n},+1415555{100 + n % 100:04},told{n}@example.com\n" for n in range(PEOPLE))
        self.command("import", "-", "--source", "test", input="profileUrl,phone,email\n" + SHOWN + "".join(rows))

    def command(self, *arguments, **options):
        command = [self.binary, *arguments, "--data", self.data]
        return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout

    def token(self, name, *flags):
        return self.command("token", "create", name, *flags).strip()

    def start(self):
        listen = ["--listen", f"127.0.0.1:{self.port}", "--admin-listen", "127.0.0.1:0"]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([self.binary, "serve", "--data", self.data, *listen], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.02)
        raise SystemExit(f"the service did not start:\n{self.log.read_text()}")

    def stop(self, how):
        self.process.send_signal(how)
        if self.process.wait() != 0 and how == signal.SIGTERM:
            raise SystemExit(f"the service did not stop cleanly:\n{self.log.read_text()}")

    def restart(self, how):
        with self.lock:
            self.stop(how)
            self.start()

    def hits(self):
        """The hits of the first token so far."""
        with self.lock:
            usage = json.loads(self.command("usage", "--json"))
        return sum(day["hits"] for day in usage if day["name"] == "test")


def main():
    binary, *command = sys.argv[1:]
    # Whoever ends this wants the service to end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        service = Service(pathlib.Path(binary).resolve(), work)
        tokens = {"CONTACTD_TOKEN": service.token("test"), "CONTACTD_RATED": service.token("rated", "--rate", "100/s", "--burst", "50"),
                  "CONTACTD_METERED": service.token("metered", "--quota", "3/month"), "CONTACTD_REVOKED": service.token("revoked")}
        service.command("token", "revoke", "revoked")
        service.start()
        try:
            urls = proxy.start(service, work)
            environment = {**os.environ, **tokens, "CONTACTD_URL": f"http://127.0.0.1:{service.port}", **urls}
            result = subprocess.run(command, env=environment, timeout=300).returncode
        finally:
            with service.lock:
                service.stop(signal.SIGTERM)
    sys.exit(result)


if __name__ == "__main__":
    main()
