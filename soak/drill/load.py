"""Load on a cluster while it is broken: writes whose acknowledgements are noted, and lookups through a load balancer. Not a command.

Each kind of write is a class that knows how to write, and how to find out what of it is missing or was made twice. To check another promise over
failovers, add a class to `WRITERS`, or give others.
"""
import contextlib
import http.client
import itertools
import json
import random
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

# People who are looked up all the time, and never opted out.
KEPT = 200
# How many people a list of opt-outs and an import have.
LISTED, IMPORTED = 20, 50
# After this many seconds a client opens a new connection.
IDLE = 2
# How long a command may take: longer than its patience and a lease together.
COMMAND_TIMEOUT = 240
# After this many seconds a client takes a lookup for failed.
LOOKUP_TIMEOUT = 10
# How often each client looks somebody up: a lookup that takes longer delays only its next one.
EVERY = 0.01
# The name of a token in the database: its row has the hash and the token as JSON.
TOKEN_NAME = "(body::json -> 1 ->> 'name')"


def url(person):
    return f"https://www.linkedin.com/in/drill-quell-{person}"


def rows(people):
    return "profileUrl,email\n" + "".join(f"{url(person)},drill-{person}@example.com\n" for person in people)


class Kind:
    """What all kinds of writes have: numbers, and what happened to each. `weight` is how many changes one write makes."""

    weight = 1

    def __init__(self, load):
        self.load, self.numbers = load, itertools.count()
        # Number of the write, and what it gave; commands that did not end.
        self.acknowledged, self.refused, self.hung = {}, {}, {}

    def write(self):
        """Writes once. Returns whether it was acknowledged."""
        number = next(self.numbers)
        try:
            done = self.command(number)
        except subprocess.TimeoutExpired as expired:
            # Whether it was done is not known.
            self.hung[number] = " ".join(expired.cmd[-3:])
            return False
        if done.returncode == 0:
            self.acknowledged[number] = done.stdout.strip()
        else:
            self.refused[number] = done.stderr.strip().splitlines()[-1:]
        return done.returncode == 0

    def run(self, *arguments, **options):
        return self.load.cluster.run(*arguments, capture_output=True, timeout=COMMAND_TIMEOUT, **options)

    def missing(self):
        """The numbers of acknowledged writes that are not there, or not whole."""
        return [number for number, is_there in zip(self.acknowledged, self.load.all_of(self.is_there, self.acknowledged)) if not is_there]

    def people(self, number):
        """The people of a write that is about several."""
        return []

    def torn(self):
        """The numbers of refused writes of which only a part is there."""
        def is_all_or_nothing(number):
            return len({self.load.look_up(person) for person in self.people(number)}) <= 1
        return [number for number, is_well in zip(self.refused, self.load.all_of(is_all_or_nothing, self.refused)) if not is_well]

    def twice(self):
        """What was made twice."""
        return []


class Tokens(Kind):
    name = "tokens"

    def command(self, number):
        return self.run("token", "create", f"drill-{number}")

    def is_there(self, number):
        return self.load.look_up(0, self.acknowledged[number]) == 200

    def twice(self):
        return self.load.cluster.sql(f"SELECT {TOKEN_NAME} FROM contactd.tokens WHERE {TOKEN_NAME} LIKE 'drill-%' GROUP BY 1 HAVING count(*) > 1").split()


class OptOuts(Kind):
    name, weight = "opt-outs", LISTED

    def people(self, number):
        first = KEPT + number * LISTED
        return range(first, first + LISTED)

    def command(self, number):
        people = self.people(number)
        if people[-1] >= self.load.people:
            raise SystemExit("there are no people left to opt out; begin with more")
        return self.run("suppress", "--list", "-", input="".join(f"{url(person)}\n" for person in people))

    def is_there(self, number):
        return all(self.load.look_up(person) == 404 for person in self.people(number))


class Imports(Kind):
    name = "imports"

    def people(self, number):
        return [f"{number}-{row}" for row in range(IMPORTED)]

    def command(self, number):
        return self.run("import", "-", "--source", f"drill-{number}", input=rows(self.people(number)))

    def is_there(self, number):
        return all(self.load.look_up(person) == 200 for person in self.people(number))

    def twice(self):
        return self.load.cluster.sql("SELECT summary::json ->> 'source' FROM contactd.imports WHERE summary::json ->> 'source' LIKE 'drill-%' GROUP BY 1 HAVING count(*) > 1").split()


class Disclosures:
    """Lookups that disclosed something. Each has its line among the journals in the database; if the load balancer repeated it on another node, the first
    node may have one too. If its token has the quota, its unit is counted."""

    name = "disclosures"

    def __init__(self, load):
        self.load = load
        # The ids of the requests; and those whose token has the quota.
        self.acknowledged, self.counted, self.hung = [], [], {}

    def add(self, request, is_counted):
        self.acknowledged.append(request)
        if is_counted:
            self.counted.append(request)

    def missing(self):
        with contextlib.suppress(TimeoutError):
            self.load.wait_until(lambda: not self.without_line() and not self.uncounted(), 60)
        uncounted = self.uncounted()
        return sorted(self.without_line()) + ([f"{uncounted} units of the quota"] if uncounted else [])

    def without_line(self):
        return set(self.acknowledged) - set(self.recorded())

    def uncounted(self):
        counted = self.load.cluster.sql(f"SELECT coalesce(sum(hits), 0) FROM contactd.usage JOIN contactd.tokens ON id = token WHERE {TOKEN_NAME} = 'drill'")
        return max(0, len(self.counted) - int(counted))

    def torn(self):
        return []

    def twice(self):
        return self.recorded("GROUP BY copy, 1 HAVING count(*) > 1")

    def repeated(self):
        """The ids of requests that are in the journals of two nodes."""
        return self.recorded("GROUP BY 1 HAVING count(DISTINCT copy) > 1")

    def recorded(self, grouped=""):
        """The ids of requests whose lines say that something was disclosed."""
        return self.load.cluster.sql(f"SELECT line::json ->> 'requestId' FROM contactd.journal_lines WHERE line LIKE '%\"outcome\":\"hit\"%' {grouped}").split()


