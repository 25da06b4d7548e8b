#!/usr/bin/env python3
"""A whole cluster on this machine, to try failovers: etcd, three PostgreSQL with Patroni, nodes of contactd, and HAProxy or nginx.

    soak/drill/cluster.py start DIR --binary PATH       # starts everything in a new directory, and prints the addresses
    soak/drill/cluster.py status DIR                    # who is the primary, which nodes answer
    soak/drill/cluster.py break DIR primary             # kills the primary's host: PostgreSQL and Patroni
    soak/drill/cluster.py heal DIR                      # starts again what was killed, and waits until all is well
    soak/drill/cluster.py run DIR suppress URL          # runs a command of contactd on the cluster
    soak/drill/cluster.py stop DIR                      # ends everything, and removes the directory

What can be broken:
    primary     the host of the primary is lost: PostgreSQL and Patroni are killed
    postgres    only PostgreSQL of the primary is killed; its Patroni starts it again
    patroni     only Patroni of the primary is killed; PostgreSQL goes on, and does not know that it is replaced
    freeze      the host of the primary hangs: its processes are stopped, and go on at `heal`
    switchover  the primary is changed in order, as for maintenance
    standbys    the hosts of both standbys are lost
    etcd        etcd is lost
    node        a node of contactd is killed (`--name node-1` says which)
    hang        a node of contactd hangs: its process is stopped, and goes on at `heal`

Everything listens on the loopback interface only. Root starts it as the user `postgres`, which must be able to read the binary and this
repository; others as themselves. Patroni is installed below target/ when it is needed. PostgreSQL does not sync its files (`fsync = off`), which
saves time and makes no difference to processes that are killed. Do not use it for data that you want to keep.
"""
import argparse
import base64
import contextlib
import json
import os
import pathlib
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from proxy import Ways

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
USER = "postgres"
POSTGRES = pathlib.Path("/usr/lib/postgresql/15/bin")
# Where programs are, also those for root.
PROGRAMS = "/usr/bin:/usr/sbin"
PATRONI = ["patroni[etcd3]==4.1.5", "psycopg[binary]==3.3.8"]
MEMBERS = ("pg-1", "pg-2", "pg-3")
BALLAST = "ballast"
FAULTS = ("primary", "postgres", "patroni", "freeze", "switchover", "standbys", "etcd", "node", "hang")
# Load balancers, and the packages that they are in.
BALANCERS = {"haproxy": "haproxy", "nginx": "nginx-light"}
# How long the primary may be silent before another one takes over.
TTL = 20
# With this library, a file says how wrong the time of day is that a node sees. It leaves the clocks alone by which leases and timeouts are measured.
LIBRARY = ROOT / "crates/contactd/tests/it/faults.c"

# The first process of a member's host. Patroni and PostgreSQL are its descendants. It collects those that have ended: Patroni takes a postmaster
# that nobody has collected for a running one.
HOST = """
import ctypes, os, subprocess, sys
SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
first = subprocess.Popen(sys.argv[1:])
try:
    while True:
        os.wait()
except ChildProcessError:
    pass
"""


def patroni(program):
    """A program of Patroni, which is installed if necessary. The venv uses Debian's Python, which every user can read."""
    venv = ROOT / "target/patroni"
    installed, wanted = venv / "installed", "\n".join(PATRONI)
    if not installed.exists() or installed.read_text() != wanted:
        subprocess.run(["/usr/bin/python3", "-m", "venv", venv], check=True)
        subprocess.run([venv / "bin/pip", "install", "-q", "--disable-pip-version-check", *PATRONI], check=True, stderr=subprocess.DEVNULL)
        installed.write_text(wanted)
    return [venv / "bin/python3", venv / "bin" / program]


def as_user(*command):
    """A command that does not run as root."""
    user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"] if os.getuid() == 0 else []
    return [str(part) for part in (*user, *command)]


def free_ports(count):
    """Ports that nobody uses, below those that the system gives to clients."""
    found = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise SystemExit("there are no free ports")


