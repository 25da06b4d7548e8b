#!/usr/bin/env python3
"""Kills the server at 1,000 random moments while everything is being written, and checks that nothing acknowledged is lost.

    python3 soak/kills.py                  # builds, prints, and writes soak/runs/; about 25 minutes
    python3 soak/kills.py --kills 200      # fewer kills
    python3 soak/kills.py --quick          # 20 kills, and writes nothing to soak/runs/
    python3 soak/kills.py --binary PATH    # a binary that is built already; also --seed NUMBER

In each life of the server, commands create, rotate and revoke tokens, import small files, replace sources, undo imports, opt people
out and in again, while clients look up, also with quotas. Some commands are killed too, some run while no server does, and some servers
are killed while they start. A model in this script knows what was acknowledged. A change whose command was killed or failed may have
been made or not, but wholly, and it stays so.

After every kill, the databases are whole, and a sample of what the model knows is asked from the next server. After every 25th, all of it:
tokens work or are revoked, people are opted out or disclosed, imports are served or undone, every disclosure and every acknowledged
change has its line in the journal, each change only one, the journal verifies, and no quota is exceeded or forgotten.
"""
import argparse
import collections
import contextlib
import datetime
import http.client
import json
import pathlib
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

ALL_CHECKS_EVERY = 25
SHORTEST_LIFE, LONGEST_LIFE = 0.05, 0.8
KILLED_COMMANDS = 0.12
CONFIG = '[audit]\nsegment_bytes = 200000\nepoch = "30s"\n[retention]\nsweep_every = "1s"\n'
OPT_OUTS = range(900, 960)
SOURCES = {"one": 30, "two": 30, "bulk": 300}
LINES_MAY_WAIT = 15


class Unanswered(Exception):
    """The server was killed before it answered."""


class Model:
    """What was acknowledged, and what may have been done."""

    def __init__(self, data, work):
        self.data, self.work, self.problems, self.life = data, work, [], 0
        self.counts, self.seconds = collections.Counter(), collections.defaultdict(lambda: 0.05)
        self.acknowledged, self.unknown = collections.Counter(), collections.Counter()
        self.answered, self.not_yet_found, self.found_until = set(), set(), time.time()
        self.number, self.lock = 0, threading.Lock()
        self.main = service.store(data)
        self.acknowledged["import", "bench"] = 1
        self.tokens, self.families = {}, []
        self.is_out = dict.fromkeys(OPT_OUTS, False)
        # Each source: what it held after each import that is not undone; the last one is served.
        self.sources = {name: [{}] for name in SOURCES}
        self.in_doubt = {}

    def problem(self, what, **more):
        with self.lock:
            self.problems.append({"life": self.life, "problem": what, **more})
        print("PROBLEM", self.problems[-1], flush=True)

    def next(self):
        with self.lock:
            self.number += 1
            return self.number

    def change(self, line, *arguments, **options):
        """Runs a command that changes something, and sometimes kills it. Returns its output, or None if the outcome is not known."""
        name = " ".join(arguments[:2]) if arguments[0] in ("token", "imports") else arguments[0]
        until = random.uniform(0, 1.3 * self.seconds[name]) if random.random() < KILLED_COMMANDS else None
        began = time.monotonic()
        command = subprocess.Popen([stage.BINARY, *map(str, arguments), "--data", self.data], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, said = command.communicate(options.get("input"), timeout=until)
        except subprocess.TimeoutExpired:
            command.kill()
            # It may have ended just before.
            out, said = command.communicate()
            self.counts["commandsKilled"] += command.returncode < 0
        # The server was killed before it confirmed the change, but the command says that it is made.
        is_unconfirmed = command.returncode == 1 and "committed, not confirmed" in said
        if command.returncode == 0 or is_unconfirmed:
            self.seconds[name] = time.monotonic() - began
            self.counts[name] += 1
            self.counts["notConfirmed"] += is_unconfirmed
            if line:
                self.acknowledged[line] += 1
            return out
        if command.returncode > 0 and "control.sock" not in said:
            self.problem("a command failed", command=name, said=said[-400:])
        if line:
            self.unknown[line] += 1
        self.counts["outcomeUnknown"] += 1
        return None


class Client:
    """One connection to one life of the server."""

    def __init__(self, model, server):
        self.model, self.connection = model, server.connect()

    def ask(self, token, person):
        """The status and the e-mail address, or how long to wait."""
        request_id = f"{self.model.next():032x}"
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "X-Request-Id": request_id}
        try:
            self.connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": service.url(person)}), headers)
            answer = self.connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered from error
        self.model.counts["answers"] += 1
        if answer.status == 200:
            self.model.answered.add(request_id)
            self.model.not_yet_found.add(request_id)
            return 200, json.loads(body)["email"]
        return answer.status, answer.headers.get("Retry-After")

    def expect(self, token, person, expected, what):
        found = self.ask(token, person)
        if found[0] != expected[0] or (expected[0] == 200 and found[1] != expected[1]):
            self.model.problem(what, person=str(person), expected=expected, found=found)


