#!/bin/sh
# Builds the image for real, without a registry and without a daemon, and runs it as Kubernetes would: read-only,
# as 65532, without capabilities. Needs root on Debian; prints the image's size and the process' memory.
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "needs root: buildah runs the build in a chroot"; exit 1; }
sh tests/servers.sh buildah mmdebstrap
work=$(mktemp -d)
base=localhost/python-standin:bookworm
image=localhost/inference-sidecar:test
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
run=""
runtime=""
container=""
finish() {
  for started in $run $runtime; do kill "$started" 2>/dev/null || true; done
  [ -z "$container" ] || { buildah umount "$container"; buildah rm "$container"; } >/dev/null
  rm -rf "$work"
}
trap finish EXIT

# A stand-in for python:slim: Debian's own Python, from the mirror that this machine uses.
if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
  mirror=$(sed -n 's/^URIs: *//p;s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
    bookworm "$work/rootfs.tar" "$mirror"
  blank=$(buildah from scratch)
  buildah add --quiet "$blank" "$work/rootfs.tar" / >/dev/null
  buildah commit --quiet "$blank" "$base" >/dev/null
  buildah rm "$blank" >/dev/null
fi

version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' sidecar/__init__.py)
buildah bud --quiet --pull-never --network host \
  --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume /etc/resolv.conf:/etc/resolv.conf:ro \
  --build-arg BASE="$base" --build-arg VERSION="$version" -t "$image" . >/dev/null
container=$(buildah from "$image")
root=$(buildah mount "$container")

echo "the installed part: $(du -sm "$root/opt/sidecar" | cut -f1) MiB; the base: $(
  du -sm --exclude="$root/opt/sidecar" "$root" | cut -f1) MiB"
for tool in gcc cc g++ make; do
  [ ! -e "$root/usr/bin/$tool" ] || { echo "a compiler is left: $tool"; exit 1; }
done
if ls "$root"/opt/sidecar/bin | grep -q '^pip'; then echo "pip is left"; exit 1; fi
buildah inspect --type image "$image" | python3 -c '
import json, sys
config = json.load(sys.stdin)["OCIv1"]["config"]
assert config["User"] == "65532:65532", config["User"]
assert config["Labels"]["org.opencontainers.image.version"] == sys.argv[1], config["Labels"]
assert config["Entrypoint"] == ["inference-sidecar"] and config["Cmd"] == ["run"], config
' "$version"

# Its own mount namespace, everything read-only, no capabilities, no way to gain any.
inside() {
  exec unshare --mount sh -eu -c '
    root=$1; shift
    mount --bind "$root" "$root"
    mount -o remount,ro,bind "$root"
    mount -t proc proc "$root/proc"
    exec chroot "$root" /usr/bin/setpriv --reuid 65532 --regid 65532 --clear-groups --no-new-privs \
      --bounding-set=-all /usr/bin/env -i PATH=/opt/sidecar/bin:/usr/bin PYTHONUNBUFFERED=1 "$@"
  ' sh "$root" "$@"
}
(inside inference-sidecar --version)
if (inside python3 -c 'open("/x", "w")') 2>/dev/null; then echo "the root can be written to"; exit 1; fi
(inside python3 -c 'import bcrypt, grpc, opentelemetry.sdk, promql_parser, pynvml')

.venv/bin/python tests/deploy/runtime.py >"$work/url" &
runtime=$!
while [ ! -s "$work/url" ]; do sleep 0.1; done
inside inference-sidecar run --set listen=127.0.0.1:19845 --set "targets[0].url=$(cat "$work/url")" \
  >"$work/out" 2>&1 &
run=$!
tries=0
until python3 -c 'import sys, urllib.request as u; sys.stdout.buffer.write(u.urlopen(sys.argv[1]).read())' \
  http://127.0.0.1:19845/metrics >"$work/page" 2>/dev/null &&
  grep -q '^inference_requests_running{' "$work/page"; do
  tries=$((tries + 1))
  [ "$tries" -lt 100 ] || { cat "$work/out"; exit 1; }
  sleep 0.2
done
sleep 5
echo "user $(awk '/^Uid/ {print $2}' "/proc/$run/status"), capabilities $(
  awk '/^CapEff/ {print $2}' "/proc/$run/status"), RSS $(
  awk '/^VmRSS/ {print int($2 / 1024)}' "/proc/$run/status") MiB"
kill -TERM "$run"
wait "$run" || { cat "$work/out"; echo "it did not end well"; exit 1; }
run=""
echo "1 passed, 0 failed"
