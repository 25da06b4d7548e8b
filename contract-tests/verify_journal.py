"""Verifies an audit journal of contactd. It follows docs/journal.md and shares no code with contactd.

DIR is a copy of a data directory or of its audit/. Prints the first thing that is wrong and exits with 1, or prints that
the journal is whole and exits with 0. Exits with 2 if it cannot tell.
"""

import argparse
import hashlib
import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

START = bytes(16)
SIGNED_PREFIX = b"contactd journal checkpoint\n"
OPENING_LINES = 8
LINE_BYTES = 64 * 1024
SEALS = "seals.jsonl"
LISTS = "lists"
NOT_READ = (".new", ".unfinished", ".damaged", ".foreign")


class Wrong(Exception):
    """The journal is not whole."""

    def __init__(self, file: str, number: int, what: str):
        super().__init__(f"{file}, line {number}: {what}" if number else f"{file}: {what}")


class CannotTell(Exception):
    """Nothing can be said about the journal."""


# BLAKE3, keyed: https://github.com/BLAKE3-team/BLAKE3-specs

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED = 1, 2, 4, 8, 16
BLOCK, CHUNK = 64, 1024
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
Words = tuple[int, ...]


def compress(chaining: Words, block: bytes, counter: int, flags: int) -> Words:
    words = struct.unpack("<16I", block.ljust(BLOCK, b"\0"))
    s = [*chaining, *IV[:4], counter & 0xFFFFFFFF, counter >> 32, len(block), flags]
    for _ in range(7):
        for at, (a, b, c, d) in enumerate(COLUMNS + DIAGONALS):
            for word, turn_d, turn_b in ((words[2 * at], 16, 12), (words[2 * at + 1], 8, 7)):
                s[a] = (s[a] + s[b] + word) & 0xFFFFFFFF
                x = s[d] ^ s[a]
                s[d] = (x >> turn_d | x << (32 - turn_d)) & 0xFFFFFFFF
                s[c] = (s[c] + s[d]) & 0xFFFFFFFF
                x = s[b] ^ s[c]
                s[b] = (x >> turn_b | x << (32 - turn_b)) & 0xFFFFFFFF
        words = tuple(words[at] for at in PERMUTATION)
    return tuple(s[at] ^ s[at + 8] for at in range(8))


