"""A small store of invented people, and a server on it: what the runs of soak/ and bench/cluster.py share. Not a run itself."""
import contextlib
import http.client
import json
import subprocess
import time

import stage

PEOPLE = 1_000


def contactd(data, *arguments, **options):
    return subprocess.run([stage.BINARY, *map(str, arguments), "--data", data], check=True, capture_output=True, text=True, **options).stdout


def url(person):
    return f"https://linkedin.com/in/told-quell-{person}"


def rows(people=PEOPLE):
    return "profileUrl,phone,email\n" + "".join(f"{url(n)},+1415555{100 + n % 100:04},told{n}@example.com\n" for n in range(people))


def store(data):
    """Creates a store with people, and returns a token for it."""
    contactd(data, "import", "-", "--source", "bench", input=rows())
    return contactd(data, "token", "create", "bench").strip()


@contextlib.contextmanager
def serving(data, *flags, **options):
    server = Service(data, flags, options)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


class Service:
    def __init__(self, data, flags, options):
        self.port = stage.free_port()
        self.process = subprocess.Popen([stage.BINARY, "serve", "--data", data, "--listen", f"127.0.0.1:{self.port}", "--admin-listen",
                                         f"127.0.0.1:{stage.free_port()}", *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self.connect().connect()
                return
            time.sleep(0.02)
        raise SystemExit("the service did not start")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def ask(self, connection, token, person, request_id=None, kind="PersonalEmail"):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if request_id:
            headers["X-Request-Id"] = request_id
        connection.request("POST", f"/api/fetch{kind}", json.dumps({"profileUrl": url(person)}), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
