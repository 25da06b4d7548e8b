#!/usr/bin/env bash
# Verifies journals of a real server twice, with contactd and with verify_journal.py: whole ones, and copies that somebody
# has manipulated. Both must come to the same result.
# Usage: contract-tests/verify-journal.sh BIN
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh

make_venv
export no_proxy=127.0.0.1 NO_PROXY=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
work=$(mktemp -d) service=
stop() { # stop [SIGNAL]: stops the server that runs, if one does
  [[ -z $service ]] && return
  kill -s "${1:-TERM}" "$service" 2>/dev/null || true
  wait "$service" 2>/dev/null || [[ ${1:-} = KILL ]] || { cat "$work/log" >&2; exit 1; }
  service=
}
trap 'stop KILL; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# serve DATA: starts a server with small files and short epochs, and sets `base`.
serve() {
  : >"$work/log"
  "$bin" serve --data "$1" --config "$work/contactd.toml" --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 \
    >/dev/null 2>"$work/log" &
  service=$!
  for _ in {1..300}; do
    base=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/log" | head -n 1)
    [[ -n $base ]] && return
    kill -0 "$service" 2>/dev/null || break
    sleep 0.1
  done
  echo "the server did not start:" >&2
  cat "$work/log" >&2
  exit 1
}

# look_up COUNT: over COUNT / 5 seconds.
look_up() {
  for _ in $(seq "$1"); do
    curl -sSf -o /dev/null -H "Authorization: Bearer $token" -H 'Content-Type: application/json' \
      -d '{"profileUrl":"https://www.linkedin.com/in/ada-quell-1a2b3c"}' "$base/api/fetchPhoneNumber"
    sleep 0.2
  done
}

roots() { "$bin" audit root --data "$1" --json | grep -oE '[0-9a-f]{64}' | sed 's/^/--root=/'; }

failed=0
# expect whole|found NAME DIR OPTION...: prints what both verifiers say about a journal.
expect() {
  local wanted=$1 name=$2 dir=$3 theirs=0 ours=0
  "$bin" audit verify --dir "$dir" "${@:4}" >"$work/theirs" 2>&1 || theirs=$?
  "$venv/bin/python" contract-tests/verify_journal.py "$dir" "${@:4}" >"$work/ours" 2>&1 || ours=$?
  case $theirs$ours in
    00) local result=whole ;;
    11) local result=found ;;
    *) local result="contactd exits with $theirs, verify_journal.py with $ours" ;;
  esac
  if [[ $result = "$wanted" ]]; then
    echo "$name: $result ($(tail -n 1 "$work/ours"))"
    return
  fi
  failed=1
  echo "$name: $result, but it should be $wanted"
  sed 's/^/    contactd: /' "$work/theirs"
  sed 's/^/    verify_journal.py: /' "$work/ours"
}

# manipulated NAME COMMAND...: runs a command in a copy of the journal, and expects that both find it.
manipulated() {
  rm -rf "$work/copy"
  cp -r "$work/data/audit" "$work/copy"
  (cd "$work/copy" && "${@:2}")
  expect found "$1" "$work/copy" "${root[@]}" --head "$head"
}

# What can be done without a private key: the keys of the chain are in the journal.
cat >"$work/forge.py" <<'PY'
import json, sys
from pathlib import Path
from verify_journal import keyed_hash

def linked(texts: list[bytes], keys: list[str], chain: bytes) -> bytes:
    out = b""
    for text, key in zip(texts, keys):
        chain = keyed_hash(bytes.fromhex(key), chain + text)[:16]
        out += text + b',"chain":"' + chain.hex().encode() + b'"}\n'
    return out

command, path = sys.argv[1], Path(sys.argv[2])
lines = path.read_bytes().splitlines()
fields = [json.loads(line) for line in lines]
texts = [line[: line.rindex(b',"chain":"')] for line in lines]
keys = [next(later["key"] for later in fields[at:] if "key" in later) for at in range(len(lines))]
if command == "edit":  # and correct all chain values after it
    texts = [text.replace(b'"hit"', b'"miss"') for text in texts]
    path.write_bytes(linked(texts, keys, bytes.fromhex(fields[0]["previous"])))
if command == "segment":  # a new one, with an old signature
    last, chain = fields[-1]["seq"], fields[-1]["chain"]
    opened = texts[0][: texts[0].index(b',"mark"')].replace(b'"seq":%d' % fields[0]["seq"], b'"seq":%d' % (last + 1))
    opened += b',"mark":"opened","after":%d,"previous":"%s"' % (last, chain.encode())
    path.with_name(f"{last + 1:012}.jsonl").write_bytes(linked([opened, texts[1]], keys[1:2] * 2, bytes.fromhex(chain)))
