#!/usr/bin/env python3
"""Measures what TLS costs, beside nginx doing the same.

    python3 bench/tls.py                   # builds, prints, and writes bench/runs/
    python3 bench/tls.py --binary PATH     # a binary that is built already

CPU per request on 64 kept-alive connections, of contactd and of nginx with a constant answer, each with and without TLS: interleaved rounds,
same core, same certificate (ECDSA, P-256), same client (wrk). Then new connections without resumption, as many as one client can open
(`openssl s_time`), and the CPU that each of them costs the server.
"""
import argparse
import datetime
import json
import pathlib
import random
import re
import ssl
import statistics
import subprocess
import tempfile

import stage

ROUNDS, SECONDS, PROFILES = 15, 2, 1_000_000
KINDS = [(name, scheme) for name in ("contactd", "nginx") for scheme in ("http", "https")]


def certificate(work):
    cert, key = work / "cert.pem", work / "key.pem"
    stage.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert, "-days", "30",
             "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE", stderr=subprocess.DEVNULL)
    key.chmod(0o600)
    return cert, key


def handshakes(server):
    """New connections for some seconds: how many a second, and the server's CPU for each."""
    before = server.cpu_seconds()
    out = subprocess.run(["taskset", "-c", stage.LOAD_CORE, "openssl", "s_time", "-new", "-connect", f"127.0.0.1:{server.port}", "-time", "4"],
                         check=True, capture_output=True, text=True).stdout
    count, seconds = map(int, re.search(r"(\d+) connections in (\d+) real seconds", out).groups())
    return {"perSecond": count / seconds, "cpuMicros": (server.cpu_seconds() - before) / count * 1e6}


def unverified(connection):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", type=pathlib.Path)
    stage.WORK.mkdir(parents=True, exist_ok=True)
    stage.install(["nginx"])
    if binary := parser.parse_args().binary:
        stage.BINARY = binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    servers = {}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        pair = certificate(work)
        data, tokens = stage.contactd_data(PROFILES)
        requests = stage.request_file("contactd", PROFILES, tokens)
        first = requests.read_bytes().split(b"\n----\n")[0]
        try:
            for name, scheme in KINDS:
                copy = work / f"{name}-{scheme}"
                if name == "contactd":
                    stage.sh("cp", "-r", data, copy)
                server = servers[name, scheme] = stage.start(name, PROFILES, copy, tokens, pair if scheme == "https" else None)
                server.ready(first, unverified if scheme == "https" else lambda connection: connection)
                stage.measure(server, requests, 1, scheme)
            rounds, opened = [], []
            for number in range(ROUNDS):
                order = random.Random(number).sample(KINDS, len(KINDS))
                rounds.append({f"{name} {scheme}": stage.measure(servers[name, scheme], requests, SECONDS, scheme) for name, scheme in order})
                print(", ".join(f"{kind} {rounds[-1][kind]['cpuMicros']:.1f} µs" for kind in sorted(rounds[-1])), flush=True)
            for number in range(3):
                opened.append({name: handshakes(servers[name, "https"]) for name in ("contactd", "nginx")})
                print(", ".join(f"{name} {found['perSecond']:.0f} handshakes/s, {found['cpuMicros']:.0f} µs" for name, found in opened[-1].items()), flush=True)
        finally:
            for server in servers.values():
                server.stop()
    cpu = lambda kind: [found[kind]["cpuMicros"] for found in rounds]
    ratio = lambda one, other: round(statistics.median(a / b for a, b in zip(cpu(one), cpu(other))), 2)
    report = {
        "command": "python3 bench/tls.py", "commit": stage.commit(), "rounds": rounds, "handshakes": opened,
        "ratio": {"contactd https to http": ratio("contactd https", "contactd http"), "nginx https to http": ratio("nginx https", "nginx http"),
                  "contactd to nginx, https": ratio("contactd https", "nginx https"), "contactd to nginx, http": ratio("contactd http", "nginx http")},
        "added": {name: round(statistics.median(a - b for a, b in zip(cpu(f"{name} https"), cpu(f"{name} http"))), 2) for name in ("contactd", "nginx")},
        "handshake": {name: {figure: round(statistics.median(found[name][figure] for found in opened), 1) for figure in ("perSecond", "cpuMicros")}
                      for name in ("contactd", "nginx")},
    }
    print(json.dumps({name: report[name] for name in ("ratio", "added", "handshake")}, indent=1))
    (stage.BENCH / f"runs/{datetime.date.today().isoformat()}-tls.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
