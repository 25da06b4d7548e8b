"""Load for a random mix of faults: everything that can be acknowledged, and watchers who ask each node all the time for what must not be disclosed any
more. Not a command."""
import datetime
import random
import threading
import time
import traceback

import cluster as clusters
from load import KEPT, LISTED, Imports, Kind, Load, OptOuts, Tokens, url

# How many units the quota of a token has: so few that it is used up often.
QUOTA = 150
# A writer pauses this long after each write, so that there are at most so many in a minute.
PAUSE, WRITES_A_MINUTE = 0.3, 200
# How long the admin API may take: an opt-out waits for a node that is silent, until its lease ends.
ADMIN_TIMEOUT = 120


class Gone(Kind):
    """Changes after which a person is never disclosed. Once one is acknowledged, the watchers look for it."""

    def person(self, number):
        """Each kind has people of its own."""
        return self.load.single(self, number)

    def write(self):
        is_acknowledged = super().write()
        if is_acknowledged:
            self.load.gone.append(self.person(next(reversed(self.acknowledged))))
        return is_acknowledged

    def is_there(self, number):
        return self.load.look_up(self.person(number)) == 404


class CommandOptOuts(Gone):
    name = "opt-outs by a command"

    def command(self, number):
        return self.run("suppress", url(self.person(number)))


class Erasures(Gone):
    name = "erasures"

    def command(self, number):
        return self.run("erase", url(self.person(number)))


class ApiOptOuts(Gone):
    """Opt-outs through the admin API of any node. They are acknowledged if they are said to be in force."""

    name = "opt-outs by the admin API"

    def command(self, number):
        node = random.choice(self.load.cluster.nodes)
        status, said = self.load.ask_admin(node, "/people/opt-out", q=url(self.person(number)))
        is_done = status == 200 and said.get("inForce")
        if not is_done:
            time.sleep(0.5)
        return Done(0 if is_done else 1, stderr=f"{status} {said}")


class ListedOptOuts(OptOuts):
    """Lists of opt-outs: all of their people are watched."""

    def write(self):
        is_acknowledged = super().write()
        if is_acknowledged:
            self.load.gone += self.people(next(reversed(self.acknowledged)))
        return is_acknowledged


class Revocations(Kind):
    """Tokens that are created and revoked."""

    name = "revocations"

    def command(self, number):
        made = self.run("token", "create", f"short-{number}")
        if made.returncode != 0:
            return made
        token = made.stdout.strip()
        revoked = self.run("token", "revoke", f"short-{number}")
        if revoked.returncode == 0:
            self.load.revoked.append(token)
        return Done(revoked.returncode, token, revoked.stderr)

    def is_there(self, number):
        return self.load.look_up(0, self.acknowledged[number]) == 401


class Quotas(Kind):
    """Tokens with a small quota, which are used until nothing is left."""

    name = "quotas"

    def __init__(self, load):
        super().__init__(load)
        # By token: how many lookups were answered with 200, by UTC day.
        self.used, self.lock = {}, threading.Lock()

    def command(self, number):
        made = self.run("token", "create", f"quota-{number}", "--quota", f"{QUOTA}/day")
        if made.returncode != 0:
            return made
        token, refused, until = made.stdout.strip(), 0, time.monotonic() + 60
        while refused < 5 and time.monotonic() < until and not self.load.is_over.is_set():
            through = random.choice((self.load.balancer, *self.load.cluster.nodes))
            status = self.load.look_up(random.randrange(KEPT), token, through)
            if status == 200:
                with self.lock:
                    days = self.used.setdefault(token, {})
                    day = datetime.datetime.now(datetime.UTC).date().isoformat()
                    days[day] = days.get(day, 0) + 1
            refused += status == 429
            time.sleep(0.01)
        return made

    def is_there(self, number):
        token = self.acknowledged[number]
        return all(count <= QUOTA for count in self.used.get(token, {}).values())

    def twice(self):
        """Tokens of which more units are counted than they have."""
        counted = self.load.cluster.sql("SELECT body::json -> 1 ->> 'name', day, sum(hits) FROM contactd.usage JOIN contactd.tokens ON id = token "
                                        f"WHERE body::json -> 1 ->> 'name' LIKE 'quota-%' GROUP BY 1, 2 HAVING sum(hits) > {QUOTA}")
        return counted.splitlines()


class Done:
    """What a command has done."""

    def __init__(self, returncode, stdout="", stderr=""):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


WRITERS = {ListedOptOuts: 2, CommandOptOuts: 1, Erasures: 1, ApiOptOuts: 1, Tokens: 1, Revocations: 1, Imports: 1, Quotas: 1}
SINGLE = (CommandOptOuts, Erasures, ApiOptOuts)


class MixedLoad(Load):
    """The load of the drill, and those who watch."""

    def __init__(self, cluster, minutes):
        # What every lookup must find in force, in the order of the acknowledgements: people who are gone, and tokens.
        self.gone, self.revoked = [], []
        # What must not be: the time, the node, and what it answered.
        self.violations, self.errors = [], []
        self.first_single = KEPT + LISTED * WRITES_A_MINUTE * (minutes + 2)
        self.singles = WRITES_A_MINUTE * (minutes + 2)
        super().__init__(cluster, self.first_single + len(SINGLE) * self.singles, WRITERS, PAUSE)
        made = cluster.run("admin-token", "create", "robot", "--role", "privacy", check=True, capture_output=True)
        self.admin_token, self.watched = made.stdout.strip(), {}

    def single(self, kind, number):
        if number >= self.singles:
            raise ValueError(f"there are no people left for {kind.name}")
        return self.first_single + SINGLE.index(type(kind)) * self.singles + number

    def ask_admin(self, node, path, **body):
        return clusters.ask(self.cluster.port(f"{node} admin"), f"/admin/api/v1{path}", timeout=ADMIN_TIMEOUT,
                            headers={"Authorization": f"Bearer {self.admin_token}", "Content-Type": "application/json"}, **body)

    def start(self, clients=2):
        super().start(clients, every=0.02)
        watchers = [threading.Thread(target=self.keep_watching, args=(node,), daemon=True) for node in self.cluster.nodes for _ in range(2)]
        for watcher in watchers:
            watcher.start()
        self.threads += watchers

    def keep_writing(self, kind):
        try:
            super().keep_writing(kind)
        except (Exception, SystemExit):
            self.errors.append(traceback.format_exc())

    def keep_watching(self, node):
        """Asks one node for people who must not be disclosed any more, and with tokens that it must not accept."""
        chosen = random.Random()
        while not self.is_over.is_set():
            # Every second time one of the newest.
            def pick(known):
                return chosen.choice(known[-20:] if chosen.random() < 0.5 else known)
            if self.revoked and chosen.random() < 0.3:
                status, right = self.look_up(chosen.randrange(KEPT), pick(self.revoked), node), (401,)
            elif self.gone:
                status, right = self.look_up(pick(self.gone), None, node), (404,)
            else:
                time.sleep(0.1)
                continue
            # While it cannot know, a node answers 503, or 500 if its journal cannot be written; or nothing.
            if status not in (*right, 500, 503) and isinstance(status, int):
                self.violations.append(f"{time.strftime('%H:%M:%S')} {node} answered {status} instead of {right[0]}")
            self.watched[str(status)] = self.watched.get(str(status), 0) + 1
            time.sleep(0.02)

    def quotas(self):
        return next(kind for kind in self.kinds if isinstance(kind, Quotas))
