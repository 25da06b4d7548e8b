#!/usr/bin/env python3
"""The inputs that fuzzing starts from: fuzz/seeds/TARGET.txt, one per line, escaped as in a Rust byte string.

  seeds.py make            writes the generated inputs again: the same seed, the same lines
  seeds.py unpack T DIR    writes each input of target T to a file of its own, for libFuzzer
  seeds.py pack T DIR      adds the files in DIR, such as a crash or what a run found, to seeds/T.found.txt
"""

import hashlib
import io
import json
import pathlib
import random
import subprocess
import sys
import tarfile
import zlib

SEEDS = pathlib.Path(__file__).parent / "seeds"
FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures"


def escape(data):
    special = {0x5C: "\\\\", 0x0D: "\\r", 0x0A: "\\n", 0x09: "\\t"}
    return "".join(special.get(b) or (chr(b) if 0x20 <= b <= 0x7E else f"\\x{b:02x}") for b in data)


def unescape(line):
    return line.encode("latin-1").decode("unicode_escape").encode("latin-1")


def read(target):
    path = SEEDS / f"{target}.txt"
    return path.read_text().splitlines() if path.exists() else []


def write(target, inputs):
    lines = dict.fromkeys(escape(data.encode("latin-1") if isinstance(data, str) else data) for data in inputs)
    (SEEDS / f"{target}.txt").write_text("".join(line + "\n" for line in lines))
    print(f"{target}: {len(lines)}")


# HTTP: one list for each part of a request. The first item of each is good; a request has at most two that are not.

METHODS = ["POST", "GET", "HEAD", "OPTIONS", "BREW", "M-SEARCH", "post", "Post", "CONNECT", "PRI", "P\0ST", "GET ", "\tGET", "G@T", ""]
TARGETS = ["/api/fetchPhoneNumber", "/", "/a?b=c", "/a?b={[|]}", "http://a.example/b", "HTTP://A.EXAMPLE", "http://a.example?x",
           "http://b.example/", "http://a.example:80/", "http://u@a.example/", "http:///", "ftp://a.example/", "*", "a.example:80",
           "/a#b", "/a\\b", "/%41", "/%4", "/%zz", "/\xe9", "/a b", "/a\tb", "/\0", "//a.example/b", "/<>", "/\"", "/../a", "", "?", "/a?b#c"]
