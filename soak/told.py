#!/usr/bin/env python3
"""Makes the faults that an operator has to find, and notes what contactd says about each: doctor, `node list`, readyz, metrics, alerts and the log.

    python3 soak/told.py                        # everything; builds the release binary, prints a table, and writes soak/runs/
    python3 soak/told.py lock password          # only these faults; --help lists them
    python3 soak/told.py --quick                # writes nothing
    python3 soak/told.py --binary PATH          # a binary that is built already

Each fault has a PostgreSQL of its own, to which nodes connect as the owner of the database, who is no superuser. Somebody looks people up all the time. A fault
lasts for more than a lease of 12 s. It fails if the cause (`CAUSES`) is not in what doctor says or not in the first new line of the log at WARN or ERROR, or if
doctor takes longer than 5 s, counted from the start of the command. `node list` runs with `patience = "3s"`.

Alerts are the rules of the group contactd-cluster, and those that a store or a journal is down, whose expressions hold at the end; their numbers are for a lease
of 60 s, so that those which are seconds of the lease, of the copy or of the journal are divided by 5. How long they have to hold (`for`) does not count. A node that
has no metrics is one that is down.
Two faults need the right to mount a small file system.
"""
import argparse
import contextlib
import dataclasses
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import postgres
import service
import stage
from nodes import STARTED, Node, Relay

PEOPLE, LEASE, PATIENCE, LONGEST_DOCTOR = 50, 12, "3s", 5.0
# When doctor is asked for the first time, and how long the fault lasts.
FIRST_LOOK, LASTS = 3, LEASE + 6
METRICS = ("store_up", "copy_lag_seconds", "lease_seconds", "clock_difference_seconds", "held_changes", "journal_stuck_seconds", "database_answer_seconds")
ROLE, PASSWORD = "nodes", "told-quell-1"
CLOSE_CONNECTIONS = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{ROLE}'"


@dataclasses.dataclass
class Fault:
    make: callable
    # What doctor has to say, and the first line of the log: one of these.
    doctor: str
    log: str | tuple
    nodes: int = 1
    lease: int = LEASE
    # What is on a small file system of its own, in MB: the database, or the node.
    database_room: int = 0
    node_room: int = 0
    is_linked: bool = False
    # Whether the node is started by the fault.
    starts_later: bool = False


class Server(postgres.Postgres):
    """A copy of a server that is set up. It may be preloaded with a library that changes its clock."""

    def __init__(self, directory, template, **settings):
        self.directory, self.core, self.process, self.port = directory, None, None, stage.free_port()
        self.data, self.environment = directory / "data", []
        directory.mkdir(exist_ok=True)
        directory.chmod(0o755)
        if os.getuid() == 0:
            shutil.chown(directory, postgres.USER)
        self.run_as_user("cp", "-a", template, self.data)
        with open(self.data / "postgresql.conf", "a") as config:
            config.writelines(f"{name} = {value}\n" for name, value in settings.items())

    def as_user(self, *command):
        return super().as_user("env", *self.environment, *command)

    def tree(self):
        pids, found = [self.process.pid], []
        while pids:
            found.append(pid := pids.pop())
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                # It may have ended meanwhile.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    pids += map(int, task.read_text().split())
        return found

    def signal_all(self, number):
        for pid in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def end(self):
        if self.process and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()

    def node_url(self, port=None):
        return f"postgres://{ROLE}:{PASSWORD}@127.0.0.1:{port or self.port}/contacts"


class ToldNode(Node):
    environment = {}

    def start(self, wait=True):
        self.process = subprocess.Popen([str(part) for part in (stage.BINARY, "serve", "--workers", 1, "--data", self.data, "--store", self.url,
                                         "--config", self.config, "--listen", f"127.0.0.1:{self.port}", "--admin-listen", f"127.0.0.1:{self.admin}")],
                                        stdout=subprocess.DEVNULL, stderr=open(self.log, "a"), env=os.environ | self.environment)
        STARTED.append(self.process)
        if wait:
            self.wait(60)
        return self

    @property
    def log(self):
        return self.work / f"{self.name}.log"

    def run(self, *arguments, config=None):
        """What a command on this node's machine prints, and how many seconds it takes."""
        command = (stage.BINARY, *arguments, "--data", self.data, "--store", self.url, "--config", config or self.config)
        began = time.monotonic()
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=os.environ | self.environment)
        return {"said": (done.stdout + done.stderr).strip(), "code": done.returncode, "seconds": round(time.monotonic() - began, 1)}

    def get(self, port, path):
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        return 0, ""

    def metrics(self):
        text = self.get(self.admin, "/metrics")[1]
        return {name: float(value) for name, value in re.findall(r"^(contactd_\w+) ([\d.e+-]+)$", text, re.M)}


