#!/bin/sh
# Installs the named Debian packages that are missing, when root can; else the tests that need them skip.
missing=""
for package in "$@"; do
  dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "not installed:$missing (needs root and apt-get); the tests that use them are skipped"
  exit 0
fi
# The packages' own services stay off: the tests start their own, on free ports.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >"$log" 2>&1 ||
  { tail -3 "$log"; echo "could not install:$missing; the tests that use them are skipped"; }
rm -f "$log"
exit 0