def email(person):
    return f"told{person}@example.com"


# Tokens


class Family:
    """Tokens that share a quota: one and those it was rotated to."""

    def __init__(self, token_id, token, quota):
        self.ids, self.tokens, self.quota, self.hits, self.unanswered, self.is_used_up = [token_id], [token], quota, 0, 0, False
        self.lock = threading.Lock()

    def ask(self, model, client, person=1):
        """Looks somebody up, and checks that there are not more hits than the quota allows, also over all lives together."""
        was_used_up = self.is_used_up
        try:
            status, wait = client.ask(random.choice(self.tokens), person)
        except Unanswered:
            with self.lock:
                self.unanswered += 1
            raise
        with self.lock:
            if status == 200:
                self.hits += 1
                if was_used_up or self.hits == self.quota + 1:
                    model.problem("a quota was exceeded", token=self.ids[0], quota=self.quota, hits=self.hits, wasUsedUp=was_used_up)
            elif status != 429:
                model.problem("a token with a quota", token=self.ids[0], found=status)
            elif int(wait) > 1 and not self.is_used_up:
                self.is_used_up = True
        return status


def create_token(model, client):
    number, quota = model.next(), None
    if sum(not family.is_used_up for family in model.families) < 3:
        quota = random.choice([3, 40, 400, 3_000])
    limit = ("--quota", f"{quota}/month") if quota else ()
    if out := model.change(None, "token", "create", f"t{number}", "--json", *limit):
        made = json.loads(out)
        model.acknowledged["token create", made["id"]] += 1
        if quota:
            model.families.append(Family(made["id"], made["token"], quota))
        else:
            model.tokens[made["id"]] = {"token": made["token"], "is_live": True, "is_rotated": False}
            if client:
                client.expect(made["token"], 1, (200, email(1)), "a new token does not work")


def rotate_token(model, client):
    if random.random() < 0.3 and model.families:
        family = random.choice(model.families)
        if out := model.change(("token rotate", family.ids[-1]), "token", "rotate", family.ids[-1], "--overlap", "24h", "--json"):
            made = json.loads(out)
            family.ids.append(made["id"])
            family.tokens.append(made["token"])
        return
    fresh = [token_id for token_id, token in model.tokens.items() if token["is_live"] is True and not token["is_rotated"]]
    if fresh:
        old = random.choice(fresh)
        # If the outcome is not known, it is not rotated again.
        model.tokens[old]["is_rotated"] = True
        if out := model.change(("token rotate", old), "token", "rotate", old, "--overlap", "24h", "--json"):
            made = json.loads(out)
            model.tokens[made["id"]] = {"token": made["token"], "is_live": True, "is_rotated": False}
            if client:
                client.expect(made["token"], 1, (200, email(1)), "a token does not work after a rotation")
                client.expect(model.tokens[old]["token"], 1, (200, email(1)), "a token that was rotated does not work")


def revoke_token(model, client):
    live = [token_id for token_id, token in model.tokens.items() if token["is_live"] is True]
    if len(live) > 5:
        token_id = random.choice(live)
        model.tokens[token_id]["is_live"] = None
        if model.change(("token revoke", token_id), "token", "revoke", token_id) is not None:
            model.tokens[token_id]["is_live"] = False
            if client:
                client.expect(model.tokens[token_id]["token"], 1, (401,), "a revoked token works")


def change_tokens(model, client):
    random.choice([create_token, create_token, rotate_token, revoke_token, revoke_token])(model, client)