PY
project=$PWD
forge() { PYTHONPATH=$project/contract-tests "$project/$venv/bin/python" "$work/forge.py" "$@"; }
rezip() { zstd -dcq "$1" | sed '$d' | zstd -cq >"$work/new" && mv "$work/new" "$1"; }

cat >"$work/contactd.toml" <<'TOML'
[audit]
segment_bytes = 4096
epoch = "1s"
TOML
printf 'profileUrl,phone,email\n%s,%s,%s\n' \
  https://www.linkedin.com/in/ada-quell-1a2b3c +14155550123 ada@example.com >"$work/people.csv"
"$bin" import "$work/people.csv" --source crm --data "$work/data" >/dev/null
token=$("$bin" token create crm --data "$work/data" 2>/dev/null)

# Twice, because a server compresses the files of the last one.
for _ in 1 2; do
  serve "$work/data"
  look_up 20
  stop
done
mapfile -t root < <(roots "$work/data")
head=$("$bin" audit head --data "$work/data" 2>/dev/null)
mapfile -t plain < <(cd "$work/data/audit" && ls 0*.jsonl)
mapfile -t packed < <(cd "$work/data/audit" && ls 0*.jsonl.zst)
file=${plain[0]} last=${plain[-1]}
hit=$(grep -n -m 1 '"outcome":"hit"' "$work/data/audit/$file" | cut -d: -f1)

expect whole "a journal as it is" "$work/data" "${root[@]}" --head "$head"
expect found "another root" "$work/data" "--root=$(printf '01%.0s' {1..32})"
expect found "another head" "$work/data" "${root[@]}" --head "${head%:*}:$(printf '01%.0s' {1..16})"
manipulated "a line edited" sed -i "${hit}s/\"hit\"/\"miss\"/" "$file"
manipulated "a line edited, chain values corrected" forge edit "$file"
manipulated "a line dropped" sed -i "${hit}d" "$file"
manipulated "two lines swapped" sed -i "$((hit - 1)){h;d};${hit}G" "$file"
manipulated "a line inserted" sed -i "${hit}i $(sed -n "${hit}{s/\"hit\"/\"miss\"/;p}" "$work/data/audit/$file")" "$file"
manipulated "a line duplicated" sed -i "${hit}p" "$file"
manipulated "a checkpoint dropped" sed -i '$d' "$file"
manipulated "a file removed" rm "$file"
manipulated "a compressed file removed" rm "${packed[0]}"
manipulated "a line dropped in a compressed file" rezip "${packed[0]}"
manipulated "a file renamed" mv "$file" "000000009999.jsonl"
manipulated "a file twice" cp "$file" "000000009999.jsonl"
manipulated "a file that does not belong" cp "$file" notes.jsonl
manipulated "the end cut before a noted head" sed -i '$d' "$last"
manipulated "the last file removed" rm "$last"
manipulated "a segment forged" forge segment "$last"
manipulated "a seal dropped" sed -i 2d seals.jsonl
manipulated "seals removed" rm seals.jsonl

cp -r "$work/data" "$work/killed"
serve "$work/killed"
look_up 6
stop KILL
expect whole "a server was killed" "$work/killed" "${root[@]}"
printf '{"seq":' >>"$(ls "$work/killed/audit"/0*.jsonl | tail -n 1)"
expect whole "it left an unfinished line" "$work/killed" "${root[@]}"
serve "$work/killed"
stop
expect whole "the next server went on" "$work/killed" "${root[@]}"

cp -r "$work/data" "$work/kept"
echo 'keep = "1s"' >>"$work/contactd.toml"
serve "$work/kept"
for _ in {1..100}; do
  grep -qs '"mark":"removed"' "$work/kept/audit"/0*.jsonl && break
  sleep 0.1
done
stop
sed -i '$d' "$work/contactd.toml"
expect whole "old files removed in order" "$work/kept" "${root[@]}"
cp "$work/data/audit/${packed[-1]}" "$work/kept/audit"
expect found "a removed file put back" "$work/kept" "${root[@]}"

"$bin" backup "$work/backup" --data "$work/data" 2>/dev/null
"$bin" restore "$work/backup" --data "$work/restored" --accept-lost-opt-outs 2>/dev/null
serve "$work/restored"
look_up 6
stop
mapfile -t both < <(roots "$work/restored")
expect whole "a restored journal, with both roots" "$work/restored" "${both[@]}"
expect found "a restored journal, with the old root alone" "$work/restored" "${both[0]}"
expect found "a restored journal, with the new root alone" "$work/restored" "${both[1]}"

cp -r fixtures/data-1/data "$work/fixture"
chmod -R go= "$work/fixture"
mapfile -t root < <(roots "$work/fixture")
expect whole "the journal of the first released version" "$work/fixture" "${root[@]}"
serve "$work/fixture"
stop
expect whole "a server went on with it" "$work/fixture" "${root[@]}"
exit "$failed"