def processes():
    """All processes that run: their parents, and the times at which they began."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                if fields[0] not in "ZX":
                    found[int(entry)] = (int(fields[1]), fields[19])
    return found


def wait_for(what, is_there, seconds=60):
    """Waits for a condition, and returns what it returned."""
    until = time.monotonic() + seconds
    while not (found := is_there()):
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.05)
    return found


def ask(port, path, timeout=1, headers=(), **body):
    """Status and JSON of a server on this machine; (0, {}) if it does not answer."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode() if body else None, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, as_json(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, as_json(error.read())
    except OSError:
        return 0, {}


def as_json(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


class Cluster:
    """A cluster in a directory. What is known about it is in `state.json` there, so that one command starts it and another breaks it."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory).resolve()
        self.state_file = self.directory / "state.json"
        if not self.state_file.exists():
            raise SystemExit(f"there is no cluster in {self.directory}; start one with `soak/drill/cluster.py start`")
        self.state, self.ways = json.loads(self.state_file.read_text()), Ways({})

    @classmethod
    def create(cls, directory, binary, nodes=3, lease="60s", balancers=("haproxy",), is_synchronous=True, has_ways=False, has_clocks=False,
               disk_megabytes=None):
        """Starts a cluster in a new directory. Returns when everything is well.

        is_synchronous: a commit is acknowledged when a standby has it too. has_ways: between each node and each member is a proxy, which lives as
        long as this process (`ways`). has_clocks: `set_clock` works. disk_megabytes: each node has a disk of its own, which `fill_disk` fills.
        """
        directory, binary = pathlib.Path(directory).resolve(), pathlib.Path(binary).resolve()
        if directory.exists() and any(directory.iterdir()):
            raise SystemExit(f"{directory} is not empty; choose a new directory")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        names = [f"node-{number + 1}" for number in range(nodes)]
        wanted = ["etcd", "etcd-peer", *balancers, *MEMBERS, *(f"{name} api" for name in MEMBERS), *names, *(f"{name} admin" for name in names)]
        wanted += [f"{name} to {member}" for name in names for member in MEMBERS] if has_ways else []
        state = {"binary": str(binary), "ports": dict(zip(wanted, free_ports(len(wanted)))), "nodes": names, "balancers": list(balancers), "lease": lease,
                 "isSynchronous": is_synchronous, "hasClocks": has_clocks, "diskMegabytes": disk_megabytes,
                 "password": secrets.token_hex(16), "digestKey": secrets.token_hex(32), "processes": {}}
        (directory / "state.json").write_text(json.dumps(state))
        cluster = cls(directory)
        try:
            cluster.start()
        except BaseException:
            cluster.end_processes()
            raise
        return cluster

    def start(self):
        for command, package in (("etcd", "etcd-server"), (POSTGRES / "postgres", "postgresql"), *((name, BALANCERS[name]) for name in self.balancers)):
            if not shutil.which(command, path=PROGRAMS):
                raise SystemExit(f"{command} is missing: apt-get install {package}")
        for program in (patroni("patroni"), [self.state["binary"]]):
            if subprocess.run(as_user(*program, "--version"), cwd="/", capture_output=True).returncode != 0:
                raise SystemExit(f"{program[-1]} cannot be run by the user {USER if os.getuid() == 0 else os.getuid()}; put it where that user can read it")
        for name in MEMBERS:
            (self.directory / f"{name}.json").write_text(json.dumps(self.patroni_config(name), indent=1))
        for name in self.balancers:
            (self.directory / f"{name}.cfg").write_text({"haproxy": self.haproxy_config, "nginx": self.nginx_config}[name]())
        for name in self.nodes:
            if self.state["diskMegabytes"]:
                mount(self.directory / name, self.state["diskMegabytes"])
            self.set_clock(name, 0)
            (self.directory / f"{name}.toml").write_text(f'[cluster]\nname = "{name}"\nlease = "{self.state["lease"]}"\n')
        if self.state["hasClocks"]:
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.directory / "faults.so", LIBRARY], check=True)
        if os.getuid() == 0:
            for path in (self.directory, *self.directory.iterdir()):
                shutil.chown(path, USER, USER)
        self.state_file.chmod(0o600)
        ways = {(node, member): self.state["ports"].get(f"{node} to {member}") for node in self.nodes for member in MEMBERS}
        self.ways = Ways({names: (port, self.port(names[1])) for names, port in ways.items() if port})
        self.start_etcd()
        for name in MEMBERS:
            self.start_member(name)
        self.wait_until_replicated()
        self.sql(f"CREATE ROLE contactd LOGIN PASSWORD '{self.state['password']}'", "postgres")
        self.sql("CREATE DATABASE contacts OWNER contactd", "postgres")
        for name in self.nodes:
            self.start_node(name)
        for name in self.balancers:
            options = {"haproxy": ["-db", "-f"], "nginx": ["-p", self.directory, "-c"]}[name]
            self.spawn(name, shutil.which(name, path=PROGRAMS), *options, self.directory / f"{name}.cfg")
        self.wait_until_served()

    # Configurations

    def patroni_config(self, name):
        port, api, password = self.port(name), self.port(f"{name} api"), self.state["password"]
        return {
            "scope": "contacts",
            "name": name,
            "restapi": {"listen": f"127.0.0.1:{api}", "connect_address": f"127.0.0.1:{api}"},
            "etcd3": {"host": f"127.0.0.1:{self.port('etcd')}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL,
                    "loop_wait": 2,
                    "retry_timeout": 5,
                    # A commit is acknowledged when a standby has it too; without a standby, commits wait.
                    "synchronous_mode": self.state["isSynchronous"],
                    "synchronous_mode_strict": self.state["isSynchronous"],
                    # The primary goes on without etcd as long as it reaches all standbys.
                    "failsafe_mode": True,
                    "postgresql": {
                        "use_pg_rewind": True,
                        "use_slots": True,
                        "parameters": {
                            "synchronous_commit": "on", "wal_sender_timeout": "5s", "wal_receiver_timeout": "5s", "wal_retrieve_retry_interval": "500ms",
                            "max_connections": 200, "shared_buffers": "32MB", "wal_keep_size": "128MB", "max_wal_size": "256MB",
                            # Only for trying. Shared memory in the data directory, so that a kill leaves nothing behind.
                            "fsync": "off", "dynamic_shared_memory_type": "mmap"}}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums", "no-sync"]},
            "postgresql": {
                "listen": f"127.0.0.1:{port}", "connect_address": f"127.0.0.1:{port}",
                "data_dir": str(self.directory / name), "bin_dir": str(POSTGRES), "pgpass": str(self.directory / f"{name}.pgpass"),
                "authentication": {"superuser": {"username": "postgres", "password": password},
                                   "replication": {"username": "replicator", "password": password}},
                "parameters": {"unix_socket_directories": ""},
                "pg_hba": ["host all all 127.0.0.1/32 scram-sha-256", "host replication replicator 127.0.0.1/32 scram-sha-256"],
                "basebackup": [{"checkpoint": "fast"}, "no-sync"],
                # A primary that comes back becomes a standby by itself, whatever it takes.
                "remove_data_directory_on_rewind_failure": True, "remove_data_directory_on_diverged_timelines": True}}

    def haproxy_config(self):
        servers = "".join(f"    server {name} 127.0.0.1:{self.port(name)} check\n" for name in self.nodes)
        return (ROOT / "soak/drill/haproxy.cfg").read_text() + f"    bind 127.0.0.1:{self.port('haproxy')}\n" + servers

    def nginx_config(self):
        """The example with the nodes in place of its servers, and what nginx needs around it."""
        def servers(match):
            return "".join(f"{match[1]}127.0.0.1:{self.port(name)}{match[2]}" for name in self.nodes)
        text = (ROOT / "soak/drill/nginx.conf").read_text().replace("listen 80;", f"listen 127.0.0.1:{self.port('nginx')};")
        text = re.sub(r"( +server )node-1\.example\.com:8080(.*\n)(?: +server node-.*\n)*", servers, text)
        paths = "".join(f"{kind}_temp_path {self.directory}/nginx-{kind}; " for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return (f"daemon off; worker_processes 2; pid {self.directory}/nginx.pid; error_log stderr; events {{ worker_connections 1024; }}\n"
                f"http {{ access_log off; {paths}\n{text}}}\n")

    # Processes

    def spawn(self, name, *command, is_host=False):
        """Starts a process that outlives this one, not as root. Its output goes to a log."""
        host = [sys.executable, "-c", HOST] if is_host else []
        with open(self.directory / f"{name}.log", "a") as log:
            process = subprocess.Popen([str(part) for part in (*host, *as_user(*command))], env=self.environment(), cwd=self.directory, start_new_session=True,
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.state["processes"][name] = [process.pid, processes().get(process.pid, (0, ""))[1]]
        self.state_file.write_text(json.dumps(self.state))
        return process

    def environment(self):
        return {"PATH": f"{POSTGRES}:/usr/bin:/bin", "HOME": str(self.directory), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
                "CONTACTD_STORE": self.url(), "CONTACTD_DIGEST_KEYS": self.state["digestKey"]}

    def family(self, name):
        """The processes of a service or a host: the one that was started here, and its descendants."""
        first, began = self.state["processes"].get(name, (0, ""))
        running = processes()
        if running.get(first, (0, None))[1] != began:
            return []
        found = [first]
        for parent in found:
            found += [process for process, (its_parent, _) in running.items() if its_parent == parent]
        # The first process of a host is not a part of it.
        return found[1:] if name in MEMBERS else found

    def postgres_of(self, name):
        return [process for process in self.family(name) if program_of(process) == POSTGRES / "postgres"]

    def patroni_of(self, name):
        """Patroni, and what it has started besides PostgreSQL. Backends come and go: one that has just ended is neither."""
        return [process for process in self.family(name) if program_of(process) not in (None, POSTGRES / "postgres")]

    def kill(self, name):
        """Kills a service or a host, as a power cut does."""
        wait_for(f"the end of {name}", lambda: not send(self.family(name), signal.SIGKILL))

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{self.port(name)}" for name in ("etcd", "etcd-peer"))
        self.spawn("etcd", "/usr/bin/etcd", "--name", "etcd", "--data-dir", self.directory / "etcd", "--log-level", "warn", "--logger", "zap",
                   "--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                   "--initial-advertise-peer-urls", peer, "--initial-cluster", f"etcd={peer}")

    def stop_node(self, name):
        """Ends a node in order."""
        send(self.family(name), signal.SIGTERM)
        wait_for(f"the end of {name}", lambda: not self.family(name), 60)

    def start_member(self, name):
        self.spawn(name, *patroni("patroni"), self.directory / f"{name}.json", is_host=True)

    def start_node(self, name):
        environment = {"CONTACTD_STORE": self.url(name)}
        if self.state["hasClocks"]:
            environment |= {"LD_PRELOAD": self.directory / "faults.so", "FAULTS": self.directory / f"{name}.clock"}
        # Only the node itself may have the library, and not what makes it another user's process.
        variables = [f"{variable}={value}" for variable, value in environment.items()]
        return self.spawn(name, "/usr/bin/env", *variables, self.state["binary"], "serve", "--workers", 1, "--data", self.directory / name,
                          "--config", self.directory / f"{name}.toml", "--listen", f"127.0.0.1:{self.port(name)}",
                          "--admin-listen", f"127.0.0.1:{self.port(f'{name} admin')}")

    # What it looks like

    @property
    def nodes(self):
        return self.state["nodes"]

    @property
    def balancers(self):
        return self.state["balancers"]

    def port(self, name):
        return self.state["ports"][name]

    def url(self, node=None):
        """Where commands find the database, or a node on its own ways: all hosts."""
        ports = [self.ways[node, name].port if (node, name) in self.ways else self.port(name) for name in MEMBERS]
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"postgres://contactd:{self.state['password']}@{hosts}/contacts"

    def superuser_url(self, database="contacts"):
        """Where the superuser finds the primary."""
        return self.url().replace("contactd:", "postgres:", 1).replace("/contacts", f"/{database}?target_session_attrs=read-write&connect_timeout=2")

    def psql(self, text, database="contacts"):
        """The command that runs SQL on the primary as its superuser."""
        return [POSTGRES / "psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.superuser_url(database), "-c", text]

    def sql(self, text, database="contacts"):
        """Runs SQL on the primary as its superuser, and returns what it prints."""
        return subprocess.run(self.psql(text, database), check=True, capture_output=True, text=True).stdout.strip()

    def run(self, *arguments, **options):
        """Runs a command of contactd, on a machine without a node."""
        return subprocess.run(as_user(self.state["binary"], *arguments), env=self.environment(), cwd=self.directory, text=True, **options)

    def primary(self):
        """The member that is the primary by its own word, or None."""
        return next((name for name in MEMBERS if ask(self.port(f"{name} api"), "/primary")[0] == 200), None)

    def roles(self):
        """The role and the state of each member; those that do not answer are missing."""
        answers = {name: ask(self.port(f"{name} api"), "/patroni")[1] for name in MEMBERS}
        return {name: (answer.get("role", "?"), answer.get("replication_state") or answer.get("state", "?"), bool(answer.get("sync_standby")))
                for name, answer in answers.items() if answer}

    def is_replicated(self):
        """Whether there is a primary, and both standbys follow it, one of them synchronously. Only a standby that etcd knows as synchronous can take over."""
        roles = self.roles().values()
        states, synchronous = sorted(state for _, state, _ in roles), [is_sync for _, _, is_sync in roles]
        return self.primary() and states == ["running", "streaming", "streaming"] and (any(synchronous) or not self.state["isSynchronous"])

    def is_served(self):
        """Whether all nodes answer, and the load balancers see them."""
        return all(ask(self.port(name), "/readyz")[0] == 200 for name in (*self.nodes, *self.balancers))

    def wait_until_replicated(self):
        wait_for("a primary with two standbys", self.is_replicated, 120)

    def wait_until_served(self):
        wait_for("nodes that are ready", self.is_served, 120)

    # Breaking it

    def lose_primary(self):
        """The host of the primary is lost."""
        primary = self.primary()
        self.kill(primary)
        return primary

    def lose_primary_behind(self, seconds):
        """The host of the primary is lost after the standbys got nothing from it for this long."""
        if not (primary := self.primary()):
            return None
        receivers = [process for name in MEMBERS for process in self.postgres_of(name) if "walreceiver" in command_of(process)]
        send(receivers, signal.SIGSTOP)
        time.sleep(seconds)
        self.kill(primary)
        # What it has received and not read is lost with its connection.
        send(receivers, signal.SIGKILL)
        # Otherwise the old primary may be back before another one takes its place, and has everything.
        self.expire_leader()
        return primary

    def lose_postgres(self):
        """Only PostgreSQL of the primary is killed."""
        primary = self.primary()
        send(self.postgres_of(primary), signal.SIGKILL)
        # One that was started meanwhile would keep the shared memory, without which PostgreSQL does not start again.
        time.sleep(0.2)
        send(self.postgres_of(primary), signal.SIGKILL)
        return primary

    def lose_patroni(self):
        """Only Patroni of the primary is killed."""
        primary = self.primary()
        send(self.patroni_of(primary), signal.SIGKILL)
        return primary

    def freeze(self):
        """The host of the primary hangs until `thaw`."""
        primary = self.primary()
        send(self.family(primary), signal.SIGSTOP)
        return primary

    def thaw(self):
        self.thaw_nodes()
        for name in MEMBERS:
            send(self.family(name), signal.SIGCONT)

    def switchover(self):
        """The primary is changed in order. Returns the old one."""
        primary = self.primary()
        command = [*patroni("patronictl"), "-c", self.directory / f"{MEMBERS[0]}.json", "switchover", "contacts", "--primary", primary, "--force"]
        done = subprocess.run([str(part) for part in command], env=self.environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"the switchover failed: {done.stdout}{done.stderr}")
        return primary

    def lose_standbys(self):
        primary = self.primary()
        lost = [name for name in MEMBERS if name != primary]
        for name in lost:
            self.kill(name)
        return lost

    def freeze_node(self, name):
        """A node hangs until `thaw_nodes`."""
        send(self.family(name), signal.SIGSTOP)

    def thaw_nodes(self):
        for name in self.nodes:
            send(self.family(name), signal.SIGCONT)

    def fill_disk(self, name):
        """Fills the disk of a node until `free_disk`."""
        with contextlib.suppress(OSError), open(self.directory / name / BALLAST, "wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(1 << 16))

    def free_disk(self, name):
        (self.directory / name / BALLAST).unlink(missing_ok=True)

    def copy(self):
        """Copies the database. Returns where the copy is."""
        copy = self.directory / "copy.dump"
        subprocess.run([POSTGRES / "pg_dump", "-Fc", "-f", copy, "-d", self.superuser_url()], check=True, capture_output=True)
        return copy

    def restore(self, copy):
        """The database becomes this copy, at once: under another name first."""
        self.sql("DROP DATABASE IF EXISTS earlier", "postgres")
        self.sql("CREATE DATABASE earlier OWNER contactd", "postgres")
        subprocess.run([POSTGRES / "pg_restore", "-d", self.superuser_url("earlier"), copy], check=True, capture_output=True)
        for text in ("ALTER DATABASE contacts ALLOW_CONNECTIONS false", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'contacts'",
                     "ALTER DATABASE contacts RENAME TO later", "ALTER DATABASE earlier RENAME TO contacts", "DROP DATABASE later"):
            self.sql(text, "postgres")

    def set_clock(self, name, seconds):
        """Sets the time of day that a node sees, by how far it is off."""
        new = self.directory / f"{name}.clock.new"
        new.write_text(f"clock {seconds}")
        new.chmod(0o644)
        new.rename(self.directory / f"{name}.clock")

    def lock(self, table, seconds):
        """Somebody else locks a table for this long. Returns their process."""
        sql = f"BEGIN; LOCK TABLE contactd.{table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({seconds}); ROLLBACK"
        return subprocess.Popen(self.psql(sql), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def expire_leader(self):
        """Removes the primary's key from etcd now. etcd does the same by itself once nobody has renewed it for the ttl."""
        key = base64.b64encode(b"/service/contacts/leader").decode()
        ask(self.port("etcd"), "/v3/kv/deleterange", key=key)

    def break_it(self, fault, name=None):
        """Breaks something, and returns what it was."""
        if fault == "etcd":
            self.kill("etcd")
            return "etcd"
        if fault in ("node", "hang"):
            name = name or self.nodes[0]
            {"node": self.kill, "hang": self.freeze_node}[fault](name)
            return name
        breaks = {"primary": self.lose_primary, "postgres": self.lose_postgres, "patroni": self.lose_patroni, "freeze": self.freeze, "switchover": self.switchover,
                  "standbys": self.lose_standbys}
        return breaks[fault]()

    def heal(self):
        """Starts again whatever does not run, mends what is broken, and waits until everything is well."""
        self.thaw()
        self.ways.mend()
        for name in self.nodes:
            self.free_disk(name)
            self.set_clock(name, 0)
        if not self.family("etcd"):
            self.start_etcd()
        for name in MEMBERS:
            # PostgreSQL without its Patroni ends with the host.
            if not self.patroni_of(name):
                self.kill(name)
                self.start_member(name)
        for name in self.nodes:
            if not self.family(name):
                self.start_node(name)
        self.wait_until_replicated()
        self.wait_until_served()

    # The end

    def end_processes(self):
        everything = (*self.balancers, *self.nodes, *MEMBERS, "etcd")
        self.thaw()
        for name in MEMBERS:
            # Patroni first, so that it does not start PostgreSQL again. That gets the signal for an immediate stop, so that it cleans up.
            send(self.patroni_of(name), signal.SIGKILL)
            send(self.postgres_of(name), signal.SIGQUIT)
        with contextlib.suppress(TimeoutError):
            wait_for("the end of PostgreSQL", lambda: not any(self.postgres_of(name) for name in MEMBERS), 5)
        for name in everything:
            self.kill(name)
        for name in MEMBERS:
            remove_shared_memory(self.directory / name)
        self.ways.end()
        for name in self.nodes if self.state["diskMegabytes"] else []:
            subprocess.run(["umount", "-l", self.directory / name], capture_output=True)

    def stop(self):
        self.end_processes()
        shutil.rmtree(self.directory)


def program_of(process):
    """The program that a process runs; None if it has ended."""
    with contextlib.suppress(OSError):
        return pathlib.Path(os.readlink(f"/proc/{process}/exe"))


def command_of(process):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
    return ""


def send(targets, number):
    """Sends a signal to processes, and returns those that were there."""
    there = []
    for process in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)
            there.append(process)
    return there


