"""Kubernetes' control plane on loopback, with no controller but the HPA's and no kubelet."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web

SYNC = (
    0.8  # seconds; its multiples keep away from whole seconds, which is what windows and periods are given in
)
TOLERANCE = 0.1
DOWNSCALE = 5  # seconds: the controller's own window, for objects that have none
EXTERNAL, CUSTOM = "external.metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2"

FLAGS = {
    "kube-apiserver": """--bind-address=127.0.0.1 --endpoint-reconciler-type=none --anonymous-auth=false
        --authorization-mode=AlwaysAllow --service-account-issuer=https://localhost
        --service-cluster-ip-range=10.96.0.0/24 --disable-admission-plugins=ServiceAccount
        --feature-gates=HPAScaleToZero=true""",
    "kube-controller-manager": f"""--bind-address=127.0.0.1 --controllers=horizontalpodautoscaling
        --leader-elect=false --kube-api-qps=1000 --kube-api-burst=2000
        --horizontal-pod-autoscaler-sync-period={round(SYNC * 1000)}ms
        --horizontal-pod-autoscaler-tolerance={TOLERANCE}
        --horizontal-pod-autoscaler-downscale-stabilization={DOWNSCALE}s""",
}
TOKENS = """
controller,controller,1,"system:masters"
recorder,recorder,2,"system:masters"
"""
#: The controller's reads and writes of sizes.
AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: RequestResponse
    users: [controller]
    verbs: [get, update]
    resources: [{group: apps, resources: [deployments/scale]}]
  - level: None
"""
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: c, user: c}}}}]
clusters: [{{name: c, cluster: {{server: "{url}", insecure-skip-tls-verify: true}}}}]
users: [{{name: c, user: {{token: controller}}}}]
"""
SERVICE = """
metadata: {name: metrics}
spec: {type: ExternalName, externalName: localhost}
"""
API_SERVICE = """
metadata: {{name: {version}.{group}}}
spec:
  group: {group}
  version: {version}
  service: {{namespace: default, name: metrics, port: {port}}}
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
"""


class Cluster:
    """A client of its API."""

    def __init__(self, session: aiohttp.ClientSession, url: str, audit: Path) -> None:
        self.session, self.url, self.audit = session, url, audit

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """Raises RuntimeError where the API refuses."""
        kind = {"Content-Type": "application/" + ("merge-patch+json" if method == "PATCH" else "json")}
        async with self.session.request(method, self.url + path, json=body, headers=kind) as answer:
            found = await answer.json()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {found.get('message', '')}")
        return found

    async def ready(self, path: str) -> None:
        """Wait until it answers."""
        for _ in range(600):
            with contextlib.suppress(aiohttp.ClientError, RuntimeError, ValueError):
                return await self.call("GET", path)
            await asyncio.sleep(0.1)
        raise RuntimeError(f"{path} never answered")

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What the controller asks for sizes and sets, as it happens."""
        rest = ""
        with self.audit.open() as log:
            while True:
                *lines, rest = (rest + log.read()).split("\n")
                for line in lines:
                    yield json.loads(line)
                await asyncio.sleep(0.01)

    async def aggregate(self, port: int) -> None:
        """Hand the metrics' APIs to a server on a port."""
        await self.call("POST", "/api/v1/namespaces/default/services", yaml.safe_load(SERVICE))
        for one in (EXTERNAL, CUSTOM):
            group, version = one.split("/")
            body = yaml.safe_load(API_SERVICE.format(group=group, version=version, port=port))
            await self.call("POST", "/apis/apiregistration.k8s.io/v1/apiservices", body)
            await self.ready(f"/apis/{one}")