def subtree(key: Words, data: bytes, counter: int, root: int) -> Words:
    """The chaining value of the chunks in `data`, the first of which has the number `counter`."""
    if len(data) <= CHUNK:
        chaining, last = key, max(0, len(data) - 1) // BLOCK
        for at in range(last + 1):
            flags = KEYED | (CHUNK_START if at == 0 else 0) | (CHUNK_END | root if at == last else 0)
            chaining = compress(chaining, data[at * BLOCK : (at + 1) * BLOCK], counter, flags)
        return chaining
    # The left side is the largest power of two of chunks that leaves something for the right side.
    left = 1 << ((len(data) - 1) // CHUNK).bit_length() - 1
    sides = subtree(key, data[: left * CHUNK], counter, 0) + subtree(key, data[left * CHUNK :], counter + left, 0)
    return compress(key, struct.pack("<16I", *sides), 0, KEYED | PARENT | root)


def keyed_hash(key: bytes, data: bytes) -> bytes:
    return struct.pack("<8I", *subtree(struct.unpack("<8I", key), data, 0, ROOT))


# Ed25519, strict: keys and points of small order are refused.

P = 2**255 - 19
ORDER_8_Y = int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little")
SMALL_ORDER_Y = {0, 1, P - 1, ORDER_8_Y, P - ORDER_8_Y}


def is_small(point: bytes) -> bool:
    return (int.from_bytes(point, "little") & (2**255 - 1)) % P in SMALL_ORDER_Y


def is_signed(public: bytes, text: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, SIGNED_PREFIX + text)
    except (InvalidSignature, ValueError):
        return False
    return not is_small(public) and not is_small(signature[:32])


# Lines

HEX_BYTES = {"chain": 16, "previous": 16, "last": 16, "givenId": 16, "value": 16, "root": 32, "oldRoot": 32}
HEX_BYTES |= {"key": 32, "next": 32, "sig": 64}
PATTERNS = {name: f"[0-9a-f]{{{2 * count}}}" for name, count in HEX_BYTES.items()}
PATTERNS |= {"time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "profile": r"[^:]*:[0-9a-f]{32}"}
PATTERNS |= {"outcome": "hit|miss|refused|done|failed"}
NUMBERS = {"seq", "count", "place", "after", "suspectAfter", "tornBytes", "lost", "from", "through", "epoch", "number"}
CHECKPOINT = {"root", "epoch", "number", "previous", "key", "sig"}
MARKS: dict[str, set[str]] = {
    "begun": {"root", "after", "previous"},
    "opened": {"after", "previous"},
    "recovered": {"tornBytes"},
    "resumed": {"lost"},
    "undisclosed": {"from", "through"},
    "retired": {"through", "last"},
    "removed": {"through"},
    "started": set(),
    "stopped": set(),
    "checkpoint": CHECKPOINT,
    "seal": CHECKPOINT | {"next"},
}
WHOLE_LINE = re.compile(rb'(\{"seq":.*),"chain":"[0-9a-f]{32}"\}')
SIGNED_LINE = re.compile(rb'(.*),"sig":"[0-9a-f]{128}"')
Epoch = tuple[str, int]  # the root of a journal, and the number of an epoch


@dataclass
class Line:
    file: str
    number: int  # in its file, from one
    text: bytes  # up to the chain value
    fields: dict[str, Any]
    before: bytes = START  # the chain value before it

    def __post_init__(self) -> None:
        self.seq: int = self.fields["seq"]
        self.mark: str | None = self.fields.get("mark")
        self.chain: bytes = self.decoded("chain")
        self.is_checkpoint = self.mark in ("checkpoint", "seal")

    def decoded(self, name: str) -> bytes:
        return bytes.fromhex(self.fields[name])

    def epoch(self) -> Epoch:
        return self.fields["root"], self.fields["epoch"]

    def epoch_after(self) -> Epoch:
        return self.fields["root"], self.fields["epoch"] + (self.mark == "seal")

    def needs_copy(self) -> bool:
        """Whether it is a seal, or the first checkpoint of a journal."""
        return self.mark == "seal" or (self.is_checkpoint and self.fields["number"] == 1)

    def is_linked(self, key: bytes, before: bytes) -> bool:
        return keyed_hash(key, before + self.text)[:16] == self.chain

    def wrong(self, what: str) -> NoReturn:
        raise Wrong(self.file, self.number, what)


def only_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a field is there twice")
    return dict(pairs)


def is_valid(name: str, value: Any) -> bool:
    if name in NUMBERS:
        return type(value) is int and 0 <= value < 2**64
    return name not in PATTERNS or (isinstance(value, str) and re.fullmatch(PATTERNS[name], value) is not None)


def required(fields: dict[str, Any]) -> set[str]:
    if "mark" in fields:
        return MARKS[fields["mark"]]
    if "actor" in fields:
        return {"entry", "via", "operation", "outcome"}
    if fields.get("via", "mcp") not in {"sandbox", "mcp"}:
        raise ValueError("a request comes in no other way")
    return {"token", "operation", "outcome", "count" if "count" in fields else "requestId"}


def parse(file: str, number: int, text: bytes) -> Line:
    whole = WHOLE_LINE.fullmatch(text)
    try:
        fields = json.loads(text, object_pairs_hook=only_once)
        is_good = {"seq", "time", "node", "chain"} | required(fields) <= fields.keys()
        is_good = is_good and all(is_valid(name, value) for name, value in fields.items())
    except (ValueError, KeyError, TypeError):
        is_good = False
    if whole is None or not is_good or len(text) >= LINE_BYTES:
        raise Wrong(file, number, "this is not a valid journal line")
    return Line(file, number, whole[1], fields)


def parse_all(file: str, content: bytes) -> Iterator[Line]:
    """The lines of a file. What follows the last newline is not a line: it was never finished."""
    for number, text in enumerate(content.split(b"\n")[:-1], 1):
        yield parse(file, number, text)


# The journal


@dataclass
class Journal:
    """What is known of a journal while its files are read in order."""

    roots: set[str]
    keys: dict[Epoch, bytes] = field(default_factory=dict)  # the public keys of the epochs after the first
    copies: list[Line] = field(default_factory=list)  # the lines of seals.jsonl
    begins: tuple[int, bytes] = (0, START)  # the line before the first one: its number and its chain value
    last: tuple[int, bytes] | None = None  # the last line that was read
    waiting: list[Line] = field(default_factory=list)  # lines that are not signed yet
    chains: dict[int, bytes] = field(default_factory=dict)  # of the lines that are signed
    due: Epoch | None = None  # the epoch of the next checkpoint
    due_number: int | None = None  # the number of the next checkpoint
    need_copies: list[Line] = field(default_factory=list)
    retired: list[Line] = field(default_factory=list)
    lists: dict[str, Line] = field(default_factory=dict)  # the lists that lines name
    removed: int = 0

    def signs(self, line: Line) -> bool:
        """Whether a checkpoint has the signature of its epoch. If it is a seal, the key that it names is trusted."""
        root, epoch = line.epoch()
        public = self.keys.get((root, epoch))
        if epoch == 1 and root in self.roots:
            public = bytes.fromhex(root)
        signed = SIGNED_LINE.fullmatch(line.text)
        if public is None or signed is None or not is_signed(public, signed[1], line.decoded("sig")):
            return False
        if line.mark == "seal":
            self.keys.setdefault(line.epoch_after(), line.decoded("next"))
        return True

    def read_seals(self, content: bytes) -> None:
        for copy in parse_all(SEALS, content):
            if not copy.needs_copy() or not self.signs(copy):
                copy.wrong("this is not a seal, or its signature is wrong, or its root is not trusted")
            if not copy.is_linked(copy.decoded("key"), copy.decoded("previous")):
                copy.wrong("the chain value of this seal is wrong")
            self.copies.append(copy)

    def read_segment(self, file: str, content: bytes) -> None:
        lines = list(parse_all(file, content))
        if not lines or lines[0].mark not in ("begun", "opened") or lines[0].seq != int(file.split(".")[0]):
            raise Wrong(file, 1, "the file does not begin with the line in its name")
        if not any(line.is_checkpoint for line in lines[:OPENING_LINES]):
            lines[0].wrong("nothing signs how this file begins")
        self.join(lines[0])
        for line in lines:
            if line.number > 1:
                self.follow(line)
            self.waiting.append(line)
            self.last = (line.seq, line.chain)
            if line.is_checkpoint:
                self.check(line)

    def join(self, first: Line) -> None:
        """Puts the first line of a file after what was read before it."""
        after, first.before = first.fields["after"], first.decoded("previous")
        if after + 1 != first.seq:
            first.wrong(f"it does not follow line {after}")
        if "broken" in first.fields:
            first.wrong(f"the journal was not as the last server had left it: {first.fields['broken']}")
        if self.last is None:
            self.begins = (after, first.before)
            if after == 0 and first.before != START:
                first.wrong("it names a line before the first one")
            self.due = next((copy.epoch_after() for copy in reversed(self.copies) if copy.seq <= after), None)
        else:
            # Lines that nothing signs may be what is left of a write that failed. They do not count.
            while self.waiting and self.waiting[-1].seq > after:
                left = self.waiting.pop()
                self.last = (left.seq - 1, left.before)
            seq, chain = self.last
            if after > seq:
                if first.fields.get("suspectAfter", after) > seq:
                    first.wrong(f"lines {seq + 1} to {after} are missing before this one")
                self.due_number = None  # there may have been checkpoints among them
            if after < seq:
                first.wrong(f"it continues after line {after}, but line {seq} is signed")
            if after == seq and first.before != chain:
                first.wrong(f"it continues after another line {after} than the one that is there")
        if first.mark == "begun" and self.due is not None:
            if "oldRoot" not in first.fields:
                first.wrong("a second journal begins here")
            if first.fields["oldRoot"] != self.due[0]:
                first.wrong("it does not name the root of the journal before it")

    def follow(self, line: Line) -> None:
        """Puts a line after the one before it in its file."""
        assert self.last is not None
        seq, line.before = self.last
        if line.mark in ("begun", "opened"):
            line.wrong("such a line can only begin a file")
        if line.seq != seq + 1:
            line.wrong(f"this is line {line.seq}, but line {seq + 1} was expected here")

    def check(self, signed: Line) -> None:
        """Checks the lines that wait, the last of which is this checkpoint."""
        begun = next((line for line in self.waiting if line.mark == "begun"), None)
        if begun is not None:
            self.due, self.due_number = (begun.fields["root"], 1), 1
        if signed.epoch() != self.due or self.due_number not in (None, signed.fields["number"]):
            signed.wrong("another checkpoint is due here")
        if not self.signs(signed):
            signed.wrong("the signature is wrong, or its root is not trusted")
        key = signed.decoded("key")
        for line in self.waiting:
            if not line.is_linked(key, line.before):
                line.wrong("this line, or the chain value before it, was changed")
        if signed.before != signed.decoded("previous"):
            self.waiting[0].wrong(f"lines {self.waiting[0].seq} to {signed.seq - 1} are not the ones that were signed")
        for line in self.waiting:
            self.note(line)
        self.waiting = []
        self.due, self.due_number = signed.epoch_after(), signed.fields["number"] + 1

    def note(self, line: Line) -> None:
        """Notes what a signed line says about other lines."""
        self.chains[line.seq] = line.chain
        if line.mark == "retired":
            self.retired.append(line)
        if line.mark == "removed":
            self.removed = max(self.removed, line.fields["through"])
        if line.needs_copy():
            self.need_copies.append(line)
        for subject in line.fields.get("subjects", []):
            if name := re.fullmatch("list:[^:]*:([0-9a-f]{64})", subject):
                self.lists[name[1]] = line

    def finish(self, head: tuple[int, bytes] | None) -> None:
        """Checks what is known only at the end."""
        after, previous = self.begins
        if not self.chains:
            raise Wrong("the journal", 0, "nothing signs it")
        if after > 0 and not any(explains(line, after, previous) for line in self.retired):
            raise Wrong("the journal", 0, f"lines 1 to {after} are missing, and no line says that they were removed")
        if after < self.removed:
            raise Wrong("the journal", 0, f"lines {after + 1} to {self.removed} had been removed and are there again")
        if head is not None and head[0] > after and self.chains.get(head[0]) != head[1]:
            raise Wrong("the journal", 0, f"it does not contain line {head[0]} as it was noted down")
        for copy in self.copies:
            if copy.seq > after and self.chains.get(copy.seq) != copy.chain:
                copy.wrong("the journal does not contain the line of this seal")
        copies = {(copy.seq, copy.chain) for copy in self.copies}
        # The copy of the last one may not have been written yet.
        for line in self.need_copies[:-1]:
            if (line.seq, line.chain) not in copies:
                line.wrong(f"the copy of this line in {SEALS} is missing")


def check_lists(lists: dict[str, Line], directory: Path) -> None:
    """Whether the lists of people that lines name are there and unchanged."""
    for name, line in lists.items():
        path = directory / LISTS / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != name:
            line.wrong(f"its list {name} is missing or changed")


def explains(retired: Line, after: int, previous: bytes) -> bool:
    """Whether a line says that the lines up to `after` were old enough to be removed."""
    through: int = retired.fields["through"]
    if through != after:  # if it is greater, only some of the files have been removed yet
        return through > after
    return retired.decoded("last") == previous


# Files and arguments


def read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".zst":
        return content
    if shutil.which("zstd") is None:
        raise CannotTell(f"{path.name} is compressed: install the command `zstd`")
    unpacked = subprocess.run(["zstd", "-dcq"], input=content, capture_output=True, check=False)
    if unpacked.returncode != 0:
        raise Wrong(path.name, 0, "it cannot be decompressed")
    return unpacked.stdout


def segments(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The names and contents of the segments, oldest first."""
    found: dict[int, list[Path]] = {}
    for path in sorted(directory.iterdir()):
        name = re.fullmatch(r"(\d{12,})\.jsonl(\.zst)?", path.name)
        if name and f"{int(name[1]):012}" == name[1] and int(name[1]) > 0:
            found.setdefault(int(name[1]), []).append(path)
        elif path.name not in (SEALS, LISTS) and not path.name.endswith(NOT_READ):
            raise Wrong(path.name, 0, "this file does not belong here")
    for _, paths in sorted(found.items()):
        contents = [read(path) for path in paths]
        if contents[0] != contents[-1]:
            raise Wrong(paths[-1].name, 0, f"it differs from {paths[0].name}")
        yield paths[0].name, contents[0]


def root_key(text: str) -> str:
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise argparse.ArgumentTypeError("a root is 64 hex digits, as `contactd audit root` prints it")
    return text


def head_line(text: str) -> tuple[int, bytes]:
    # In a cluster, the node follows.
    if not re.fullmatch("[0-9]+:[0-9a-f]{32}(:[0-9a-f]{8})?", text):
        raise argparse.ArgumentTypeError("a head looks as `contactd audit head` prints it")
    seq, chain = text.split(":")[:2]
    return int(seq), bytes.fromhex(chain)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("directory", metavar="DIR", type=Path)
    arguments.add_argument("--root", metavar="KEY", type=root_key, action="append", required=True)
    arguments.add_argument("--head", metavar="SEQ:CHAIN", type=head_line)
    given = arguments.parse_args()
    inside = given.directory / "audit"
    directory = inside if inside.is_dir() else given.directory
    journal = Journal(set(given.root))
    try:
        if (directory / SEALS).exists():
            journal.read_seals((directory / SEALS).read_bytes())
        for file, content in segments(directory):
            journal.read_segment(file, content)
        journal.finish(given.head)
        check_lists(journal.lists, directory)
    except Wrong as wrong:
        print(wrong)
        return 1
    except (CannotTell, OSError) as error:
        print(f"verify_journal.py: {error}", file=sys.stderr)
        return 2
    lines, waiting = len(journal.chains), len(journal.waiting)
    print(f"whole: {lines + waiting} lines, signed to line {max(journal.chains)}, {waiting} not signed yet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
