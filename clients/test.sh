#!/usr/bin/env bash
# Makes the packages of both clients, installs them into empty projects, checks their types, and runs their tests against a service.
# Usage: clients/test.sh BIN
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh
export no_proxy=127.0.0.1,localhost NO_PROXY=127.0.0.1,localhost PYTHONDONTWRITEBYTECODE=1

make_venv
root=$PWD work=$PWD/target/clients tools=$PWD/$venv/bin
rm -rf "$work"
mkdir -p "$work"
cp -r clients/python clients/typescript "$work"

test_python() {
  "$tools/pip" wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w "$work" "$work/python"
  python3 -m venv --without-pip "$work/project"
  "$tools/pip" --python "$work/project/bin/python" install --quiet --disable-pip-version-check --no-deps "$work"/contactd_client-*.whl
  (cd "$work/project" && "$tools/mypy" --strict --cache-dir "$work/mypy" --python-executable bin/python "$root/clients/tests/test_contactd.py")
  "$tools/mypy" --strict --cache-dir "$work/mypy" clients/python/contactd.py
  exec python3 clients/tests/service.py "$bin" "$work/project/bin/python" clients/tests/test_contactd.py
}

test_typescript() {
  cd "$work/typescript"
  npm ci --silent --no-audit --no-fund
  npm pack --silent
  mkdir "$work/npm-project"
  cp "$root"/clients/tests/{contactd.test.ts,tsconfig.json} "$work/npm-project"
  cd "$work/npm-project"
  echo '{"type": "module"}' >package.json
  npm install --silent --no-audit --no-fund "$work"/typescript/contactd-client-*.tgz
  # The types of Node are for the test only.
  ln -s "$work/typescript/node_modules/@types" node_modules/@types
  ln -s "$work/typescript/node_modules/undici-types" node_modules/undici-types
  "$work/typescript/node_modules/.bin/tsc"
  export CONTACTD_ROOT=$root
  exec python3 "$root/clients/tests/service.py" "$bin" node --test --test-reporter=tap compiled/contactd.test.js
}

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
trap 'exit 143' TERM
test_python >"$work/python.log" 2>&1 & python=$!
test_typescript >"$work/typescript.log" 2>&1 & typescript=$!
result=0
wait "$python" || result=1
wait "$typescript" || result=1
cat "$work/python.log"
if [ "$result" = 0 ]; then grep -E '^# ' "$work/typescript.log"; else cat "$work/typescript.log"; fi
exit "$result"