def metrics(value_of: Callable[[str, str], Any]) -> web.Application:
    """The metrics' APIs. `value_of` a namespace and a metric is a number, None where it fails, "nothing" where
    there is no sample, a list for the first pods."""

    async def discovery(request: web.Request) -> web.Response:
        one = {"name": "any", "singularName": "", "namespaced": True, "kind": "Any", "verbs": ["get"]}
        found = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": request.path[6:]}
        return web.json_response({**found, "resources": [one]})

    async def external(request: web.Request) -> web.Response:
        name = request.match_info["metric"]
        value = value_of(request.match_info["space"], name)
        if value is None:
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Failure"}, status=500)
        one = {"metricName": name, "metricLabels": {}, "timestamp": _stamp()}
        items = [] if value == "nothing" else [{**one, "value": quantity(value)}]
        return web.json_response({"kind": "ExternalMetricValueList", "apiVersion": EXTERNAL, "items": items})

    async def of_pods(request: web.Request) -> web.Response:
        space, name = request.match_info["space"], request.match_info["metric"]
        pod = {"kind": "Pod", "namespace": space, "apiVersion": "/v1"}
        one = {"metric": {"name": name}, "timestamp": _stamp()}
        items = [
            {"describedObject": {**pod, "name": f"p{place}"}, **one, "value": quantity(value)}
            for place, value in enumerate(value_of(space, name))
        ]
        return web.json_response({"kind": "MetricValueList", "apiVersion": CUSTOM, "items": items})

    app = web.Application()
    for api in (EXTERNAL, CUSTOM):
        app.router.add_get(f"/apis/{api}", discovery)
    app.router.add_get(f"/apis/{EXTERNAL}/namespaces/{{space}}/{{metric}}", external)
    app.router.add_get(f"/apis/{CUSTOM}/namespaces/{{space}}/pods/{{pod}}/{{metric}}", of_pods)
    return app


def quantity(value: float) -> str:
    """In thousandths, the rest cut off, as KEDA's metrics server gives it."""
    return f"{int(value * 1000 + 1e-6)}m"


def _stamp() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _certify(key: Path, certificate: Path) -> None:
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)


@contextlib.asynccontextmanager
async def cluster(binaries: Path, value_of: Callable[[str, str], Any]) -> AsyncIterator[Cluster]:
    """etcd, the API server, the metrics' APIs and the controller; all ended on leaving."""
    async with contextlib.AsyncExitStack() as running:
        home = Path(running.enter_context(tempfile.TemporaryDirectory()))
        key, certificate, audit = home / "key.pem", home / "certificate.pem", home / "audit.log"
        _certify(key, certificate)
        (home / "tokens.csv").write_text(TOKENS.lstrip())
        (home / "policy.yaml").write_text(AUDIT)
        audit.touch()

        def start(name: str, *flags: str) -> None:
            log = running.enter_context((home / f"{name}.log").open("w"))
            command = [binaries / name, *FLAGS.get(name, "").split(), *flags]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            running.callback(process.wait, 30)
            running.callback(process.terminate)

        store, peer = (f"http://127.0.0.1:{_free_port()}" for _ in range(2))
        start(
            "etcd",
            f"--data-dir={home / 'etcd'}",
            f"--listen-client-urls={store}",
            f"--advertise-client-urls={store}",
            f"--listen-peer-urls={peer}",
        )
        port = _free_port()
        start(
            "kube-apiserver",
            f"--etcd-servers={store}",
            f"--secure-port={port}",
            f"--cert-dir={home}",
            f"--token-auth-file={home / 'tokens.csv'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--audit-policy-file={home / 'policy.yaml'}",
            f"--audit-log-path={audit}",
        )
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate, key)
        runner = web.AppRunner(metrics(value_of))
        await runner.setup()
        running.push_async_callback(runner.cleanup)
        served = _free_port()
        await web.TCPSite(runner, "127.0.0.1", served, ssl_context=tls).start()
        session = await running.enter_async_context(
            aiohttp.ClientSession(
                headers={"Authorization": "Bearer recorder"}, connector=aiohttp.TCPConnector(ssl=False)
            )
        )
        one = Cluster(session, f"https://127.0.0.1:{port}", audit)
        await one.ready("/api/v1/namespaces/default")
        await one.aggregate(served)
        (home / "kubeconfig").write_text(KUBECONFIG.format(url=one.url))
        start(
            "kube-controller-manager",
            f"--kubeconfig={home / 'kubeconfig'}",
            f"--secure-port={_free_port()}",
        )
        yield one
