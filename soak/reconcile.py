#!/usr/bin/env python3
"""Changes the database of a cluster by hand, at random, as its owner could, and checks that each change is noticed or has no effect.

    python3 soak/reconcile.py                                # 1,000 cases; builds the release binary, and writes soak/runs/
    python3 soak/reconcile.py --cases 100 --seed 7 --binary PATH

Each case makes one to three manipulations of tokens, suppressions, users, admin tokens, changes and counters: rows inserted, changed, removed
or exchanged, an older copy of one table, rules and triggers; in every second case a command makes a change in between. One node stays, one is new. A case is
good if `doctor`, `audit verify` or `node verify` say so, or if a new node answers every lookup as before and the lists of tokens and accounts are
as before. The node that stays never discloses anybody who is opted out. Afterwards `node reconcile --yes` leads back to a database that is whole.
"""
import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import postgres
import service
import stage
from nodes import Cluster, Node

PEOPLE = 8
TABLES = ["tokens", "suppressions", "users", "admin_tokens"]
ONE = "(SELECT ctid FROM {t} ORDER BY random() LIMIT 1)"
BOUND = {"tokens": "id, family, body, number", "users": "id, family, body, number", "admin_tokens": "id, family, body, number",
         "suppressions": "digest, key, suppressed_at, is_removed, number"}
# What lets the body of an entity say something else.
BODIES = ["replace(body, '\"email\":false', '\"email\":true')", "replace(body, 'operator', 'admin')", "replace(body, 'auditor', 'admin')",
          "regexp_replace(body, '\"expiresAt\":[^,}]*', '\"expiresAt\":null')", "body || ' '"]
SUPPRESSION = ["digest = sha256(digest)", "suppressed_at = suppressed_at + 1", "is_removed = NOT is_removed", "key = 'k'"]


def manipulation(dice):
    """The name of a manipulation, and its SQL."""
    t = dice.choice(TABLES)
    one = ONE.format(t=t)
    is_opt_out = t == "suppressions"
    assignment = dice.choice(SUPPRESSION) if is_opt_out else f"body = {dice.choice(BODIES)}"
    copied = BOUND[t].replace("digest", "sha256(digest)") if is_opt_out else BOUND[t].replace("id,", "'x' || md5(id),", 1)
    swapped = "suppressed_at" if is_opt_out else "body"
    newest = "counter = '{0}' AND number = (SELECT number FROM counters WHERE counter = '{0}')".format(dice.choice(["access", "accounts"]))
    rule = dice.choice(["INSERT", "UPDATE"])
    changed = "NEW.suppressed_at := NEW.suppressed_at + 1" if is_opt_out else "NEW.body := NEW.body || ' '"
    return dice.choice([
        ("update", f"UPDATE {t} SET {assignment} WHERE ctid = {one}"),
        ("update all", f"UPDATE {t} SET {assignment}"),
        ("delete", f"DELETE FROM {t} WHERE ctid = {one}"),
        ("insert", f"INSERT INTO {t} ({BOUND[t]}) SELECT {copied} FROM {t} WHERE ctid = {one} ON CONFLICT DO NOTHING"),
        ("swap", f"CREATE TEMP TABLE pair AS SELECT ctid AS at, {swapped} AS was, row_number() OVER () AS n FROM (SELECT ctid, {swapped} FROM {t} "
                 f"ORDER BY random() LIMIT 2) AS two; UPDATE {t} SET {swapped} = other.was FROM pair AS other, pair AS own "
                 f"WHERE {t}.ctid = own.at AND other.n <> own.n"),
        ("older table", f"DELETE FROM {t}; INSERT INTO {t} ({BOUND[t]}) SELECT {BOUND[t]} FROM public.older_{t}"),
        ("change id", f"UPDATE changes SET id = sha256(id) WHERE {newest}"),
        ("no seal", f"UPDATE changes SET seal_tag = NULL WHERE {newest}"),
        ("other sum", f"UPDATE changes SET seal_sum = sha256(seal_sum) WHERE {newest}"),
        ("older seal", f"UPDATE changes SET (seal_sum, seal_tag) = (SELECT seal_sum, seal_tag FROM changes AS o WHERE o.counter = changes.counter "
                       f"AND o.number = changes.number - 1) WHERE {newest}"),
        ("change removed", f"DELETE FROM changes WHERE {newest}"),
        ("counter", f"UPDATE counters SET number = greatest(0, number + {dice.choice([-1, 1])}) WHERE counter = '{dice.choice(['access', 'accounts'])}'"),
        ("rule", f"CREATE RULE owner_{rule} AS ON {rule} TO {t} DO INSTEAD NOTHING"),
        ("trigger", f"CREATE OR REPLACE FUNCTION public.owner_{t}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {changed}; RETURN NEW; END $$; "
                    f"CREATE OR REPLACE TRIGGER owner BEFORE INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION public.owner_{t}()"),
    ])


