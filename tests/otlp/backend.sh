#!/bin/sh
# VictoriaMetrics of Debian 13 into .venv/tools (older ones don't speak OTLP), from the mirror that this machine uses.
set -eu
tools=${1:-.venv/tools}
[ -x "$tools/victoria-metrics" ] && exit 0
mirror=$(sed -n 's/^URIs: *//p;s/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\).*/\2/p' \
  /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$tools"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$work/sources.list"
debian() {
  apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=- \
    -o Dir::State::lists="$work/lists" -o Dir::Cache="$work/cache" "$@"
}
cd "$work"
debian update && debian download victoria-metrics
dpkg-deb --extract victoria-metrics_*.deb "$work/files"
cd - >/dev/null
cp "$work/files/usr/bin/victoria-metrics" "$tools/victoria-metrics"
