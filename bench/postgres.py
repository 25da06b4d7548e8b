"""A PostgreSQL of its own for a benchmark: a temporary directory, a free port, not as root. Not a benchmark itself."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

import stage

USER = "postgres"
SETTINGS = {"listen_addresses": "'127.0.0.1'", "unix_socket_directories": "''", "max_connections": "100", "shared_buffers": "'512MB'",
            "max_wal_size": "'8GB'", "checkpoint_timeout": "'15min'"}


def program(name):
    """Debian does not put the programs of the server into the search path."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    if not found and not shutil.which(name):
        stage.sh("apt-get", "update", "-qq")
        stage.sh("apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql", stdout=subprocess.DEVNULL)
        found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found[-1] if found else name


class Postgres:
    def __init__(self, directory, core=None, **settings):
        self.directory, self.port, self.core, self.process = pathlib.Path(directory), stage.free_port(), core, None
        self.directory.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        self.data = self.directory / "data"
        if os.getuid() == 0:
            shutil.chown(self.directory, USER)
        self.run_as_user(program("initdb"), "--auth=trust", "--username=contactd", "--encoding=UTF8", "--no-locale", "-D", self.data)
        lines = [f"{name} = {value}\n" for name, value in (SETTINGS | settings).items()]
        with open(self.data / "postgresql.conf", "a") as config:
            config.writelines(lines)
        self.start()

    def as_user(self, *command):
        user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"] if os.getuid() == 0 else []
        core = ["taskset", "-c", self.core] if self.core else []
        return [str(part) for part in (*core, *user, *command)]

    def run_as_user(self, *command):
        subprocess.run(self.as_user(*command), check=True, stdout=subprocess.DEVNULL, cwd="/")

    def start(self):
        self.process = subprocess.Popen(self.as_user(program("postgres"), "-D", self.data, "-p", self.port), stdout=subprocess.DEVNULL,
                                        stderr=open(self.directory / "log", "a"), cwd="/")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.CalledProcessError):
                self.sql("SELECT 1", "postgres")
                return
            time.sleep(0.1)
        raise SystemExit(f"PostgreSQL does not start; see {self.directory}/log")

    def stop(self):
        if self.process:
            self.process.send_signal(2)
            self.process.wait()
            self.process = None

    def sql(self, text, database="contacts"):
        """Runs SQL, and returns what it prints."""
        return subprocess.run([str(program("psql")), "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", self.url(database), "-c", text], check=True,
                              capture_output=True, text=True).stdout.strip()

    def create(self, database="contacts"):
        self.sql(f"CREATE DATABASE {database}", "postgres")
        return self.url(database)

    def url(self, database="contacts", port=None):
        return f"postgres://contactd@127.0.0.1:{port or self.port}/{database}"

    def copy_to(self, directory):
        """A copy of the whole server as it is now: stops it, copies, and starts it again."""
        self.stop()
        shutil.rmtree(directory, ignore_errors=True)
        self.run_as_user("cp", "-a", self.data, directory)
        self.start()

    def restore_from(self, directory):
        """The server as it was when it was copied."""
        self.stop()
        shutil.rmtree(self.data)
        self.run_as_user("cp", "-a", directory, self.data)
        self.start()


@contextlib.contextmanager
def running(directory, core=None, **settings):
    server = Postgres(directory, core, **settings)
    try:
        yield server
    finally:
        server.stop()