def mount(directory, megabytes):
    """Puts a file system of this size on a new directory, as root."""
    directory.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", directory], check=True)


def remove_shared_memory(data):
    """A killed PostgreSQL leaves a small System V segment behind, whose id is in its pid file."""
    with contextlib.suppress(OSError, IndexError):
        segment = (data / "postmaster.pid").read_text().split("\n")[6].split()[1]
        subprocess.run(["ipcrm", "-m", segment], capture_output=True)


@contextlib.contextmanager
def running(directory, binary, **how):
    """A cluster that ends with the block. `how` is what `Cluster.create` takes."""
    cluster = Cluster.create(directory, binary, **how)
    try:
        yield cluster
    finally:
        cluster.stop()


def show(cluster):
    roles = cluster.roles()
    for name in MEMBERS:
        role, state, is_sync = roles.get(name, ("does not answer", "", False))
        print(f"{name:10} 127.0.0.1:{cluster.port(name)}  {role} {'(synchronous) ' if is_sync else ''}{state}".rstrip())
    for name in (*cluster.nodes, *cluster.balancers):
        status = ask(cluster.port(name), "/readyz")[0] or "no answer"
        print(f"{name:10} 127.0.0.1:{cluster.port(name)}  readyz {status}")


def main():
    summary, details = re.match(r"(.*?)\n\n(.*)", __doc__, re.DOTALL).groups()
    parser = argparse.ArgumentParser(description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start a cluster in a new directory")
    start.add_argument("--binary", type=pathlib.Path, required=True, help="the contactd to run")
    start.add_argument("--nodes", type=int, default=3, help="how many nodes of contactd [default: 3]")
    start.add_argument("--balancer", choices=BALANCERS, default="haproxy", help="the load balancer [default: haproxy]")
    start.add_argument("--lease", default="60s", help="cluster.lease of the nodes [default: 60s]")
    breaking = commands.add_parser("break", help="break something")
    run = commands.add_parser("run", help="run a command of contactd on the cluster")
    for command in (start, breaking, run, commands.add_parser("status", help="show who is the primary, and which nodes answer"),
                    commands.add_parser("heal", help="start again what was killed, and wait until all is well"),
                    commands.add_parser("stop", help="end everything, and remove the directory")):
        command.add_argument("directory", type=pathlib.Path, help="the directory of the cluster")
    breaking.add_argument("fault", choices=FAULTS, help="what to break")
    breaking.add_argument("--name", help="which node of contactd [default: node-1]")
    run.add_argument("arguments", nargs=argparse.REMAINDER, help="the command and its arguments")
    options = parser.parse_args()
    if options.command == "start":
        began = time.monotonic()
        cluster = Cluster.create(options.directory, options.binary, options.nodes, options.lease, [options.balancer])
        print(f"everything runs after {time.monotonic() - began:.1f} s; lookups go to http://127.0.0.1:{cluster.port(options.balancer)}")
        show(cluster)
        return
    cluster = Cluster(options.directory)
    if options.command == "status":
        show(cluster)
    elif options.command == "break":
        broken = cluster.break_it(options.fault, options.name)
        print(f"{options.fault}: {broken if isinstance(broken, str) else ' and '.join(broken)}")
    elif options.command == "heal":
        cluster.heal()
        show(cluster)
    elif options.command == "run":
        sys.exit(cluster.run(*options.arguments).returncode)
    else:
        cluster.stop()


if __name__ == "__main__":
    main()
