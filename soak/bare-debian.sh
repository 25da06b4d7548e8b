#!/usr/bin/env bash
# Runs ./check in a bare Debian 12, as root of a container that may neither mount nor make namespaces, without a terminal; or, with
# `user`, as an ordinary user there after root has installed the packages.
#
#     soak/bare-debian.sh          # needs root and mmdebstrap; says what ./check printed, and how long it took
#     soak/bare-debian.sh user     # afterwards, in the same root
#
# The root is kept in target/bare-debian: remove it to begin anew. The Rust toolchain and the packages of the registry are copied from
# this machine, with its package sources and certificates.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD/target/bare-debian
who=${1:-root}

if [ ! -d "$root" ]; then
  sources=/etc/apt/sources.list.d/debian.sources
  [ -f "$sources" ] || sources=/etc/apt/sources.list
  mmdebstrap --variant=apt --include=ca-certificates bookworm "$root" "$sources"
  toolchain=$(rustc --print sysroot)
  mkdir -p "$root/opt/rust" "$root/opt/cargo" "$root/src"
  cp -a "$toolchain/." "$root/opt/rust/"
  cargo fetch --quiet --locked
  cp -a "${CARGO_HOME:-$HOME/.cargo}/registry" "$root/opt/cargo/"
  cp -L /etc/resolv.conf "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  for settings in /etc/pip.conf "$HOME/.npmrc" /usr/etc/npmrc /usr/local/etc/npmrc; do
    [ ! -f "$settings" ] || install -D "$settings" "$root$settings"
  done
  chroot "$root" useradd --create-home newcomer
fi
rm -rf "$root/src/contactd-$who"
git clone --quiet . "$root/src/contactd-$who"
git -C "$root/src/contactd-$who" remote remove origin
[ "$who" = root ] || chroot "$root" chown -R newcomer "/src/contactd-$who" /opt/cargo

for kind in proc dev dev/pts sys; do mount --bind "/$kind" "$root/$kind"; done
trap 'for kind in sys dev/pts dev proc; do umount "$root/$kind"; done' EXIT

# What a container runtime leaves to root by default: no right to mount, to make namespaces or to configure the network.
as=(setpriv --bounding-set=-sys_admin,-net_admin,-sys_module,-sys_time,-sys_ptrace --inh-caps=-all --no-new-privs)
[ "$who" = root ] || as=(setpriv --reuid=newcomer --regid=newcomer --init-groups --inh-caps=-all --no-new-privs)
began=$SECONDS
status=0
chroot "$root" "${as[@]}" /usr/bin/env -i PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  HOME="$([ "$who" = root ] && echo /root || echo /home/newcomer)" CARGO_HOME=/opt/cargo LANG=C.UTF-8 \
  PIP_CERT=/etc/ssl/certs/ca-certificates.crt setsid --wait "/src/contactd-$who/check" </dev/null >"target/bare-debian-$who.log" 2>&1 || status=$?
tail -20 "target/bare-debian-$who.log"
echo "exit code $status after $((SECONDS - began)) s; all of it is in target/bare-debian-$who.log"
exit "$status"
