#!/usr/bin/env bash
# Checks the units with systemd's own tools: packaging/check.sh path/to/contactd. Needs no running systemd.
set -euo pipefail
bin=$(realpath "$1")
here=$(cd "$(dirname "$0")" && pwd)
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
sed "s|/usr/local/bin/contactd|$bin|" "$here/contactd.service" > "$units/contactd.service"
cp "$here/contactd.socket" "$units/"
said=$(systemd-analyze verify --man=no "$units/contactd.service" "$units/contactd.socket" 2>&1 || true)
# Only what is about our units: other units of the machine may have faults.
if grep -F "$units" <<< "$said"; then
  echo "systemd-analyze verify found faults" >&2
  exit 1
fi
# 0 is the safest, 100 (10.0) the least safe.
systemd-analyze security --offline=true --no-pager --threshold=20 "$units/contactd.service" > "$units/security" || { cat "$units/security" >&2; exit 1; }
tail -n 1 "$units/security"
