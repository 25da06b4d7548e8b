#!/usr/bin/env bash
# Checks a demo service against the OpenAPI document it serves, with Schemathesis.
# Usage: contract-tests/schemathesis.sh BIN [OPTION OF schemathesis run]...
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh

make_venv
start_demo "$bin"
HYPOTHESIS_STORAGE_DIRECTORY=$work/hypothesis \
  "$venv/bin/schemathesis" --config-file contract-tests/schemathesis.toml run "$base/openapi-1.1.json" "${@:2}"