def check_tokens(model, client, some):
    for token in model.tokens.values():
        # Whatever was the outcome, it stays so from now on.
        if token["is_live"] is None:
            status, _ = client.ask(token["token"], 1)
            token["is_live"] = status == 200
            if status not in (200, 401):
                model.problem("a token that may be revoked", found=status)
    for token in some([token for token in model.tokens.values() if token["is_live"]]):
        client.expect(token["token"], 1, (200, email(1)), "a token that was created does not work")
    for token in some([token for token in model.tokens.values() if not token["is_live"]]):
        client.expect(token["token"], 1, (401,), "a revoked token works again")
    for family in some([family for family in model.families if family.is_used_up]):
        if family.ask(model, client) != 429:
            model.problem("a used up quota is there again", token=family.ids[0], quota=family.quota)
        if family.hits + family.unanswered < family.quota:
            model.problem("more of a quota is lost than requests were under way", token=family.ids[0], quota=family.quota,
                          hits=family.hits, unanswered=family.unanswered)


# Opt-outs


def change_opt_outs(model, client):
    person = random.choice([person for person in OPT_OUTS if model.is_out[person] is not None])
    was_out, ticket = model.is_out[person], f"T-{model.next()}"
    model.is_out[person] = None
    # Half of the people are known by their profile, the others by their address.
    whom = [service.url(person)] if person % 2 else ["--email", email(person)]
    if model.change(("ticket", ticket), "unsuppress" if was_out else "suppress", *whom, "--ticket", ticket) is not None:
        model.is_out[person] = not was_out
        if client:
            client.expect(model.main, person, (200, email(person)) if was_out else (404,), "a suppression is not in force")


def check_opt_outs(model, client, some):
    for person, is_out in model.is_out.items():
        if is_out is None:
            status, _ = client.ask(model.main, person)
            model.is_out[person] = status == 404
            if status not in (200, 404):
                model.problem("somebody who may be opted out", found=status)
    for person in some(OPT_OUTS):
        client.expect(model.main, person, (404,) if model.is_out[person] else (200, email(person)), "an opt-out or its end is lost")


# Imports


def people_of(source):
    return [f"{source}-{number}" for number in range(SOURCES[source])]


def rows(held):
    return "profileUrl,email\n" + "".join(f"{service.url(person)},{address}\n" for person, address in held.items())


def listed(model, source):
    """The imports of a source that are not undone, oldest first."""
    shown = json.loads(service.contactd(model.data, "imports", "--json"))
    return sorted(entry["id"] for entry in shown if entry["source"] == source and not entry["undoneAt"])


def change_imports(model, client):
    if random.random() < 0.15:
        # Details of people who have opted out come again. They stay opted out.
        same = {person: email(person) for person in OPT_OUTS}
        model.change(("import", "bench"), "import", "-", "--source", "bench", input=rows(same))
        return
    if not (certain := [source for source in SOURCES if source not in model.in_doubt]):
        return
    source = random.choice(certain)
    states, marker = model.sources[source], model.next()
    now = states[-1]
    absent = [person for person in people_of(source) if person not in now]
    action = random.choice(["add", "replace", "undo"])
    if action == "undo" and len(states) > 1:
        model.in_doubt[source] = after = states[:-1]
        newest = listed(model, source)[-1]
        done = model.change(("imports undo", str(newest)), "imports", "undo", newest)
    elif action == "add" and absent:
        new = {person: f"{person}-m{marker}@example.com" for person in random.sample(absent, random.randint(1, len(absent)))}
        model.in_doubt[source] = after = [*states, {**now, **new}]
        done = model.change(("import", source), "import", "-", "--source", source, input=rows(new))
    else:
        people = people_of(source)
        new = {person: f"{person}-m{marker}@example.com" for person in random.sample(people, random.randint(1, len(people)))}
        model.in_doubt[source] = after = [*states, new]
        done = model.change(("import", source), "import", "-", "--source", source, "--replace-source", "--max-withdrawn", "100%", input=rows(new))
    if done is not None:
        del model.in_doubt[source]
        model.sources[source] = after
        if client:
            check_source(model, client, source, random.sample(people_of(source), 5))


def check_source(model, client, source, people):
    held = model.sources[source][-1]
    for person in people:
        expected = (200, held[person]) if person in held else (404,)
        client.expect(model.main, person, expected, "an import or its undoing is lost, or there is only a part of it")