class Owner:
    def __init__(self, work, server):
        self.work, self.server = work, server
        self.cluster = Cluster(work, server, PEOPLE)
        self.out, self.tokens = {0, 1}, [self.cluster.token]
        self.tokens.append(self.command("token", "create", "narrow", "--scope", "phone").strip())
        self.command("user", "create", "olga", "--role", "operator")
        self.command("user", "create", "otto", "--role", "auditor")
        self.command("admin-token", "create", "robot", "--role", "operator")
        self.command("suppress", service.url(0))
        for table in TABLES:
            self.sql(f"CREATE TABLE public.older_{table} AS SELECT * FROM {table}")
        self.command("suppress", service.url(1))
        self.command("token", "create", "later")
        self.command("user", "role", "olga", "auditor")
        self.command("admin-token", "create", "later", "--role", "auditor")
        # The digest keys alone: those of a journal belong to one node.
        self.keys, self.made = work / "keys", 0
        self.keys.mkdir(mode=0o700)
        for key in (self.cluster.home / "keys").glob("digest-*.key"):
            shutil.copy2(key, self.keys)
        self.stays = self.node("stays").start()
        assert not self.noticed(), self.noticed()

    def node(self, name):
        node = Node(self.work, name, self.cluster.url, self.keys)
        self.cluster.nodes.append(node)
        return node

    def sql(self, text):
        return self.server.sql(f"SET search_path TO contactd; {text}")

    def command(self, *arguments):
        return self.cluster.command(*arguments)

    def run(self, *arguments, node=None):
        data = (node or self.stays).data
        return subprocess.run([str(part) for part in (stage.BINARY, *arguments, "--data", data, "--store", self.cluster.url)],
                              capture_output=True, text=True)

    def lists(self):
        """What tokens and accounts may do, by the lists of commands."""
        def of(*command):
            listed = json.loads(self.run(*command, "--json").stdout or "null")
            return [{key: value for key, value in row.items() if key not in ("lastUsedAt", "hits", "lastLoginAt")} for row in listed or []]
        return [of("token", "list"), of("user", "list"), of("admin-token", "list")]

    def answers(self, node):
        return [[node.ask(token, person) for person in range(PEOPLE)] for token in self.tokens]

    def expected(self):
        return [[404 if person in self.out else 200 for person in range(PEOPLE)], [403] * PEOPLE]

    def noticed(self):
        """Who says that something is wrong."""
        said = {}
        for command in (("doctor",), ("audit", "verify"), ("node", "verify")):
            done = self.run(*command)
            if done.returncode and ("contactd stored" in done.stdout or "WRONG" in done.stdout or "FAIL" in done.stdout or done.stderr):
                said[" ".join(command)] = (done.stdout + done.stderr)[-300:]
        return said

    def between(self, dice):
        """A change by a command, whatever comes of it."""
        self.made += 1
        person = dice.choice([person for person in range(2, PEOPLE)])
        return dice.choice([("suppress", service.url(person)), ("token", "create", f"made-{self.made}"), ("user", "role", "otto", "operator"),
                            ("user", "role", "otto", "auditor")])

    def case(self, dice):
        before, manipulations, commands = self.lists(), [], []
        for _ in range(dice.randint(1, 3)):
            name, text = manipulation(dice)
            try:
                self.sql(text)
                manipulations.append(text)
            except subprocess.CalledProcessError:
                pass  # Such as two rules of one name.
            if dice.random() < 0.25:
                command = self.between(dice)
                commands.append((command, self.run(*command).returncode))
                if command[0] == "suppress":
                    self.out.add(service_number(command[1]))
        said, problem = self.noticed(), None
        for row, expected in zip(self.answers(self.stays), self.expected()):
            if any(status == 200 and wanted != 200 for status, wanted in zip(row, expected)):
                problem = "the node that stays disclosed"
        if not said:
            node = self.node(f"fresh-{dice.randrange(10**9)}").start(wait=False)
            deadline = time.monotonic() + 20
            while not node.is_ready() and time.monotonic() < deadline:
                time.sleep(0.05)
            if node.is_ready() and self.answers(node) != self.expected():
                problem = "unnoticed, and a new node answers otherwise"
            if not commands and self.lists() != before:
                problem = "unnoticed, and lists differ"
            node.stop()
            self.run("node", "forget", node.name, "--yes")
            shutil.rmtree(node.data, ignore_errors=True)
        return {"manipulations": manipulations, "commands": commands, "said": sorted(said), "problem": problem or self.mend()}

    def mend(self):
        """Leads back, and says if that does not."""
        for table in TABLES:
            for kind in ("INSERT", "UPDATE"):
                self.sql(f"DROP RULE IF EXISTS owner_{kind} ON {table}")
            self.sql(f"DROP TRIGGER IF EXISTS owner ON {table}")
        reconciled = self.run("node", "reconcile", "--yes")
        try:
            self.stays.wait(30)
        except SystemExit:
            return f"the node does not serve again: {reconciled.stdout}{reconciled.stderr}"
        # The owner may have swallowed what a command stored: `audit verify` names it.
        for person in self.out:
            self.run("suppress", service.url(person))
        for command in (("node", "reconcile"), ("node", "verify"), ("audit", "verify")):
            done = self.run(*command)
            if done.returncode:
                return f"after {' '.join(command)}: {done.stdout[-400:]}{done.stderr[-200:]}"
        if self.answers(self.stays)[0] != self.expected()[0] and not self.run("token", "list").returncode:
            return "not all lookups are as before"
        return None


def service_number(url):
    return next(person for person in range(PEOPLE) if service.url(person) == url)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    counts, failed = {"noticed": 0, "withoutEffect": 0}, []
    with tempfile.TemporaryDirectory(prefix="contactd-reconcile-") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        with postgres.running(work / "postgres") as server:
            owner = Owner(work, server)
            for number in range(options.cases):
                case = owner.case(random.Random(f"{options.seed}-{number}"))
                counts["noticed" if case["said"] else "withoutEffect"] += 1
                if case["problem"]:
                    failed.append({"case": number, **case})
                    print(json.dumps(failed[-1], indent=1), flush=True)
                    break
            owner.cluster.stop()
    result = {"cases": number + 1, "seed": options.seed, **counts, "failed": failed}
    print(json.dumps({**result, "failed": len(failed)}))
    if not options.binary:
        written = stage.ROOT / "soak/runs" / f"{time.strftime('%Y-%m-%d')}-reconcile.json"
        written.write_text(json.dumps({"commit": stage.commit(), **result}, indent=1) + "\n")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
