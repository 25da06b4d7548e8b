#!/usr/bin/env bash
# Generates a Python client from the OpenAPI document of a demo service, and makes calls with it. Generates the types of TypeScript,
# and compiles code against them.
# Usage: contract-tests/generated-client.sh BIN
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh

make_venv
free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print("%s:%d" % s.getsockname())')
start_demo "$bin" "$free" --public-url "http://$free"
export PATH=$PWD/$venv/bin:$PATH
# If the generator skips a part of the document, it warns, and a warning fails the test.
openapi-python-client generate --url "$base/openapi-1.1.json" --meta none --fail-on-warning \
  --output-path "$work/contact_client"
PYTHONPATH=$work python contract-tests/use_generated_client.py "$base/openapi-1.1.json"

types=target/openapi-typescript
mkdir -p "$types"
if ! cmp -s contract-tests/typescript/package-lock.json "$types/installed.json"; then
  cp contract-tests/typescript/package{,-lock}.json "$types"
  npm ci --prefix "$types" --silent --no-audit --no-fund
  cp contract-tests/typescript/package-lock.json "$types/installed.json"
fi
cp contract-tests/typescript/use_generated_types.ts "$types"
"$types/node_modules/.bin/openapi-typescript" "$base/openapi-1.1.json" --output "$types/api.d.ts"
"$types/node_modules/.bin/tsc" --strict --noEmit --skipLibCheck false --module nodenext "$types/use_generated_types.ts"
echo "types for TypeScript: compiled"
