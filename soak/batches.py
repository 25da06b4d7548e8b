#!/usr/bin/env python3
"""Kills the server 200 times while clients send batches, and checks that nothing received is missing from the record.

    python3 soak/batches.py                # builds, prints, and writes soak/runs/; about 10 minutes
    python3 soak/batches.py --kills 5      # fewer kills, and writes nothing
    python3 soak/batches.py --binary PATH  # a binary that is built already; also --seed NUMBER

Four clients send batches of 1 to 100 lookups, of people who are on file and who are not, some of them twice, for a token with a quota.
After every 20th kill: each result that a client received has its line, with the right outcome and its place in the batch; the journal
is whole; and the quota is neither exceeded nor forgotten: what is used of it is at least what was received, and at most that and what
the batches under way at each kill asked for.
"""
import argparse
import contextlib
import datetime
import http.client
import json
import pathlib
import random
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

CLIENTS, CHECK_EVERY = 4, 20
OUTCOMES = {200: "hit", 404: "miss"}


class Client:
    """Sends batches, and remembers the results that it received."""

    def __init__(self, number, token, seed):
        self.number, self.token, self.dice = number, token, random.Random(f"{seed} {number}")
        self.sent, self.received, self.under_way = 0, {}, 0

    def run(self, server):
        connection = server.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        while True:
            self.sent += 1
            request = f"{self.number:08x}{self.sent:024x}"
            people = [self.dice.randrange(2 * service.PEOPLE) for _ in range(self.dice.randint(1, 100))]
            people += people[: self.dice.randrange(3)] if len(people) < 98 else []
            lookups = [{"operation": "fetchPersonalEmail", "profileUrl": service.url(person)} for person in people]
            try:
                connection.request("POST", "/api/batch", json.dumps({"lookups": lookups}), {**headers, "X-Request-Id": request})
                answer = connection.getresponse()
                body = json.loads(answer.read())
            except (http.client.HTTPException, OSError, ValueError):
                self.under_way += len(people)
                return
            assert answer.status == 200, body
            for place, result in enumerate(body["results"], 1):
                self.received[request, place] = result["status"]


def check(data, clients):
    lines = json.loads(service.contactd(data, "audit", "show", "--json"))
    found = {(line["requestId"], line["placeInBatch"]): line for line in lines if "placeInBatch" in line}
    hits = 0
    for client in clients:
        for key, status in client.received.items():
            line = found.get(key)
            assert line and line["outcome"] == OUTCOMES[status], (key, status, line)
            hits += status == 200 and "repeat" not in line
    used = sum(day["hits"] for day in json.loads(service.contactd(data, "usage", "--json")))
    most = hits + sum(client.under_way for client in clients)
    assert hits <= used <= most, (hits, used, most)
    verified = json.loads(service.contactd(data, "audit", "verify", "--json"))
    assert verified["isWhole"], verified["findings"][:3]
    return {"results": sum(len(client.received) for client in clients), "hits": hits, "used": used}


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--binary", type=pathlib.Path)
    args = arguments.parse_args()
    stage.WORK.mkdir(parents=True, exist_ok=True)
    if args.binary:
        stage.BINARY = args.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    dice, began, result = random.Random(args.seed), time.monotonic(), {}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        data = pathlib.Path(work) / "data"
        service.store(data)
        token = service.contactd(data, "token", "create", "batches", "--quota", "2000000000/month").strip()
        clients = [Client(number, token, args.seed) for number in range(CLIENTS)]
        for kill in range(1, args.kills + 1):
            with service.serving(data) as server:
                threads = [threading.Thread(target=client.run, args=(server,)) for client in clients]
                for thread in threads:
                    thread.start()
                time.sleep(dice.uniform(0.02, 0.4))
                server.process.kill()
                for thread in threads:
                    thread.join()
            if kill % CHECK_EVERY == 0 or kill == args.kills:
                # A server counts again what the last one had not stored.
                with service.serving(data) as server, contextlib.closing(server.connect()) as connection:
                    server.ask(connection, "nobody", 1)
                    result = {"kills": kill, **check(data, clients)}
                print(f"after {time.monotonic() - began:.0f} s: {result}", flush=True)
    if args.kills >= 200:
        report = {"command": "python3 soak/batches.py", "commit": stage.commit(), "seed": args.seed, **result}
        out = stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-batches.json"
        out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
