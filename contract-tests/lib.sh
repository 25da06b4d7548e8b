# Sourced by the scripts in this directory, which run from the project root.

# start_demo BIN [ADDRESS [FLAG]...]: starts a demo service, which is stopped when the script exits. Sets `base`, `work` (a
# directory that is deleted at the same time; a script may have made it before) and CONTACTD_TOKEN.
start_demo() {
  work=${work:-$(mktemp -d)}
  touch "$work/stdout" "$work/stderr"
  "$1" serve --demo --listen "${2:-127.0.0.1:0}" --admin-listen 127.0.0.1:0 "${@:3}" >"$work/stdout" 2>"$work/stderr" &
  service=$!
  trap stop_demo EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  for _ in {1..300}; do
    base=$(sed -n 's/.*listening on \(http:[^ ]*\).*/\1/p' "$work/stderr" | head -n 1)
    CONTACTD_TOKEN=$(grep -o 'ctd_[A-Za-z0-9]*' "$work/stdout" | head -n 1) || true
    if [[ -n $base && -n $CONTACTD_TOKEN ]]; then
      export CONTACTD_TOKEN no_proxy=127.0.0.1 NO_PROXY=127.0.0.1 PYTHONDONTWRITEBYTECODE=1
      return
    fi
    kill -0 "$service" 2>/dev/null || break
    sleep 0.1
  done
  echo "the service did not start:" >&2
  cat "$work/stdout" "$work/stderr" >&2
  return 1
}

stop_demo() {
  local result=$?
  kill -TERM "$service" 2>/dev/null || true
  wait "$service" || { echo "the service did not stop cleanly:"; cat "$work/stderr"; result=1; } >&2
  # What else the script has started.
  jobs -p | xargs -r kill 2>/dev/null || true
  rm -rf "$work"
  exit "$result"
}

# make_venv [NAME]: sets `venv` to a virtual environment with exactly the packages of contract-tests/requirements.txt, or of
# requirements-NAME.txt. If several checks want it at once, one installs it and the others wait.
make_venv() {
  local lock suffix=${1:+-$1}
  venv=target/venv$suffix
  mkdir -p target
  exec {lock}>"$venv.lock"
  flock "$lock"
  fill_venv "contract-tests/requirements$suffix.txt"
  exec {lock}>&-
}

fill_venv() {
  local requirements=$1
  cmp -s "$requirements" "$venv/installed.txt" && return
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$requirements"
  "$venv/bin/pip" check
  cp "$requirements" "$venv/installed.txt"
}