class Stand:
    """A database and nodes, for one fault."""

    def __init__(self, work, fault, template):
        self.work, self.fault, self.mounted, self.sessions, self.relay = work, fault, [], [], None
        self.is_over = threading.Event()
        if fault.database_room:
            self.mount(work / "postgres", fault.database_room)
        self.server = Server(work / "postgres", template["data"])
        self.token = template["token"]
        self.library, self.faults = template["library"], work / "faults"
        self.set_clock(0)
        if "database_clock" in fault.make.__name__:
            self.server.environment = [f"LD_PRELOAD={self.library}", f"FAULTS={self.faults}"]
        self.server.start()
        self.relay = Relay(self.server.port) if fault.is_linked else None
        if fault.node_room:
            self.mount(work / "a", fault.node_room)
        url = self.server.node_url(self.relay.port if self.relay else None)
        self.nodes = [ToldNode(work, name, url, template["keys"], fault.lease) for name in "abc"[:fault.nodes]]
        for node in self.nodes:
            node.data.chmod(0o700)
        self.node = self.nodes[0]
        if fault.make.__name__ == "node_clock":
            self.node.environment = {"LD_PRELOAD": str(self.library), "FAULTS": str(self.faults)}
        if not fault.starts_later:
            for node in self.nodes:
                node.start()

    def mount(self, path, megabytes):
        path.mkdir()
        stage.sh("mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", path)
        self.mounted.append(path)

    def set_clock(self, seconds):
        new = self.work / "faults.new"
        new.write_text(f"clock {seconds}" if seconds else "ok")
        new.chmod(0o644)
        new.rename(self.faults)

    def session(self, sql):
        """Somebody else's session, who administers the database."""
        self.sessions.append(subprocess.Popen([str(postgres.program("psql")), "-qX", "-d", self.server.url(), "-c", f"{sql}; SELECT pg_sleep(600)"],
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def look_up(self):
        person = 0
        while not self.is_over.wait(0.1):
            person += 1
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.node.ask(self.token, person % PEOPLE, http.client.HTTPConnection("127.0.0.1", self.node.port, timeout=2))

    def end(self):
        self.is_over.set()
        for node in self.nodes:
            if node.process:
                node.kill()
        for session in self.sessions:
            session.kill()
            session.wait()
        self.server.end()
        for path in self.mounted:
            stage.sh("umount", "-l", path)


def fill(directory):
    with open(directory / "filler", "wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(1 << 12)):
            pass


def no_standby(stand):
    stand.server.sql("ALTER SYSTEM SET synchronous_standby_names TO 'elsewhere'")
    stand.server.sql("SELECT pg_reload_conf()")


def lock(stand):
    stand.session("BEGIN; LOCK TABLE contactd.nodes IN SHARE MODE")


def alter(stand):
    stand.session("BEGIN; ALTER TABLE contactd.counters ADD COLUMN note text")


def database_disk(stand):
    fill(stand.server.directory)


def node_disk(stand):
    fill(stand.node.data)


def node_clock(stand):
    stand.set_clock(86_400)


def database_clock(stand):
    stand.set_clock(86_400)


def slow_link(stand):
    stand.relay.delay = 0.5


def black_hole(stand):
    stand.relay.is_cut = True


def connections(stand):
    # The node loses its connections, as in a failover, and others take them first.
    stand.server.sql("ALTER ROLE nodes CONNECTION LIMIT 0")
    stand.server.sql(CLOSE_CONNECTIONS)
    url = stand.server.url().replace("contactd@", "other@")
    # The second time, those that were still being closed are free.
    for _ in range(2):
        for _ in range(int(stand.server.sql("SHOW max_connections"))):
            stand.sessions.append(subprocess.Popen([str(postgres.program("psql")), "-qX", "-d", url, "-c", "SELECT pg_sleep(600)"],
                                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        time.sleep(1)
    stand.server.sql("ALTER ROLE nodes CONNECTION LIMIT -1")


def password(stand):
    stand.server.sql("ALTER ROLE nodes PASSWORD 'told-quell-2'")
    # Connections that are open already go on.
    stand.server.sql(CLOSE_CONNECTIONS)


def stopped(stand):
    stand.server.stop()


def frozen(stand):
    stand.server.signal_all(signal.SIGSTOP)


def without_database(stand):
    stand.server.stop()
    stand.node.start(wait=False)


def set_back(stand):
    stand.server.copy_to(stand.server.directory / "earlier")
    stand.node.wait(60)
    stand.node.run("suppress", service.url(3))
    stand.server.restore_from(stand.server.directory / "earlier")


def asynchronous(stand):
    standby = stand.server.directory / "standby"
    stand.server.run_as_user(postgres.program("pg_basebackup"), "-R", "-D", standby, "-d", stand.server.url("postgres"), "--checkpoint=fast")
    stand.sessions.append(subprocess.Popen(stand.server.as_user(postgres.program("postgres"), "-D", standby, "-p", stage.free_port()),
                                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"))


SOMEBODY = "another program (psql, database user contactd, backend pid "
CAUSES = {
    "no-standby": Fault(no_standby, "no standby confirms them", "no standby confirms them"),
    "lock": Fault(lock, SOMEBODY, SOMEBODY),
    "alter": Fault(alter, SOMEBODY, SOMEBODY),
    "database-disk": Fault(database_disk, "the database's disk is full", "the database's disk is full", database_room=160),
    "node-disk": Fault(node_disk, "/a is full", "the disk of the data directory on this machine is full", node_room=64),
    "node-clock": Fault(node_clock, "the clock of node a is 86400 s ahead of the database's, and differs from those of the other nodes",
                        # Two threads notice it at the same moment.
                        ("the system clock went forward by 86400 s", "the clock of this node differs from the database's"), nodes=3),
    "database-clock": Fault(database_clock, "no other node's clock contradicts it", "no other node's clock contradicts this node's", nodes=2),
    "slow-link": Fault(slow_link, "it answers, but slowly", "it answers, but slowly", is_linked=True, lease=60),
    "black-hole": Fault(black_hole, "it did not answer in time", "it did not answer in time", is_linked=True),
    "connections": Fault(connections, "no connection is left", "no connection is left"),
    "password": Fault(password, "wrong user or password", "wrong user or password"),
    "stopped": Fault(stopped, "connection refused", "connection refused"),
    "frozen": Fault(frozen, "it did not answer in time", "it did not answer in time"),
    "started-without": Fault(without_database, "connection refused", "connection refused", starts_later=True),
    "set-back": Fault(set_back, "that the database has lost", "the database was set back"),
    "asynchronous": Fault(asynchronous, "acknowledges changes before a standby has them", "acknowledges changes before a standby has them"),
}


def rules():
    """The alerts that are evaluated here, by name."""
    text = (stage.ROOT / "packaging/prometheus-alerts.yml").read_text()
    found = dict(re.findall(r"- alert: (\w+)\n +expr: (.+)", text))
    cluster = text[text.index("- name: contactd-cluster"):]
    return {name: expr for name, expr in found.items() if name in cluster or name in ("ContactdStoreDown", "ContactdJournalDown")}


def holds(expr, all_metrics, metrics, lease):
    """Whether the expression of an alert holds for the first node."""
    if counted := re.fullmatch(r"count\((\w+) > 0\) < (\d+)", expr):
        return sum(each.get(counted[1], 0) > 0 for each in all_metrics) < int(counted[2])
    expr = re.sub(r"((?:lease|copy_lag|stuck)_seconds [<>] )(\d+)", lambda found: f"{found[1]}{int(found[2]) * lease / 60}", expr)
    names = re.findall(r"contactd_\w+", expr)
    if not all(name in metrics for name in names):
        return False
    return bool(eval(re.sub(r"contactd_\w+", lambda name: repr(metrics[name.group()]), expr), {"__builtins__": {}}))


class Watch(threading.Thread):
    """Notes when a node says something new at WARN or ERROR."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.path, self.lines, self.is_over = node.log, [], threading.Event()
        self.from_byte = node.log.stat().st_size if node.log.exists() else 0
        self.since = time.monotonic()
        self.start()

    def run(self):
        while not self.is_over.wait(0.05):
            self.look()

    def look(self):
        if not self.path.exists():
            return
        text = self.path.read_bytes()[self.from_byte:]
        text = text[:text.rfind(b"\n") + 1]
        self.from_byte += len(text)
        for line in text.decode().splitlines():
            said = json.loads(line) if line.startswith("{") else {}
            if said.get("level") in ("WARN", "ERROR"):
                words = [str(said[part]) for part in ("message", "database", "error", "fault") if part in said]
                self.lines.append((round(time.monotonic() - self.since, 1), f"{said['level']} {': '.join(words)}"))


def told(name, fault, work, template):
    stand = Stand(work, fault, template)
    try:
        threading.Thread(target=stand.look_up, daemon=True).start()
        time.sleep(1)
        watch = Watch(stand.node)
        fault.make(stand)
        made = time.monotonic()
        time.sleep(FIRST_LOOK)
        doctors = [stand.node.run("doctor")]
        time.sleep(max(0.0, made + LASTS - time.monotonic()))
        doctors.append(stand.node.run("doctor"))
        impatient = work / "impatient.toml"
        impatient.write_text(stand.node.config.read_text().replace("[cluster]\n", f'[cluster]\npatience = "{PATIENCE}"\n'))
        listed = stand.node.run("node", "list", config=impatient)
        readyz = stand.node.get(stand.node.port, "/readyz")[0]
        all_metrics = [node.metrics() for node in stand.nodes]
        metrics = all_metrics[0]
        alerts = [alert for alert, expr in rules().items() if holds(expr, all_metrics, metrics, fault.lease)]
        if not metrics:
            alerts = ["ContactdDown"]
        if fault.nodes == 1:
            # Of one node, this says nothing.
            alerts = [alert for alert in alerts if alert != "ContactdFewNodes"]
        watch.is_over.set()
        watch.join()
    finally:
        stand.end()
    seconds, line = watch.lines[0] if watch.lines else (None, "nothing")
    return {
        "doctor": [told["said"] for told in doctors], "doctorSeconds": [told["seconds"] for told in doctors],
        "nodeList": listed["said"], "nodeListSeconds": listed["seconds"], "readyz": readyz,
        "metrics": {metric: metrics.get(f"contactd_{metric}") for metric in METRICS}, "alerts": alerts,
        "firstLine": line, "firstLineSeconds": seconds, "log": watch.lines[:20],
        "isInDoctor": all(fault.doctor in told["said"] for told in doctors), "isInLog": any(cause in line for cause in ([fault.log] if isinstance(fault.log, str) else fault.log)),
        "isDoctorInTime": all(told["seconds"] <= LONGEST_DOCTOR for told in doctors),
    }


def cells(name, found):
    wrong = [line.strip() for line in found["doctor"][-1].splitlines() if line.startswith(("FAIL", "warn"))]
    states = re.findall(r"^[0-9a-f]{8} +(\S+) +\S+ +((?:\S+ )*?\S+)  ", found["nodeList"], re.M)
    listed = ", ".join(f"{node} {state}" for node, state in states) or found["nodeList"].splitlines()[-1]
    metrics = " ".join(f"{key.removesuffix('_seconds')}={value:g}" for key, value in found["metrics"].items() if value is not None)
    return (name, f"{max(found['doctorSeconds'])} s: {' / '.join(wrong)}", f"{found['nodeListSeconds']} s: {listed}", f"{found['readyz']}; {metrics}",
            ", ".join(found["alerts"]) or "none", f"{found['firstLineSeconds']} s: {found['firstLine']}")


def set_up(work):
    """A server with people, as whoever administers it makes one, and a library that changes clocks."""
    with postgres.running(work / "template", max_connections=20, shared_buffers="'64MB'", max_wal_size="'1GB'") as server:
        server.sql(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'", "postgres")
        server.sql("CREATE ROLE other LOGIN", "postgres")
        server.sql(f"CREATE DATABASE contacts OWNER {ROLE}", "postgres")
        (server.data / "pg_hba.conf").write_text(f"host all {ROLE} 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n"
                                                 "host replication all 127.0.0.1/32 trust\n")
        server.sql("SELECT pg_reload_conf()")
        url = f"postgres://{ROLE}:{PASSWORD}@127.0.0.1:{server.port}/contacts"

        def command(*arguments, **options):
            return subprocess.run([str(part) for part in (stage.BINARY, *arguments, "--data", work / "home", "--store", url)], check=True,
                                  capture_output=True, text=True, **options).stdout

        command("import", "-", "--source", "bench", input=service.rows(PEOPLE))
        token = command("token", "create", "bench").strip()
    library = work / "faults.so"
    stage.sh("cc", "-shared", "-fPIC", "-O1", "-o", library, stage.ROOT / "crates/contactd/tests/it/faults.c")
    # A node makes the keys of its journal itself.
    (work / "keys").mkdir()
    for key in (work / "home/keys").glob("digest-*.key"):
        shutil.copy(key, work / "keys")
    return {"data": server.data, "keys": work / "keys", "token": token, "library": library}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("faults", nargs="*", choices=[*CAUSES, []])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    results, is_mounting = {}, stage.may_mount()
    with tempfile.TemporaryDirectory(prefix="contactd-told-") as work:
        work = pathlib.Path(work)
        work.chmod(0o755)
        template = set_up(work)
        for name in options.faults or CAUSES:
            fault = CAUSES[name]
            if (fault.database_room or fault.node_room) and not is_mounting:
                print(f"{name}: not run, because nothing may be mounted here")
                continue
            place = work / name
            place.mkdir()
            place.chmod(0o755)
            results[name] = told(name, fault, place, template)
            print("\n  ".join(cells(name, results[name])), flush=True)
    if not options.quick:
        written = stage.ROOT / "soak/runs" / f"{datetime.date.today()}-told.json"
        known = json.loads(written.read_text()) if written.exists() else {}
        known.update({"commit": stage.commit(), **results})
        written.write_text(json.dumps(known, indent=1) + "\n")
    failed = [f"{name}.{rule}" for name, found in results.items() for rule, value in found.items() if rule.startswith("is") and not value]
    if failed:
        sys.exit("does not hold: " + ", ".join(failed))
    print("the cause is told in each fault")


if __name__ == "__main__":
    main()