# Imports wait for each other, so one writer is enough for them.
WRITERS = {OptOuts: 3, Tokens: 2, Imports: 1}


class Load:
    """Threads that write and look up, from `start` to `end`."""

    def __init__(self, cluster, people, writers=WRITERS, pause=0):
        """`writers` says how many threads there are of each kind. Each pauses after each write."""
        self.cluster, self.people, self.pause = cluster, people, pause
        cluster.run("import", "-", "--source", "drill", input=rows(range(people)), check=True, capture_output=True)
        self.token = cluster.run("token", "create", "drill", "--quota", "1000000000/day", check=True, capture_output=True).stdout.strip()
        self.writers = {kind(self): count for kind, count in writers.items()}
        self.kinds, self.disclosures = list(self.writers), Disclosures(self)
        # The load balancer that lookups go through.
        self.balancer = cluster.balancers[0]
        self.connections = threading.local()
        # When each write was acknowledged, and how many it was.
        self.times = []
        # Of lookups: when each ended, its status or what went wrong, and how many seconds it took.
        self.looked_up, self.threads, self.is_over = [], [], threading.Event()
        self.wait_until(lambda: all(self.look_up(person) == 200 for person in (0, people - 1)))

    def start(self, clients=4, every=EVERY):
        """Begins: the writers, and this many clients that look people up, each of them so often."""
        self.is_over.clear()
        self.threads = [threading.Thread(target=self.keep_writing, args=(kind,), daemon=True) for kind, count in self.writers.items() for _ in range(count)]
        self.threads += [threading.Thread(target=self.keep_looking_up, args=(every,), daemon=True) for _ in range(clients)]
        for thread in self.threads:
            thread.start()

    def end(self):
        """Returns when what is under way has ended."""
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def keep_writing(self, kind):
        while not self.is_over.is_set():
            if kind.write():
                self.times.append((time.monotonic(), kind.weight))
            time.sleep(self.pause)

    def keep_looking_up(self, every):
        chosen = random.Random()
        while not self.is_over.is_set():
            began = time.monotonic()
            status = self.look_up(chosen.randrange(KEPT))
            ended = time.monotonic()
            self.looked_up.append((ended, status, ended - began))
            time.sleep(max(0, began + every - ended))

    def look_up(self, person, token=None, through=None):
        """The status of a lookup through the load balancer, or through another one or on a node, or what went wrong."""
        body = json.dumps({"profileUrl": url(person)})
        headers = {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"}
        connection = self.connection(through or self.balancer)
        try:
            connection.request("POST", "/api/fetchPersonalEmail", body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                self.disclosures.add(answer.getheader("X-Request-Id"), not token)
            return answer.status
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__

    def connection(self, to):
        """The connection of this thread. A load balancer closes one that is idle for long, so it is not used then."""
        mine, now = self.connections.__dict__, time.monotonic()
        connection, used_at = mine.get(to, (None, now))
        if not connection:
            connection = http.client.HTTPConnection("127.0.0.1", self.cluster.port(to), timeout=LOOKUP_TIMEOUT)
        elif now > used_at + IDLE:
            connection.close()
        mine[to] = (connection, now)
        return connection

    def all_of(self, check, items):
        """The results of a check. Nodes apply changes of details a moment after their commit, so it is repeated for a while."""
        def patient(item):
            with contextlib.suppress(TimeoutError):
                self.wait_until(lambda: check(item), 15)
                return True
            return False
        with ThreadPoolExecutor(8) as pool:
            return list(pool.map(patient, items))

    def wait_until(self, condition, seconds=60):
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError
            time.sleep(0.1)

    def acknowledged(self):
        """How many writes of each kind were acknowledged."""
        return {kind.name: len(kind.acknowledged) * kind.weight for kind in self.kinds}

    def check(self):
        """What is wrong with what was acknowledged: nothing, if all is well."""
        found = {}
        for kind in (*self.kinds, self.disclosures):
            for name, numbers in (("missing", kind.missing()), ("torn", kind.torn()), ("twice", kind.twice()), ("hung", list(kind.hung.values()))):
                if numbers:
                    found[f"{kind.name} {name}"] = numbers
        return found

    def lookups_since(self, moment):
        """How many lookups have ended since then, and how those that failed did."""
        ended = [status for at, status, _ in list(self.looked_up) if at >= moment]
        failed = {}
        for status in ended:
            if status != 200:
                failed[str(status)] = failed.get(str(status), 0) + 1
        return len(ended), failed

    def slowest_since(self, moment):
        """How many seconds the slowest lookup took that has ended since then."""
        return max((seconds for at, _, seconds in list(self.looked_up) if at >= moment), default=0)

    def first_write_after(self, moment, seconds=120):
        """When the first write after this moment was acknowledged."""
        self.wait_until(lambda: self.times and self.times[-1][0] > moment, seconds)
        return next(at for at, _ in self.times if at > moment)