def check_imports(model, client, some):
    for source, after in list(model.in_doubt.items()):
        # All of it or nothing: the list says which, and the lookups have to agree.
        before, count = model.sources[source], len(listed(model, source))
        if count + 1 == len(after):
            model.sources[source] = after
        elif count + 1 != len(before):
            model.problem("the list of imports", source=source, listed=count, before=len(before) - 1, after=len(after) - 1)
        del model.in_doubt[source]
        check_source(model, client, source, people_of(source))
    for source in some(SOURCES, 1):
        if len(listed(model, source)) + 1 != len(model.sources[source]):
            model.problem("an import or its undoing is not in the list", source=source)
        check_source(model, client, source, some(people_of(source), 40))


# The journal and the files


def check_lines(model):
    """Every disclosure and every acknowledged change has its line, a change only one."""
    since, model.found_until = model.found_until - 5, time.time()
    deadline = time.monotonic() + LINES_MAY_WAIT
    while True:
        began = datetime.datetime.fromtimestamp(since, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        recent = json.loads(service.contactd(model.data, "audit", "show", "--outcome", "hit", "--since", began, "--json"))
        missing = model.not_yet_found - {event["requestId"] for event in recent}
        done = json.loads(service.contactd(model.data, "audit", "show", "--outcome", "done", "--json"))
        lines = collections.Counter(("ticket", event["ticket"]) if event["ticket"] else (event["operation"], event["what"]) for event in done)
        unrecorded = {line: lines[line] for line, count in model.acknowledged.items() if lines[line] < count}
        # A change that was made when the journal could not be written is recorded by the next command or server.
        if not (missing or unrecorded) or time.monotonic() > deadline:
            break
        model.counts["linesThatWaited"] += len(unrecorded)
        time.sleep(1)
    for request in sorted(missing)[:5]:
        model.problem("a disclosure has no line", request=request, missing=len(missing))
    for line, found in unrecorded.items():
        model.problem("a change has no line", line=line, acknowledged=model.acknowledged[line], found=found)
    for line in model.acknowledged.keys() | model.unknown.keys():
        if lines[line] > model.acknowledged[line] + model.unknown[line]:
            model.problem("a change has too many lines", line=line, acknowledged=model.acknowledged[line], unknown=model.unknown[line], found=lines[line])
    model.not_yet_found.clear()
    verified = proof_of(model)
    if verified.returncode:
        model.problem("the journal does not verify", said=(verified.stdout + verified.stderr)[-800:])


def proof_of(model):
    return subprocess.run([stage.BINARY, "audit", "verify", "--data", model.data], capture_output=True, text=True)


def check_files(model):
    """Checks copies of the databases, as the kill left them. The next server has to recover the originals by itself."""
    for name in ("contactd.db", "details.db"):
        with tempfile.TemporaryDirectory(dir=model.work) as copies:
            for path in model.data.glob(f"{name}*"):
                if not path.name.endswith("-shm"):
                    shutil.copy(path, copies)
            with contextlib.closing(sqlite3.connect(pathlib.Path(copies) / name)) as db:
                if (found := db.execute("PRAGMA integrity_check").fetchall()) != [("ok",)]:
                    model.problem("a database is damaged", file=name, found=str(found)[:300])


def check(model, server, is_all):
    def some(of, count=8):
        of = list(of)
        return of if is_all else random.sample(of, min(count, len(of)))

    client = Client(model, server)
    try:
        check_tokens(model, client, some)
        check_opt_outs(model, client, some)
        check_imports(model, client, some)
    except Unanswered:
        model.problem("the server did not answer", exit=server.process.poll())
    if is_all:
        check_lines(model)


# The lives of the server


def repeat(model, server, is_over, step):
    """A thread of a life: repeats a step until the server is killed."""
    client = Client(model, server)
    while not is_over.is_set():
        try:
            step(model, client)
        except Unanswered as error:
            if not is_over.is_set():
                model.problem("a request was not answered, and the server was not killed", error=repr(error.__cause__))
            return
        except Exception as error:
            model.problem("a step of this script failed", step=step.__name__, error=repr(error))
            return


def look_up(model, client):
    open_ones = [family for family in model.families if not family.is_used_up]
    if open_ones and random.random() < 0.4:
        random.choice(open_ones).ask(model, client, random.randrange(40))
    else:
        person = random.randrange(40)
        client.expect(model.main, person, (200, email(person)), "a lookup")
    time.sleep(0.001)


STEPS = (change_tokens, change_opt_outs, change_imports)


def live(model, server):
    is_over = threading.Event()
    threads = [threading.Thread(target=repeat, args=(model, server, is_over, step)) for step in (*STEPS, look_up, look_up)]
    for thread in threads:
        thread.start()
    time.sleep(random.uniform(SHORTEST_LIFE, LONGEST_LIFE))
    if server.process.poll() is not None:
        model.problem("the server ended by itself", exit=server.process.returncode)
    # Before the kill: whatever fails earlier is the server's fault.
    is_over.set()
    server.process.kill()
    server.process.wait()
    for thread in threads:
        thread.join()


def kill_while_it_starts(model, config):
    server = subprocess.Popen([stage.BINARY, "serve", "--data", model.data, "--config", config, "--listen", f"127.0.0.1:{stage.free_port()}",
                               "--admin-listen", f"127.0.0.1:{stage.free_port()}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(random.uniform(0, 0.15))
    if server.poll() is not None:
        model.problem("the server did not start", exit=server.returncode)
    server.kill()
    server.wait()


def run(work, kills):
    config = work / "kills.toml"
    config.write_text(CONFIG)
    model, began = Model(work / "data", work), time.monotonic()
    killed = checked = 0
    while killed < kills:
        if random.random() < 0.1:
            model.life += 1
            kill_while_it_starts(model, config)
            model.counts["killedWhileStarting"] += 1
            killed += 1
        if random.random() < 0.2:
            random.choice(STEPS)(model, None)
        model.life += 1
        with service.serving(model.data, "--config", config) as server:
            is_all = killed >= checked + ALL_CHECKS_EVERY
            check(model, server, is_all)
            if is_all:
                checked = killed
                print(f"{killed} kills in {time.monotonic() - began:.0f} s: {dict(model.counts)}, {len(model.problems)} problems", flush=True)
            live(model, server)
            killed += 1
        check_files(model)
        if len(model.problems) > 100:
            break
    model.life += 1
    model.found_until = 0
    model.not_yet_found = set(model.answered)
    with service.serving(model.data, "--config", config) as server:
        check(model, server, is_all=True)
        server.process.terminate()
        if server.process.wait() != 0:
            model.problem("the server did not stop in order")
    if proof_of(model).returncode:
        model.problem("the journal does not verify after the last stop")
    used_up = [family for family in model.families if family.is_used_up]
    return {"kills": killed, "seconds": round(time.monotonic() - began), **dict(sorted(model.counts.items())),
            "disclosures": len(model.answered), "acknowledgedChanges": sum(model.acknowledged.values()),
            "tokensLive": sum(token["is_live"] for token in model.tokens.values()),
            "tokensRevoked": sum(not token["is_live"] for token in model.tokens.values()),
            "quotas": {"tokens": len(model.families), "usedUp": len(used_up), "hits": sum(family.hits for family in model.families),
                       "unanswered": sum(family.unanswered for family in model.families),
                       "unitsOfThoseUsedUp": sum(family.quota for family in used_up), "hitsOfThoseUsedUp": sum(family.hits for family in used_up)},
            "problems": model.problems}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1_000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--binary", type=pathlib.Path)
    chosen = parser.parse_args()
    stage.WORK.mkdir(parents=True, exist_ok=True)
    if chosen.binary:
        stage.BINARY = chosen.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    random.seed(chosen.seed)
    report = {"command": "python3 soak/kills.py", "commit": stage.commit(), "seed": chosen.seed}
    with tempfile.TemporaryDirectory(dir=stage.WORK) as work:
        report |= run(pathlib.Path(work), 20 if chosen.quick else chosen.kills)
    print(json.dumps(report, indent=1))
    if not chosen.quick:
        (stage.ROOT / f"soak/runs/{datetime.date.today().isoformat()}-kills.json").write_text(json.dumps(report, indent=1) + "\n")
    if report["problems"]:
        raise SystemExit(f"{len(report['problems'])} problems")


if __name__ == "__main__":
    main()