VERSIONS = ["HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "HTTP/11", "http/1.1", "HTTP/1.1 ", " HTTP/1.1", "HTTP/1.10", "HTTP/ 1.1", ""]
HOSTS = ["Host: a.example", "host:a.example", "HOST: A.EXAMPLE \t", "Host: a.example:8080", "Host: [::1]:80", "Host:", "Host: ", "Host: a.example\r\nHost: a.example", "",
         "Host : a.example", "Host: a/b", "Host: a,b", "Host: a b", "Host: u@a", "Host: a:", "Host: a:x", " Host: a.example", "Host: a.example\r\n b", "Host: \xe9", "Host: a\0"]
LENGTHS = ["Content-Length: {n}", "content-length:{n}", "Content-Length: {n} ", "Content-Length: 0{n}", "Content-Length: +{n}", "Content-Length: -{n}",
           "Content-Length: {n}, {n}", "Content-Length: {n}\r\nContent-Length: {n}", "Content-Length: {n}\r\nContent-Length: 1", "Content-Length: 0x{n}",
           "Content-Length: {n}.0", "Content-Length: \"{n}\"", "Content-Length:", "Content-Length : {n}", "Content-Length\t: {n}", "Content_Length: {n}",
           "Content-Length: {n}\0", "Content-Length: {n}\x0b", "Content-Length: 18446744073709551616", "Content-Length: 4294967296{n}", "X: y\rContent-Length: {n}",
           "X: y\nContent-Length: {n}", "Content-Length:\r\n {n}", "Connection: Content-Length\r\nContent-Length: {n}", "Content-Length: {n}\r\nTransfer-Encoding: chunked"]
CODINGS = ["Transfer-Encoding: chunked", "transfer-encoding:CHUNKED\t", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip, chunked",
           "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: identity", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunkedx",
           "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: chunked;a=b", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked,", "Transfer-Encoding:",
           "Transfer-Encoding : chunked", "Transfer_Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding: \x0bchunked",
           "Transfer-Encoding:\r\n chunked", "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 5",
           "Content-Length: 5\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\xa0", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "TE: chunked"]
OTHERS = ["", "X-Request-Id: 0123456789abcdef", "Expect: 100-continue", "Expect: 100-CONTINUE", "Expect: 200-ok", "Expect:", "Expect: 100-continue, a",
          "Connection: close", "Connection: keep-alive", "Connection: Keep-Alive, close", "Connection: upgrade\r\nUpgrade: h2c", "Upgrade: websocket", "Connection: Host",
          "Content-Encoding: gzip", "Content-Encoding: identity", "Authorization: Bearer x", "A: \xe9\t b", "A:", "A: " + "b" * 300, "A:b\r\n" * 40 + "C: d",
          "A", "A b", ": b", "A\0: b", "A: b\0", "A: b\x7f", "A: b\r", "A: b\n", "A: b\r\n c", "A: b\r\n\tc", "\xe9: b", "A(: b", "Trailer: Content-Length", "Keep-Alive: timeout=5"]
ENDS = ["\r\n", "\n", "\r", "\r\r\n", "\n\r\n", "\n\n", " \r\n", ""]
SIZES = ["{x}", "0{x}", "{X}", "00000000{x}", ";a", "{x};a", "{x};a=b", "{x};a=\"b;\\\" c\"", "{x};a;b=c", "{x};", "{x};;", "{x} ", "{x}\t;a", "{x} ;a", "{x}; a", "{x};a =b", "{x};a= b",
         "{x};a=", "{x};=b", "{x};a=\"b", "{x};a=\"\0\"", "{x};a=\xe9", "{x};a=\"\xe9\\\xe9\"", "0x{x}", "+{x}", "-{x}", " {x}", "{x}g", "{x}_", "{x}\n", "{x};a\nb", "{x};a\rb",
         "0000000000000000{x}", "fffffffffffffffff", "10000000000000000{x}", "", "ffffffff", "7fffffffffffffff"]
TRAILERS = ["", "A: b\r\n", "A: b\r\nC:\r\n", "X-Content-Length: 5\r\n", "Content-Length: 5\r\n", "transfer-encoding: chunked\r\n", "Host: b.example\r\n", "A : b\r\n", " A: b\r\n", "A: b\r\n c\r\n",
            "A: b\n", "A\r\n", "A: b\0\r\n", "A: \xe9\r\n", "GET / HTTP/1.1\r\n", "A: " + "b" * 300 + "\r\n"]
BODIES = ["{\"profileUrl\":\"https://linkedin.com/in/ada-quell\"}", "", "x", "0\r\n\r\n", "GET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n", "\r\n", "\0\xff"]
FIRSTS = ["", "\r\n", "\n", "\r\n\r\n", "\r", " ", "\0", "\r\n\n", "x"]


def choose(rng, items, odd):
    return rng.choice(items) if odd else items[0]


def chunks(rng, body, odd):
    parts = [body] if not body or rng.random() < 0.5 else [body[: len(body) // 2], body[len(body) // 2:]]
    text = ""
    for part in parts:
        if part:
            size = choose(rng, SIZES, odd)
            text += size.replace("{x}", f"{len(part):x}").replace("{X}", f"{len(part):X}") + choose(rng, ENDS, odd and rng.random() < 0.3)
            text += part + choose(rng, ENDS, odd and rng.random() < 0.3)
    last = choose(rng, ["0", "00", "0;a=b", "0 ", "0;", "-0", "0x0"], odd and rng.random() < 0.3)
    return text + last + choose(rng, ENDS, odd and rng.random() < 0.2) + choose(rng, TRAILERS, odd and rng.random() < 0.5) + "\r\n"


def request(rng, odd):
    """A request whose parts in `odd` may be anything."""
    end = choose(rng, ENDS, "end" in odd)
    body = rng.choice(BODIES)
    method = choose(rng, METHODS, "method" in odd)
    lines = [f"{method} {choose(rng, TARGETS, 'target' in odd)} {choose(rng, VERSIONS, 'version' in odd)}", choose(rng, HOSTS, "host" in odd)]
    if rng.random() < 0.5:
        lines.append(choose(rng, LENGTHS, "length" in odd).replace("{n}", str(len(body))))
    else:
        lines.append(choose(rng, CODINGS, "coding" in odd))
        body = chunks(rng, body, "chunks" in odd)
    lines.append(choose(rng, OTHERS, "others" in odd))
    fields = lines[1:]
    rng.shuffle(fields)
    return choose(rng, FIRSTS, "first" in odd) + "\r\n".join(line for line in [lines[0], *fields] if line) + end + "\r\n" + body


def http(rng):
    parts = ["method", "target", "version", "host", "length", "coding", "chunks", "chunks", "others", "first", "end"]
    for _ in range(700):
        odd = rng.sample(parts, rng.choice([0, 1, 1, 1, 2]))
        before = request(rng, []) if rng.random() < 0.3 else ""
        after = rng.choice(["", "", request(rng, []), "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "x", "\r\n"])
        yield before + request(rng, odd) + after


def submission(rng):
    names = ["\"profileUrl\"", "\"profile\\u0055rl\"", "\"profileURL\"", "\"\"", "\"a\"", "profileUrl", "\"\\ud800\"", "1"]
    values = ["\"https://linkedin.com/in/ada-quell\"", "\"\"", "\"\\ud83d\\ude00\"", "\"\\ud800\"", "\"a\\\"b\"", "null", "1e999", "-0", "[{\"profileUrl\":1}]", "{}", "\"\xe9\"", "\"\\u0000\"", "'x'", "\"\t\"", "[" * 150 + "]" * 150]
    for _ in range(300):
        fields = [f"{rng.choice(names) if rng.random() < 0.5 else names[0]}{rng.choice([':', ' : ', ''])}{rng.choice(values)}" for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3]))]
        body = rng.choice(["{", "{", "{", "{", "[", ""]) + rng.choice([",", ",", " , ", ",,"]).join(fields) + rng.choice(["}", "}", "}", "}", "]", ""])
        body = body.encode("utf-8" if rng.random() < 0.9 else "latin-1")
        yield rng.choice([b"", b"", b"", b"\xef\xbb\xbf", b" \r\n", b"\x0b"]) + body + rng.choice([b"", b"", b"\n", b" {}", b"\0"])


def token(rng):
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    for _ in range(40):
        text = "ctd_" + "".join(rng.choice(digits) for _ in range(32))
        crc, check = zlib.crc32(text.encode()), ""
        for _ in range(6):
            crc, digit = divmod(crc, 62)
            check = digits[digit] + check
        yield text + check
        yield rng.choice([text, text + check[::-1], text.lower() + check, " " + text + check, text + check + "\n", text[:-1] + "\xe9" + check, check + text, ""])


def changed(rng, data):
    """The same with a few bytes changed, cut, doubled or added."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice([1, 2, 8, 100]))
        match rng.randrange(5):
            case 0:
                data[at:end] = b""
            case 1:
                data[at:at] = data[at:end]
            case 2:
                data[at:end] = bytes(rng.randrange(256) for _ in range(end - at))
            case 3:
                data[at:at] = rng.choice([b"\0", b"\n", b"\r", b"\"", b",", b"{", b"\xff\xfe", b"\xef\xbb\xbf", b"-1", b"999999999999"])
            case 4:
                del data[at:]
    return bytes(data)


def messy(*endings):
    def generate(rng):
        files = [path.read_bytes() for path in sorted(FIXTURES.glob("messy/*")) if path.name.endswith(endings)]
        for data in [data for data in files if len(data) <= 3000]:
            yield data
            yield from (changed(rng, data) for _ in range(max(3, 40 // len(files))))
    return generate


def zstd(data, *flags):
    return subprocess.run(["zstd", "-q", "-c", *flags], input=data, stdout=subprocess.PIPE, check=True).stdout


def journal(rng):
    segment = zstd((FIXTURES / "data-1/data/audit/000000000001.jsonl.zst").read_bytes(), "-d")
    lines = segment.splitlines(keepends=True)
    yield segment
    for _ in range(3):
        yield changed(rng, segment)
        yield b"".join(rng.sample(lines, len(lines) - 2))
    yield b"".join(lines[:4])
    yield b"".join(lines[:4] + lines[2:6])
    yield b"".join(changed(rng, line) if rng.random() < 0.2 else line for line in lines[:6])


def backup(rng):
    def archive(files, manifest=None, kind=tarfile.REGTYPE, form=tarfile.GNU_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=form) as tar:
            listed = []
            for name, data in files:
                info = tarfile.TarInfo(name)
                info.size, info.type, info.linkname = len(data), kind, "/etc/passwd"
                tar.addfile(info, io.BytesIO(data))
                listed.append({"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
            text = manifest if manifest is not None else json.dumps({"version": 1, "madeAt": "2026-05-01T10:00:00Z", "files": listed}).encode()
            info = tarfile.TarInfo("manifest.json")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        return out.getvalue()

    good = [("contactd.db", b"a database"), ("keys/digest-001.key", b"a key")]
    tars = [archive(good), archive([]), archive(good, b"{}"), archive(good, b"["), archive(good + good), archive(good, b'{"version":2,"madeAt":"","files":[]}')]
    for name in ["../beside", "/absolute", "a/../../b", "./a", "a//b", "", ".", "a/", "x" * 200, "a/" * 60 + "b", "manifest.json", "\xff", "a\\..\\b", "a\n"]:
        tars += [archive([(name, b"x")]), archive([(name, b"x")], form=tarfile.PAX_FORMAT)]
    for kind in [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.GNUTYPE_SPARSE, tarfile.CONTTYPE, b"x", b"g", b"L", b"K", b"?"]:
        tars.append(archive([("a", b""), ("b", b"x")], kind=kind))
    yield from (zstd(tar, "-1", "--no-check") for tar in tars)
    for _ in range(60):
        tar = changed(rng, tars[0])
        yield zstd(tar, "-1", "--no-check") if rng.random() < 0.5 else changed(rng, zstd(rng.choice(tars), "-1", "--no-check"))


GENERATED = {
    "http": http,
    "submission": submission,
    "token": token,
    "csv": messy(".csv", ".tsv", ".txt", ".gz"),
    "jsonl": messy(".jsonl"),
    "parquet": messy(".parquet"),
    "journal": journal,
    "backup": backup,
}


def main(arguments):
    match arguments:
        case ["make"]:
            for target, generate in GENERATED.items():
                write(target, generate(random.Random(f"contactd {target}")))
        case ["unpack", target, where]:
            for data in map(unescape, read(target) + read(f"{target}.found")):
                if target == "backup":
                    # Changes inside of compressed data reach nothing. The target packs what is not packed.
                    data = subprocess.run(["zstd", "-dqc"], input=data, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
                pathlib.Path(where, hashlib.sha1(data).hexdigest()).write_bytes(data)
        case ["pack", target, where]:
            found = [path.read_bytes() for path in sorted(pathlib.Path(where).iterdir())]
            write(f"{target}.found", [unescape(line) for line in read(f"{target}.found")] + found)
        case _:
            sys.exit(__doc__)


main(sys.argv[1:])
