#!/usr/bin/env bash
# Checks the admin API of a demo service against the OpenAPI document it serves, with Schemathesis: with an admin token, and with a
# session of the console what only a session may do.
# Usage: contract-tests/admin-api.sh BIN [OPTION OF schemathesis run]...
set -euo pipefail
bin=$(realpath "${1:?usage: $0 BIN}")
cd "$(dirname "$0")/.."
source contract-tests/lib.sh

make_venv
start_demo "$bin"
admin=$(sed -n 's/.*admin on \(http:[^ ]*\).*/\1/p' "$work/stderr" | head -n 1)/admin/api/v1
data=$(sed -n 's/.*"data directory \([^"]*\)".*/\1/p' "$work/stderr")
CONTACTD_ADMIN_TOKEN=$("$bin" admin-token create tester --role admin --data "$data" 2>/dev/null)
link=$(sed -n 's/.*\/admin\/enter#//p' "$work/stdout")
curl -sS -D "$work/head" -o "$work/session" -H 'Content-Type: application/json' -d "{\"link\":\"$link\"}" "$admin/session/link"
CONTACTD_SESSION=$(sed -n 's/^set-cookie: contactd_session=\([^;]*\).*/\1/Ip' "$work/head")
CONTACTD_CSRF=$(sed -n 's/.*"csrfToken":"\([0-9a-f]*\)".*/\1/p' "$work/session")
export CONTACTD_ADMIN_TOKEN CONTACTD_SESSION CONTACTD_CSRF

check() {
  HYPOTHESIS_STORAGE_DIRECTORY=$work/hypothesis \
    "$venv/bin/schemathesis" --config-file contract-tests/schemathesis-admin.toml run "$admin/openapi.json" "$@"
}

# These would end the session or the token that is used, with the names that lists show. They are checked apart, with other names.
ending=(revokeAdminToken disableUser resetPassword changeRole resetTotp)
check "${ending[@]/#/--exclude-operation-id=}" --exclude-operation-id=logOut "${@:2}"
check "${ending[@]/#/--include-operation-id=}" --phases=coverage,fuzzing "${@:2}"
