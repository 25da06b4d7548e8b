#!/usr/bin/env python3
"""Does to the database of a cluster what whoever administers it can do, and checks that it is noticed, or changes nothing that anybody is told.

    python3 soak/owner.py                              # 1,000 cases; builds the release binary, prints, and writes soak/runs/
    python3 soak/owner.py --cases 100 --seed 7 --binary PATH     # fewer, with a binary that is built already; writes nothing
    python3 soak/owner.py --only 17                     # one case again, with what was asked and answered

Each case begins with the same cluster: a node that stays, the journal of a node that is gone, people, tokens, opt-outs, accounts, lookups on record. One to
three manipulations follow, in any tables that contactd promises about: rows deleted, added, changed, swapped or replaced by an older dump of one table, and
rules and triggers that swallow or change what contactd writes. Five of six cases run a command afterwards; after it, half of them drop rules and triggers
again. Then a new node joins.

A case is noticed if the command or a node says so (a warning, an error, no answer), or `doctor`, `audit verify` with a root and a head that were noted down, or
`node verify` finds something. It is without effect if lookups on both nodes, `subject`, `audit show` and log-ins say what they say without it.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import pathlib
import random
import re
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

RUNS = stage.ROOT / "soak/runs"
PEOPLE = 24
ACCESS = ["tokens", "suppressions"]
ACCOUNTS = ["users", "admin_tokens"]
RECORD = ["events", "admin_events", "audit_usage", "positions", "journal_copies", "journal_lines", "journal_seals", "outbox"]
TABLES = ACCESS * 3 + ACCOUNTS * 2 + ["changes", "counters"] + RECORD
# What a command does beside reading, so that rules and triggers have something to swallow.
COMMANDS = [None, ["suppress", service.url(20)], ["unsuppress", service.url(2)], ["token", "update", "second", "--quota", "9/day"],
            ["user", "create", "newcomer", "--role", "auditor"], ["erase", service.url(21)]]

CHANGES = {"suppress", "unsuppress", "token update", "user create", "erase"}


def run(arguments, data, url):
    """A command's exit code, what it printed, and what it said besides."""
    done = subprocess.run([str(part) for part in (stage.BINARY, *arguments, "--data", data, "--store", url)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def api(node, method, path, headers=(), body=None):
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        connection = http.client.HTTPConnection("127.0.0.1", node.admin, timeout=20)
        connection.request(method, f"/admin/api/v1{path}", json.dumps(body) if body else None, {"Content-Type": "application/json", **dict(headers)})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "null")
    return 0, None


class Home:
    """The cluster that every case begins with."""

    def __init__(self, work, server):
        self.work, self.server, self.databases = work, server, 0
        self.cluster = cluster = Cluster(work, server, PEOPLE)
        self.second = cluster.command("token", "create", "second", "--scope", "email").strip()
        self.revoked = cluster.command("token", "create", "revoked").strip()
        self.passwords = {role: cluster.command("user", "create", f"a-{role}", "--role", role).split()[0] for role in ("admin", "operator", "privacy")}
        self.admin_tokens = {role: cluster.command("admin-token", "create", f"t-{role}", "--role", role).split()[0] for role in ("admin", "auditor")}
        cluster.command("suppress", *(service.url(n) for n in range(3)))
        # What every node is given. The keys of a journal are each machine's own.
        self.keys = shutil.copytree(cluster.home / "keys", work / "keys", ignore=shutil.ignore_patterns("journal-*"))
        stays, gone = (Node(work, name, cluster.url, self.keys, cluster.lease).start() for name in ("stays", "gone"))
        for node in (stays, gone):
            for person in range(8):
                node.ask(cluster.token, person)
        self.wait_for("(SELECT count(*) FROM contactd.events) = 16")
        # An older dump of every table.
        server.sql("CREATE SCHEMA old")
        for table in sorted(set(TABLES)):
            server.sql(f"CREATE TABLE old.{table} AS TABLE contactd.{table}")
        cluster.command("suppress", *(service.url(n) for n in range(3, 6)))
        cluster.command("unsuppress", service.url(0))
        cluster.command("token", "revoke", "revoked")
        cluster.command("token", "update", "second", "--quota", "3/day")
        cluster.command("user", "role", "a-privacy", "auditor")
        cluster.command("user", "disable", "a-operator")
        for node in (stays, gone):
            for person in range(6, 14):
                node.ask(cluster.token, person)
        self.wait_for("(SELECT count(*) FROM contactd.events) = 32")
        gone.stop()
        time.sleep(2 * cluster.lease)
        forgotten = next(node["id"] for node in json.loads(cluster.command("node", "list", "--json")) if node["name"] == "gone")
        cluster.command("node", "forget", forgotten, "--yes")
        self.wait_for("NOT EXISTS (SELECT 1 FROM contactd.outbox)")
        self.roots = [line for line in run(["audit", "root"], stays.data, cluster.url)[1].split() if line]
        self.head = run(["audit", "head"], stays.data, cluster.url)[1].split()[0]
        stays.stop()
        # What the end of its journal says is indexed as well.
        run(["audit", "verify"], stays.data, cluster.url)
        self.made_at = datetime.datetime.now(datetime.UTC).isoformat()
        self.columns = {}
        for row in server.sql("SELECT table_name || ' ' || column_name || ' ' || data_type FROM information_schema.columns WHERE table_schema = 'contactd'"
                              " AND is_identity = 'NO' ORDER BY table_name, ordinal_position").splitlines():
            table, column, kind = row.split(" ", 2)
            self.columns.setdefault(table, []).append((column, kind))

    def wait_for(self, condition):
        for _ in range(400):
            if self.server.sql(f"SELECT {condition}") == "t":
                return
            time.sleep(0.05)
        raise SystemExit(f"the set-up waits in vain for {condition}")

    def copy(self, number):
        """A database, a folder and a node for one case."""
        database = f"case_{number}".replace("-", "control")
        self.server.sql(f"CREATE DATABASE {database} TEMPLATE contacts", "postgres")
        work = self.work / database
        work.mkdir()
        shutil.copytree(self.work / "stays", work / "stays", ignore=shutil.ignore_patterns("*.sock"))
        shutil.copytree(self.work / "home", work / "home", ignore=shutil.ignore_patterns("*.sock"))
        return database, work

    def end(self, database, work):
        self.server.sql(f"DROP DATABASE {database} WITH (FORCE)", "postgres")
        shutil.rmtree(work)


class Owner:
    """Whoever can run any SQL, and has no key."""

    def __init__(self, home, chosen):
        self.home, self.chosen = home, chosen

    def manipulation(self):
        table = self.chosen.choice(TABLES)
        way = self.chosen.choices(["delete", "change", "add", "swap", "older", "hook"], [4, 6, 3, 3, 2, 3])[0]
        return table, way, getattr(self, way)(table)

    def some(self, table, most=2):
        """A few rows. The order does not depend on where they lie."""
        return f"(SELECT ctid FROM contactd.{table} AS row ORDER BY md5(row::text || '{self.chosen.random()}') LIMIT {self.chosen.randint(1, most)})"

    def value(self, column, kind):
        """Another value for a column, as SQL."""
        if column == "body" or column == "record":
            return self.chosen.choice([
                """replace(BODY, '"auditor"', '"admin"')""", """replace(BODY, '"operator"', '"admin"')""", "replace(BODY, 'true', 'false')", "replace(BODY, 'false', 'true')",
                """regexp_replace(BODY, '"(revokedAt|disabledAt|quota|expiresAt)":[^,}]*(\\{[^}]*\\})?', '"\\1":null')""", "replace(BODY, 'email', 'phone')",
                """regexp_replace(BODY, '2026', '2036', 'g')""", """regexp_replace(BODY, '"outcome":"done"', '"outcome":"failed"')"""]).replace("BODY", column)
        if kind == "bytea":
            return f"set_byte({column}, 0, get_byte({column}, 0) # {self.chosen.randint(1, 255)})"
        if kind in ("bigint", "integer", "smallint"):
            return f"{column} + {self.chosen.choice([-1, 1, 1, 1000])}"
        if kind == "boolean":
            return f"NOT {column}"
        if kind.startswith("timestamp"):
            return f"{column} - interval '1 day'"
        return self.chosen.choice([f"{column} || 'x'", f"reverse({column})", f"upper({column})"])

    def delete(self, table):
        return f"DELETE FROM contactd.{table} WHERE ctid IN {self.some(table)}"

    def change(self, table):
        column, kind = self.chosen.choice(self.home.columns[table])
        return f"UPDATE contactd.{table} SET {column} = {self.value(column, kind)} WHERE ctid IN {self.some(table)}"

    def add(self, table):
        """A row like another one, with another key."""
        columns = self.home.columns[table]
        changed = self.chosen.choice(columns[:3])
        values = [self.value(*column) if column == changed else column[0] for column in columns]
        names = ", ".join(name for name, _ in columns)
        return f"INSERT INTO contactd.{table} ({names}) SELECT {', '.join(values)} FROM contactd.{table} WHERE ctid IN {self.some(table, 1)} ON CONFLICT DO NOTHING"

    def swap(self, table):
        """Two rows change a value with each other."""
        column, _ = self.chosen.choice(self.home.columns[table][1:] or self.home.columns[table])
        return (f"WITH two AS (SELECT ctid AS at, {column} AS it, row_number() OVER () AS n FROM contactd.{table} WHERE ctid IN {self.some(table, 2)}) "
                f"UPDATE contactd.{table} AS row SET {column} = other.it FROM two JOIN two AS other ON other.n <> two.n WHERE row.ctid = two.at")

    def older(self, table):
        names = ", ".join(name for name, _ in self.home.columns[table])
        return f"DELETE FROM contactd.{table}; INSERT INTO contactd.{table} ({names}) SELECT {names} FROM old.{table}"

    def hook(self, table):
        event = self.chosen.choice(["INSERT", "UPDATE", "DELETE"])
        if self.chosen.random() < 0.4:
            return f"CREATE RULE r{self.chosen.randrange(10 ** 9)} AS ON {event} TO contactd.{table} DO INSTEAD NOTHING"
        name = f"h{self.chosen.randrange(10 ** 9)}"
        column, kind = self.chosen.choice(self.home.columns[table])
        value = re.sub(rf"\b{column}\b", f"NEW.{column}", self.value(column, kind))
        does = "RETURN NULL" if event == "DELETE" or self.chosen.random() < 0.5 else f"NEW.{column} := {value}; RETURN NEW"
        return (f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $f$ BEGIN {does}; END $f$; "
                f"CREATE TRIGGER {name} BEFORE {event} ON contactd.{table} FOR EACH ROW EXECUTE FUNCTION {name}()")


# What was there while a command ran, and is gone when somebody looks.
DROP_HOOKS = """DO $$ DECLARE hook record; BEGIN
    FOR hook IN SELECT * FROM pg_rules WHERE schemaname = 'contactd' LOOP
        EXECUTE format('DROP RULE %I ON contactd.%I', hook.rulename, hook.tablename);
    END LOOP;
    FOR hook IN SELECT tgname, relname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE NOT tgisinternal AND relnamespace = 'contactd'::regnamespace LOOP
        EXECUTE format('DROP TRIGGER %I ON contactd.%I', hook.tgname, hook.relname);
    END LOOP;
END $$"""


def manipulate(home, database, chosen):
    """What was done. What PostgreSQL itself refuses was not."""
    owner, done = Owner(home, chosen), []
    for _ in range(chosen.randint(1, 3)):
        table, way, sql = owner.manipulation()
        with contextlib.suppress(subprocess.CalledProcessError):
            home.server.sql(f"BEGIN; SET search_path = contactd; {sql}; COMMIT", database)
            done.append(f"{way} {table}: {sql}")
    return done


def ask(node, token, person):
    """The status of a lookup, asked again while a busy machine says to come back later."""
    for _ in range(20):
        if (status := node.ask(token, person)) != 503:
            return status
        time.sleep(0.5)
    return status


def answers(home, node, data, url, is_whole):
    """What callers, officers and users are told. `is_whole`: also by commands."""
    told = {}
    if is_whole:
        for person in (1, 4, 7, 12):
            code, out, _ = run(["subject", service.url(person), "--json"], data, url)
            found = json.loads(out) if code == 0 and out else {}
            told[f"subject {person}"] = [code, found.get("suppressed"), found.get("recipients"), found.get("optedOutAt"), found.get("suppressedAt")]
        code, out, _ = run(["audit", "show", "--limit", "1000", "--json"], data, url)
        shown = json.loads(out) if code == 0 and out else []
        told["audit show"] = [code, sorted(json.dumps(event, sort_keys=True) for event in shown if event["time"] < home.made_at)]
        # The command as well, but not what only these questions left.
        told["on record since"] = sorted({event["operation"] for event in shown if event["time"] > home.made_at and "outcome" in event} & CHANGES)
    for name, token in (("bench", home.cluster.token), ("second", home.second), ("revoked", home.revoked)):
        told[f"lookups {name}"] = [ask(node, token, person) for person in range(0, PEOPLE, 1 if name == "bench" else 6)]
    for role, password in home.passwords.items():
        status, body = api(node, "POST", "/session", body={"name": f"a-{role}", "password": password})
        told[f"log-in {role}"] = [status, (body or {}).get("user", {}).get("role")]
    for role, token in home.admin_tokens.items():
        told[f"admin token {role}"] = [api(node, "GET", path, {"Authorization": f"Bearer {token}"})[0] for path in ("/tokens", "/users", "/overview")]
    return told


def case(home, number, seed, options):
    chosen = random.Random(f"{seed} {number}")
    database, work = home.copy(number)
    url = home.server.url(database)
    stays = new = None
    result = {"number": number}
    try:
        stays = Node(work, "stays", url, lease=home.cluster.lease)
        stays.start()
        before = len((work / "stays.log").read_text())
        done = manipulate(home, database, chosen) if number >= 0 else []
        command = chosen.choice(COMMANDS) if number >= 0 else COMMANDS[-1 - number]
        said = run(command, work / "home", url) if command else (0, "", "")
        if options.only is not None:
            print(command, *said)
        if number >= 0 and chosen.random() < 0.5:
            home.server.sql(DROP_HOOKS, database)
            done.append("rules and triggers are dropped again")
        new = Node(work, "new", url, home.keys, home.cluster.lease)
        new.start(wait=False)

        def notices(*arguments):
            code, out, err = run(arguments, stays.data, url)
            if options.only is not None:
                print(*arguments, code, out[-3000:], err[-3000:])
            return code != 0

        def is_new_silent():
            deadline = time.monotonic() + 15
            while " ERROR " not in (work / "new.log").read_text():
                if new.is_ready():
                    return False
                if time.monotonic() > deadline or new.process.poll() is not None:
                    break
                time.sleep(0.1)
            return True

        # What is noticed early need not be asked about. Verifying repairs the index, so it comes after the questions.
        result["told"] = {}

        def ask():
            result["told"] = {"stays": answers(home, stays, stays.data, url, True), "new": answers(home, new, new.data, url, False)}

        steps = {"command": lambda: said[0] != 0 or "on record" in said[2] or "reconcile" in said[2],
                 "new node": is_new_silent,
                 "node verify": lambda: notices("node", "verify"),
                 "doctor": lambda: notices("doctor"),
                 "answers": ask,
                 "audit verify": lambda: notices("audit", "verify", "--head", home.head),
                 "node log": lambda: " ERROR " in (work / "stays.log").read_text()[before:]}
        noticed = next((name for name, step in steps.items() if step()), None)
        return {**result, "command": command, "done": done, "noticed": noticed}
    except subprocess.TimeoutExpired as error:
        # Somebody who waits knows that something is wrong.
        return {**result, "command": None, "done": [], "told": {}, "noticed": f"{error.cmd[1]} did not end"}
    finally:
        for node in filter(None, (stays, new)):
            node.kill()
        home.end(database, work)


def differences(expected, told):
    """What is answered otherwise; of lists, what only one of them has."""
    found = []
    for node, answers_of in told.items():
        for what, answer in answers_of.items():
            wanted = expected[node][what]
            if answer != wanted:
                flat = lambda it: [json.dumps(part) for part in (it[-1] if it and isinstance(it[-1], list) else it)]
                only = [[part for part in flat(one) if part not in flat(other)] for one, other in ((answer, wanted), (wanted, answer))]
                found.append(f"{node}: {what}: {only[0]} instead of {only[1]}"[:1500])
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    parser.add_argument("--together", type=int, default=3)
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    with tempfile.TemporaryDirectory(prefix="contactd-owner-") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        with postgres.running(work / "postgres", fsync="off", shared_buffers="'128MB'") as server:
            home = Home(work, server)
            with concurrent.futures.ThreadPoolExecutor(options.together) as pool:
                numbers = range(options.cases) if options.only is None else [options.only]
                controls = list(pool.map(lambda number: case(home, number, options.seed, options), range(-1, -1 - len(COMMANDS), -1)))
                expected = {json.dumps(control["command"]): control["told"] for control in controls}
                wrong = [control for control in controls if control["noticed"]]
                if wrong:
                    sys.exit(f"something is noticed where nothing was done: {[(one['command'], one['noticed']) for one in wrong]}")
                results, unnoticed = [], []
                for result in pool.map(lambda number: case(home, number, options.seed, options), numbers):
                    result["differs"] = differences(expected[json.dumps(result["command"])], result.pop("told"))
                    results.append(result)
                    if result["differs"] and not result["noticed"]:
                        unnoticed.append(result)
                        print(json.dumps(result, indent=1), flush=True)
                    elif options.only is not None:
                        print(json.dumps(result, indent=1))
    found = {"cases": len(results), "seed": options.seed, "noticed": sum(bool(one["noticed"]) for one in results),
             "withoutEffect": sum(not one["noticed"] and not one["differs"] for one in results), "unnoticed": len(unnoticed),
             "firstNoticedBy": collections.Counter(one["noticed"] for one in results if one["noticed"])}
    print(json.dumps(found))
    if not options.binary and options.only is None:
        name = RUNS / f"{datetime.date.today()}-owner.json"
        name.write_text(json.dumps({"commit": stage.commit(), **found, "of": unnoticed}, indent=1) + "\n")
    sys.exit(f"{len(unnoticed)} unnoticed" if unnoticed else 0)


if __name__ == "__main__":
    main()
