#!/usr/bin/env bash
# Calls a demo service with public clients of the Model Context Protocol.
# Usage: contract-tests/mcp.sh BIN [--all]
# Without --all only the Python client, which is installed in a few seconds. With it also the Inspector's command line and the public
# conformance suite, which need npm and Node.js 22.
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN [--all]}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh

make_venv mcp
work=$(mktemp -d)
free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print("%s:%d" % s.getsockname())')
# The suite sends the origin of the address that it calls, which is the relay's.
relay=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print("%s:%d" % s.getsockname())')
printf '[cors]\nallow_origins = ["http://%s"]\n' "$relay" >"$work/contactd.toml"
start_demo "$bin" "$free" --data "$work/data" --config "$work/contactd.toml"
CONTACTD_TOKEN=$("$bin" token create assistant --data "$work/data" --scope mcp --scope phone --scope email --quota 1000/day 2>/dev/null)
export CONTACTD_TOKEN

"$venv/bin/python" contract-tests/use_mcp_client.py "$base" "$bin"
[ "${2:-}" = --all ] || exit 0

node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 22 ? 1 : 0)' || { echo "the other clients need Node.js 22 (22.19)" >&2; exit 1; }

clients=target/mcp-clients
mkdir -p "$clients"
if ! cmp -s contract-tests/mcp-clients/package-lock.json "$clients/package-lock.json"; then
  cp contract-tests/mcp-clients/package*.json "$clients"
  npm ci --prefix "$clients" --no-audit --no-fund --silent --ignore-scripts
fi
export PATH=$PWD/$clients/node_modules/.bin:$PATH

inspect() {
  mcp-inspector --cli "$base/mcp" --transport http --header "Authorization: Bearer $CONTACTD_TOKEN" "$@"
}
inspect --method tools/list | grep -q '"fetch_personal_email"'
inspect --method tools/call --tool-name fetch_phone_number \
  --tool-arg profileUrl=https://www.linkedin.com/in/ada-quell-1a2b3c | grep -q '+14155550123'
echo "ok   the Inspector's command line"

# The suite cannot send a token, so a relay adds it.
"$venv/bin/python" contract-tests/mcp_with_token.py "$relay" "$base/mcp" &
until (exec 3<>"/dev/tcp/${relay/:/\/}") 2>/dev/null; do sleep 0.1; done
for revision in 2025-11-25 2026-07-28; do
  # Everything that the revision requires of a server. What the file lists fails, because it is about what this service does not
  # have; whatever else fails, and what is listed and passes, fails this test.
  conformance server --url "http://$relay/mcp" --requirements "$revision" -o "$work/results" \
    --expected-failures "contract-tests/mcp-clients/$revision.yaml" >"$work/suite.log" 2>&1 || { cat "$work/suite.log"; exit 1; }
  echo "ok   the conformance suite for $revision"
done
