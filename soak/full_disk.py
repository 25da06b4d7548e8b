#!/usr/bin/env python3
"""Fills the disk of a server in every way that a role has, and checks that lookups and opt-outs go on.

    python3 soak/full_disk.py                      # 30 s for each way; builds the release binary, prints, and writes soak/runs/
    python3 soak/full_disk.py --seconds 5 --binary PATH uploads bombs    # only these ways, with a binary that is built already; writes nothing

The data directory is on a file system of 700 MB, and what one way has written stays for the next. uploads: twenty at a time. bombs: files of some
kilobytes whose rejected rows unpack to gigabytes, checked and imported. imports: people by the hundred thousand. exports, reports, checks: as fast as
they end, and nothing is deleted. log-ins: wrong passwords. lookups: refused ones. Meanwhile somebody is looked up all the time, and somebody else opted out
by a command every second. Needs the right to mount.
"""
import argparse
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
import service
import stage

MEGABYTES = 700


class Disk:
    def __init__(self, work):
        self.data, self.port, self.admin = work / "disk", stage.free_port(), stage.free_port()
        self.data.mkdir()
        stage.sh("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=700", "tmpfs", self.data)
        self.token = service.store(self.data)
        self.roles = {role: service.contactd(self.data, "admin-token", "create", f"t-{role}", "--role", role).strip() for role in ("admin", "operator")}
        self.process = subprocess.Popen([stage.BINARY, "serve", "--data", self.data, "--listen", f"127.0.0.1:{self.port}", "--admin-listen",
                                         f"127.0.0.1:{self.admin}"], stdout=subprocess.DEVNULL, stderr=open(work / "log", "w"))
        self.opted_out = 0
        while self.look_up(0) != 200:
            time.sleep(0.05)

    def end(self):
        self.process.kill()
        self.process.wait()
        stage.sh("umount", "-l", self.data)

    def free(self):
        found = os.statvfs(self.data)
        return found.f_bavail * found.f_frsize // 1_000_000

    def look_up(self, person, token=None):
        """The status; 0 if nothing answers."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
            connection.request("POST", "/api/fetchPersonalEmail", json.dumps({"profileUrl": service.url(person)}),
                               {"Authorization": f"Bearer {token or self.token}", "Content-Type": "application/json"})
            return connection.getresponse().status
        return 0

    def ask(self, method, path, body=None, role="operator", headers=()):
        """The status and what it says."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=120)
            raw = body if isinstance(body, bytes) else json.dumps(body) if body is not None else None
            connection.request(method, f"/admin/api/v1{path}", raw, {"Authorization": f"Bearer {self.roles[role]}", "Content-Type": "application/json", **dict(headers)})
            answer = connection.getresponse()
            with contextlib.suppress(ValueError):
                return answer.status, json.loads(answer.read() or b"null")
            return answer.status, None
        return 0, None

    def upload(self, content, name="people.csv"):
        return self.ask("POST", "/uploads", content, headers={"Content-Type": "application/octet-stream", "X-File-Name": name})

    def make_room(self):
        """A role may keep a number of files; the older ones make room for others."""
        for held in (self.ask("GET", "/uploads")[1] or {}).get("uploads", []):
            self.ask("DELETE", f"/uploads/{held['id']}")

    def sent(self, content, name="people.csv"):
        """The status, and the file that was sent."""
        status, sent = self.upload(content, name)
        if status == 409:
            self.make_room()
            status, sent = self.upload(content, name)
        return status, sent

    def job(self, path, body, role="operator"):
        """The status of what was asked, or what became of the job."""
        status, job = self.ask("POST", path, body, role)
        while status in (200, 202) and job and job.get("state") in ("waiting", "running", "queued"):
            time.sleep(0.2)
            status, job = self.ask("GET", f"/jobs/{job['id']}", role=role)
        return (job or {}).get("code") or (job or {}).get("status") or (job or {}).get("state") or status


def rows(first, count):
    return ("profileUrl,phone,email\n" + "".join(f"https://linkedin.com/in/full-quell-{n},+1415555{100 + n % 100:04},full{n}@example.com\n"
                                                 for n in range(first, first + count))).encode()


def packed(megabytes):
    row = b"nobody," + b"x" * (1 << 20) + b"\n"
    return subprocess.run(["zstd", "-qc", "-3"], input=b"profileUrl,phone\n" + row * megabytes, capture_output=True, check=True).stdout


def uploads(disk, number):
    return disk.upload(rows(0, 400_000))[0]


