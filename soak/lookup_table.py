#!/usr/bin/env python3
"""Checks that lookups by the lookup table say what the details say, whatever is done to either.

    python3 soak/lookup_table.py                          # a million lookups; builds the release binary, prints, and writes soak/runs/
    python3 soak/lookup_table.py --lookups 20000 --binary PATH --seed 7    # writes nothing

Commands import (a few people, or tens of thousands), correct, remove, sweep, undo imports, opt people out and in again, and erase; one in five is killed
with SIGKILL and run again. Between them the server is killed and started, with its table in memory or in its file, and its table is damaged, cut off, deleted,
or replaced by an older one or by one of another store. After each step, lookups of random people are compared with details.db, which is read with Python's
sqlite3, and with the list of who has opted out. After each erasure, no table holds what was erased.
"""
import argparse
import collections
import concurrent.futures
import datetime
import json
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import stage

PEOPLE = 40_000
TOGETHER = 25
CLIENTS = 2
SOURCES = ["crm", "hr", "ats"]


def key(person):
    return f"linkedin.com/in/table-quell-{person}"


class Client:
    """A connection that sends some requests before it reads their answers."""

    def __init__(self, port, token):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.buffer, self.token = b"", token

    def look_up(self, asked):
        requests = []
        for person, kind in asked:
            body = json.dumps({"profileUrl": "https://" + key(person)})
            requests.append(f"POST /api/fetch{'PhoneNumber' if kind == 0 else 'PersonalEmail'} HTTP/1.1\r\nHost: soak\r\nAuthorization: Bearer {self.token}\r\n"
                            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
        self.socket.sendall("".join(requests).encode())
        return [self.answer(kind) for _, kind in asked]

    def answer(self, kind):
        while b"\r\n\r\n" not in self.buffer:
            self.receive()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        length = int(next(line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")))
        while len(self.buffer) < length:
            self.receive()
        body, self.buffer = json.loads(self.buffer[:length]), self.buffer[length:]
        status = int(head.split(b" ")[1])
        if status == 404:
            return None
        if status != 200:
            raise SystemExit(f"a lookup was answered {status}: {body}")
        return body["phoneNumber" if kind == 0 else "email"]

    def receive(self):
        read = self.socket.recv(1 << 16)
        if not read:
            raise SystemExit("the server closed a connection")
        self.buffer += read


class Soak:
    def __init__(self, work, dice):
        self.work, self.dice, self.data = work, dice, work / "data"
        self.done, self.places = collections.Counter(), collections.Counter()
        self.compared, self.number = 0, 0
        self.out, self.older = set(), []
        self.import_people(range(0, PEOPLE, 2), "crm")
        self.token = self.command("token", "create", "soak").strip()
        self.other_store()
        self.start()

    def command(self, *arguments, **options):
        return subprocess.run([stage.BINARY, *map(str, arguments), "--data", self.data], check=True, capture_output=True, text=True, **options).stdout

    def interrupted(self, *arguments):
        """Runs a command; one in five is killed, and run again."""
        self.done[arguments[0]] += 1
        line = [stage.BINARY, *map(str, arguments), "--data", self.data]
        if self.dice.random() < 0.2:
            running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.dice.expovariate(1 / 0.1))
            running.kill()
            running.wait()
            self.done["commands killed"] += 1
        ended = subprocess.run(line, capture_output=True, text=True)
        if ended.returncode not in (0, 1) or (ended.returncode == 1 and "undo" not in arguments):
            raise SystemExit(f"{arguments}: {ended.stdout} {ended.stderr}")

    def start(self):
        memory = self.dice.choice(["", "table_bytes = 0"])
        (self.work / "contactd.toml").write_text(f"[serve]\n{memory}\n")
        self.port, self.admin = stage.free_port(), stage.free_port()
        self.log = open(self.work / "log", "ab")
        self.server = subprocess.Popen([stage.BINARY, "serve", "--data", self.data, "--listen", f"127.0.0.1:{self.port}", "--config", self.work / "contactd.toml",
                                        "--admin-listen", f"127.0.0.1:{self.admin}", "--workers", "2"], stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 30
        while True:
            try:
                self.clients = [Client(self.port, self.token) for _ in range(CLIENTS)]
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise SystemExit("the server did not start")
                time.sleep(0.01)

    def stop(self, how):
        if self.server.poll() is not None:
            raise SystemExit(f"the server has ended with {self.server.returncode}")
        self.server.send_signal(how)
        self.server.wait()
        self.log.close()

    def other_store(self):
        other = self.work / "other"
        subprocess.run([stage.BINARY, "import", "-", "--source", "crm", "--data", other], input=self.rows(range(25_000)), check=True, capture_output=True, text=True)
        self.foreign = next(other.glob("lookup-*.table")).read_bytes()

    def rows(self, people):
        lines = ["profileUrl,phone,email,label,confidence,expiresAt"]
        for person in people:
            for _ in range(self.dice.choice([1, 1, 1, 2, 5])):
                self.number += 1
                address = f"{'e' * self.dice.choice([1, 1, 40, 200])}{self.number}@example.com"
                label = self.dice.choice(["personal", "personal", "personal", "work"])
                end = self.dice.choice(["", "", "2090-01-01"])
                lines.append(f"https://{key(person)},+1415555{100 + self.number % 100:04},{address if len(address) < 80 else ''},{label},{self.dice.randrange(100)},{end}")
        return "\n".join(lines) + "\n"

    def import_people(self, people, source, *flags):
        file = self.work / "people.csv"
        file.write_text(self.rows(people))
        self.interrupted("import", file, "--source", source, *flags)

    def some(self, count):
        return [self.dice.randrange(PEOPLE) for _ in range(count)]

    def change(self):
        person = self.dice.randrange(PEOPLE)
        url = "https://" + key(person)
        match self.dice.randrange(14):
            case 0:
                self.import_people(self.some(30_000), self.dice.choice(SOURCES))
            case 1:
                self.import_people(self.some(25_000), "hr", "--replace-source", "--max-withdrawn", "100%")
            case 2 | 3:
                self.import_people(self.some(self.dice.choice([1, 50, 2_000])), self.dice.choice(SOURCES))
            case 4 | 5:
                self.interrupted("put", url, "--email", f"put{person}@example.com", "--source", self.dice.choice(SOURCES))
            case 6:
                self.interrupted("remove", url)
            case 7:
                self.interrupted("remove", url, "--source", "crm")
            case 8:
                self.interrupted("suppress", url)
                self.out.add(person)
            case 9 if self.out:
                back = self.dice.choice(sorted(self.out))
                self.interrupted("unsuppress", "https://" + key(back))
                self.out.discard(back)
            case 10:
                self.erase(person)
            case 11:
                last = [entry for entry in json.loads(self.command("imports", "--json")) if not entry.get("undoneAt")]
                if len(last) > 1:
                    self.interrupted("imports", "undo", last[-1]["id"])
            case 12:
                self.interrupted("sweep", "--source", "ats", "--max-age", "5s")
            case _:
                pass

    def erase(self, person):
        held = self.held([person])
        self.interrupted("erase", "https://" + key(person))
        self.out.add(person)
        # A number may be somebody else's too; an address has a number of its own.
        addresses = [value.encode() for values in held.values() for value in values if "@" in value and not value.startswith("put")]
        for table in self.data.glob("lookup-*.table"):
            content = table.read_bytes()
            for address in addresses:
                if address in content:
                    raise SystemExit("a table holds what was erased")
        self.done["addresses looked for after an erasure"] += len(addresses)

    def meddle(self):
        """Does something to a table, or starts the server again."""
        tables = list(self.data.glob("lookup-*.table"))
        what = self.dice.choice(["killed", "killed", "restarted", "damaged", "damaged", "cut off", "deleted", "kept", "older", "foreign"])
        if what in ("killed", "restarted"):
            self.done[what] += 1
            self.stop(signal.SIGKILL if what == "killed" else signal.SIGTERM)
            self.start()
            return
        if not tables:
            return
        table = tables[0]
        size = table.stat().st_size
        if what == "damaged":
            with open(table, "r+b") as file:
                for _ in range(self.dice.choice([1, 100, 2_000])):
                    file.seek(self.dice.randrange(size))
                    file.write(self.dice.randbytes(self.dice.choice([1, 64, 4096])))
        elif what == "cut off":
            with open(table, "r+b") as file:
                file.truncate(self.dice.randrange(size))
        elif what == "deleted":
            table.unlink()
        elif what == "kept":
            self.older = [(table.name, table.read_bytes())]
        elif what == "older" and self.older:
            name, content = self.older[0]
            (self.data / self.dice.choice([name, table.name])).write_bytes(content)
        elif what == "foreign":
            table.write_bytes(self.foreign)
        self.done[what] += 1
        if self.dice.random() < 0.5:
            self.stop(signal.SIGKILL)
            self.start()

    def held(self, people):
        """The personal values of people, best first, as the details have them."""
        details = sqlite3.connect(f"file:{self.data}/details.db?mode=ro", uri=True)
        now, held = int(time.time()), {}
        for person in people:
            held[person, 0], held[person, 1] = [], []
        wanted = {key(person): person for person in people}
        rows = details.execute("SELECT profile, kind, value FROM details WHERE label = 0 AND (expires_at IS NULL OR expires_at > ?) ORDER BY id", (now,))
        for profile, kind, value in rows:
            if profile in wanted:
                held[wanted[profile], kind].append(value)
        details.close()
        return held

    def compare(self, lookups):
        people = self.some(lookups // 2)
        held = self.held(people)
        asked = [(person, kind) for person in people for kind in (0, 1)]
        parts = [asked[at::CLIENTS] for at in range(CLIENTS)]

        def ask(client, part):
            wrong = []
            for at in range(0, len(part), TOGETHER):
                some = part[at:at + TOGETHER]
                for (person, kind), found in zip(some, client.look_up(some)):
                    values = held[person, kind]
                    expected = None if person in self.out or not values else values[0]
                    if found != expected:
                        wrong.append((person, kind, found is not None, expected is not None))
            return wrong

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            wrong = [found for part in pool.map(ask, self.clients, parts) for found in part]
        if wrong:
            raise SystemExit(f"{len(wrong)} of {len(asked)} lookups were wrong, such as {wrong[:5]}; {self.status()}")
        self.compared += len(asked)
        self.places[self.status()["answeredFrom"]] += len(asked)

    def status(self):
        return json.loads(self.command("stats", "--json"))["lookups"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lookups", type=int, default=1_000_000)
    parser.add_argument("--binary", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="contactd-table-") as work:
        soak = Soak(pathlib.Path(work), random.Random(options.seed))
        steps, told = 0, 0
        while soak.compared < options.lookups:
            soak.change()
            if soak.dice.random() < 0.4:
                soak.meddle()
            soak.compare(4_000)
            steps += 1
            if soak.compared - told >= options.lookups / 20:
                told = soak.compared
                print(f"{steps} steps, {soak.compared} lookups, {dict(soak.places)}", flush=True)
        soak.stop(signal.SIGTERM)
    result = {"commit": stage.commit(), "seed": options.seed, "steps": steps, "lookups": soak.compared, "wrong": 0, "processesEnded": 0, "answeredFrom": dict(soak.places),
              "done": dict(soak.done)}
    print(json.dumps(result, indent=1))
    if options.lookups >= 1_000_000:
        path = stage.ROOT / f"soak/runs/{datetime.date.today()}-lookup-table.json"
        path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
