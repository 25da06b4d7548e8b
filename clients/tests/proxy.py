"""A proxy that passes requests to the service, and breaks some of them.

    PROXY_URL/FAULT/RUN/api/…      as the service, with this fault; a RUN has its own count of requests
    PROXY_URL/log/FAULT/RUN        the requests of a run: their ids, tokens, lookups, and the port that they came from
    PROXY_URL/restart/TERM or KILL restarts the service, and answers at once
    PROXY_URL/hits                 the hits of the token
"""
import collections
import contextlib
import email.utils
import http.client
import http.server
import json
import signal
import ssl
import subprocess
import threading
import time

SILENCE = 3  # seconds: longer than the clients of the tests wait

RUNS, LOCK = collections.defaultdict(list), threading.Lock()


def refusal(status, code, retry_after=None):
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return status, headers, json.dumps({**({"status": code} if code else {}), "message": "Not now."}).encode()


def in_a_second():
    return email.utils.formatdate(time.time() + 1, usegmt=True)


# What is answered to the first requests of a run; None passes the request on.
FIRST = {
    "pass": [],
    "rate": [refusal(429, "rate_limited", 1)],
    "busy": [refusal(503, "service_unavailable", 1)],
    "error": [refusal(500, None), refusal(500, None)],
    "gateway": [(502, {"Content-Type": "text/html"}, b"<h1>Bad gateway</h1>")],
    "silent": ["silence"],
    "cut": ["cut"],
    "half": ["half"],
}
# What is answered to every request.
ALWAYS = {
    "always-busy": refusal(503, "service_unavailable", 0),
    "always-silent": "silence",
    "quota": refusal(429, "quota_exceeded", 40_000),
    "html": (200, {}, b"<h1>Welcome</h1>"),
    "short": (200, {}, b'{"results":[]}'),
    "redirect": (307, {"Location": "/pass/redirected/api/fetchPhoneNumber"}, b""),
    "elsewhere": refusal(404, "not_found"),
    "closing": "close",
}


def fault(name, number):
    """What to do with the request of this number, counted from 1."""
    if name == "date" and number == 1:
        return refusal(429, "rate_limited", in_a_second())
    if name == "dies":
        return "cut" if number > 1 else None
    first = FIRST.get(name, [])
    return ALWAYS.get(name, first[number - 1] if number <= len(first) else None)


def break_results(name, before, lookups, body):
    """Changes results of a batch. `before` are the lookups of the run that were sent before."""
    results = json.loads(body)["results"]
    for place, lookup in enumerate(lookups):
        refused = None
        if name == "parts" and lookup not in before:
            refused = [None, (429, "rate_limited", 0), (503, "service_unavailable", 1)][place % 3]
        elif name == "parts-quota" and place % 2 == 0:
            refused = 429, "quota_exceeded", 40_000
        elif name == "parts-always" and place == 0:
            refused = 503, "service_unavailable", 0
        if refused:
            status, code, wait = refused
            results[place] = {"status": status, "retryAfter": wait, "body": {"status": code, "message": "Not now."}}
    return json.dumps({"results": results}).encode()


def handler(service):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def do_GET(self):
            what, _, rest = self.path[1:].partition("/")
            answer = None
            if what == "log":
                with LOCK:
                    answer = RUNS[rest]
            elif what == "hits":
                answer = service.hits()
            elif what == "restart":
                threading.Thread(target=service.restart, args=(signal.Signals[f"SIG{rest}"],)).start()
            self.answer(200, {}, json.dumps(answer).encode())

        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            _, name, run, path = self.path.split("/", 3)
            asked = json.loads(body)
            lookups = [lookup["profileUrl"] for lookup in asked.get("lookups", [asked])]
            with LOCK:
                requests = RUNS[f"{name}/{run}"]
                before = {lookup for request in requests for lookup in request["lookups"]}
                requests.append({"id": self.headers["X-Request-Id"], "port": self.client_address[1], "lookups": lookups})
                number = len(requests)
            action = fault(name, number)
            if action == "silence":
                time.sleep(SILENCE)
            if action in ("silence", "cut"):
                self.close_connection = True
                return
            if isinstance(action, tuple):
                self.answer(*action)
                return
            status, headers, answer = self.forward(path, body)
            if name.startswith("parts"):
                answer = break_results(name, before, lookups, answer)
            self.answer(status, headers, answer, part=len(answer) // 2 if action == "half" else None)
            self.close_connection |= action in ("half", "close")

        def forward(self, path, body):
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=20)
            with contextlib.closing(connection):
                connection.request("POST", f"/{path}", body, {name: self.headers[name] for name in ("Authorization", "Content-Type", "X-Request-Id")})
                response = connection.getresponse()
                passed_on = {name: value for name, value in response.getheaders() if name.startswith(("x-", "www-", "retry-"))}
                return response.status, passed_on, response.read()

        def answer(self, status, headers, body, part=None):
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers, "Content-Length": len(body)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[:part])

    return Handler


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        """A client that is gone, or that does not trust the certificate, is what the tests want."""


def start(service, work):
    """Starts the proxy, once plain and once with a certificate that nobody trusts yet. Returns its addresses."""
    key, certificate = work / "key.pem", work / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-keyout", key,
                    "-out", certificate, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)
    plain, secret = (Server(("127.0.0.1", 0), handler(service)) for _ in range(2))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secret.socket = context.wrap_socket(secret.socket, server_side=True, do_handshake_on_connect=False)
    for server in (plain, secret):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    return {"PROXY_URL": f"http://127.0.0.1:{plain.server_port}", "PROXY_TLS_URL": f"https://localhost:{secret.server_port}",
            "PROXY_CERTIFICATE": str(certificate)}