def bombs(disk, number, content=[]):
    content or content.append(packed(1_500))
    status, sent = disk.sent(content[0], "bomb.csv.zst")
    return disk.job("/imports", {"upload": sent["id"], "source": "bomb", "maxRejects": "100%", "dryRun": number % 2 == 0}) if status < 300 else status


def imports(disk, number):
    status, sent = disk.sent(rows(number * 100_000, 100_000))
    return disk.job("/imports", {"upload": sent["id"], "source": f"s{number}"}) if status < 300 else status


def exports(disk, number):
    return disk.job("/exports", {"format": "csv", "ticket": f"OPS-{number}"}, "admin")


def reports(disk, number):
    return disk.ask("POST", "/people/report", {"q": service.url(number % 100)}, "admin")[0]


def checks(disk, number):
    status, sent = disk.sent(rows(number * 200, 200))
    return disk.job("/imports", {"upload": sent["id"], "source": "c", "dryRun": True}) if status < 300 else status


def log_ins(disk, number):
    return disk.ask("POST", "/session", {"name": f"somebody-{number % 50}", "password": "wrong wrong wrong"})[0]


def lookups(disk, number):
    return disk.look_up(number, "ctd_0123456789abcdefghijABCDEFGHIJ0123456789" if number % 2 else disk.token[:-1] + "x")


WAYS = {"uploads": (uploads, 20), "bombs": (bombs, 3), "imports": (imports, 2), "exports": (exports, 2), "reports": (reports, 8), "checks": (checks, 8),
        "log-ins": (log_ins, 16), "lookups": (lookups, 16)}


def fill(disk, way, together, seconds):
    """What this way was answered, and what the others noticed of it."""
    is_over, numbers, lock = threading.Event(), iter(range(10 ** 9)), threading.Lock()
    answers, looked_up, opted_out, slowest, least = {}, {}, {}, [0.0], [disk.free()]

    def count(what, answer):
        with lock:
            what[str(answer)] = what.get(str(answer), 0) + 1

    def filling():
        while not is_over.is_set():
            with lock:
                number = next(numbers)
            count(answers, way(disk, number))

    def looking():
        while not is_over.is_set():
            began = time.monotonic()
            count(looked_up, disk.look_up(999))
            slowest[0] = max(slowest[0], time.monotonic() - began)
            least[0] = min(least[0], disk.free())
            time.sleep(0.02)

    def opting_out():
        while not is_over.is_set():
            disk.opted_out += 1
            done = subprocess.run([stage.BINARY, "suppress", service.url(disk.opted_out), "--data", disk.data], capture_output=True, text=True)
            count(opted_out, "in force" if done.returncode == 0 and disk.look_up(disk.opted_out) == 404 and "record" not in done.stderr else done.stderr[-300:])
            time.sleep(1)

    with concurrent.futures.ThreadPoolExecutor(together + 2) as pool:
        running = [pool.submit(each) for each in [filling] * together + [looking, opting_out]]
        time.sleep(seconds)
        is_over.set()
        for each in running:
            each.result()
    return {"answers": answers, "lookups": looked_up, "slowestSeconds": round(slowest[0], 2), "optOuts": opted_out, "leastFreeMB": least[0], "freeMB": disk.free(),
            "isFine": set(looked_up) == {"200"} and set(opted_out) == {"in force"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []])
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--binary", type=pathlib.Path)
    options = parser.parse_args()
    if not stage.may_mount():
        sys.exit("not run: may not mount a small file system")
    if options.binary:
        stage.BINARY = options.binary.resolve()
    else:
        stage.sh("cargo", "build", "--release", "-q", cwd=stage.ROOT)
    results = {}
    with tempfile.TemporaryDirectory(prefix="contactd-full-disk-") as work:
        disk = Disk(pathlib.Path(work))
        try:
            for name in options.ways or WAYS:
                results[name] = fill(disk, *WAYS[name], options.seconds)
                print(name, json.dumps(results[name]), flush=True)
            verified = subprocess.run([stage.BINARY, "audit", "verify", "--data", disk.data], capture_output=True, text=True)
            results["isJournalWhole"] = verified.returncode == 0
        finally:
            disk.end()
    if not options.binary:
        name = stage.ROOT / f"soak/runs/{datetime.date.today()}-full-disk.json"
        name.write_text(json.dumps({"commit": stage.commit(), "seconds": options.seconds, **results}, indent=1) + "\n")
    wrong = [name for name, found in results.items() if not (found["isFine"] if isinstance(found, dict) else found)]
    sys.exit(f"does not hold: {', '.join(wrong)}" if wrong else 0)


if __name__ == "__main__":
    main()
