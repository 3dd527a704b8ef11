"""What data can't say of vLLM: cancellations, errors, LoRA activity, and its cheap endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.runtimes.adapter import Adapter, Answer, Endpoint, Model
from sidecar.runtimes.binding import Computed, total
from sidecar.runtimes.build import Build
from sidecar.schema import Method, Scope, Status
from sidecar.snapshot import Provenance

MAX_ADAPTERS = 64
_SUCCESS = "vllm:request_success_total"


class Vllm(Adapter):
    folder = "vllm"
    endpoints = (
        Endpoint("metrics", "/metrics", page=True),
        Endpoint("health", "/health", api=True, every=5.0),
        Endpoint("version", "/version", api=True, every=60.0),
        Endpoint("models", "/v1/models", api=True, every=60.0),
    )
    progress = (
        "vllm:generation_tokens_total",
        "vllm:prompt_tokens_total",
        _SUCCESS,
        "vllm:iteration_tokens_total_count",
    )

    def learn(self, name: str, answer: Answer) -> None:
        if name == "health":
            # 404 says that something in front of it hides the endpoint, and nothing of the engine.
            hidden = answer.status == 404
            self.known(live=None if hidden else answer.status > 0, ready=None if hidden else answer.ok)
        elif name == "version" and answer.ok:
            body = answer.json()
            version = body.get("version") if isinstance(body, dict) else None
            if isinstance(version, str):
                self.known(version=version, engine="vllm", engine_version=version)
        elif name == "models" and answer.ok:
            self._learn_models(answer)

    def _learn_models(self, answer: Answer) -> None:
        body = answer.json()
        rows = body.get("data") if isinstance(body, dict) else None
        if not isinstance(rows, list):
            return
        models = [
            Model(
                name=str(row.get("id", "")),
                root=str(row.get("root") or ""),
                max_context_tokens=str(row.get("max_model_len") or ""),
            )
            for row in rows
            if isinstance(row, dict) and not row.get("parent")
        ]
        adapters = [str(row.get("id", "")) for row in rows if isinstance(row, dict) and row.get("parent")]
        self.known(models=tuple(models[:MAX_ADAPTERS]), adapters=tuple(adapters[:MAX_ADAPTERS]))

    def extend(self, build: Build) -> None:
        for model in build.models:
            self._cancelled(build, model)
            self._errors(build, model)
        for outcome in ("cancelled", "error", "timeout"):
            if build.says(f"requests_total:{outcome}") is None:
                build.note(build.missing(f"requests_total:{outcome}"))
        if build.by_name.get("vllm:spec_decode_num_draft_tokens_total"):
            build.remark(
                "inter_token_latency_seconds", "speculative decoding: one gap may stand for several tokens"
            )
        self._adapters(build)

    def _cancelled(self, build: Build, model: str) -> None:
        """A client that goes away leaves a TTFT observation and no finish (vllm#31503).

        cancelled ≥ first tokens − finished − running − waiting: what runs, and what was preempted and waits
        again, may have had its first token. A lower bound that is exact when the engine is idle. (Preemptions
        can't tell how many of those that wait had one: they are counted when the request runs again.) V0
        counted TTFT twice with chunked prefill, so only pages with an `engine` label (0.8.5 and newer) are
        judged.
        """
        first = build.slots("vllm:time_to_first_token_seconds_count", model_name=model)
        finished = build.slots(_SUCCESS, model_name=model)
        running = build.slots("vllm:num_requests_running", model_name=model)
        waiting = build.slots("vllm:num_requests_waiting", model_name=model)
        aborted = build.slots(_SUCCESS, model_name=model, finished_reason="abort")
        in_flight_is_told = running or "vllm:num_requests_running" in build.shape.families
        is_v1 = any(build.shape.samples[slot].label("engine") for slot in first)
        if not (first and finished and in_flight_is_told and is_v1):
            return

        def cancelled(out: list[float], raw: Sequence[float]) -> float:
            in_flight = total(raw, running) + total(raw, waiting)
            gone = total(raw, first) - total(raw, finished) - in_flight
            return self.risen((model, "cancelled"), gone) + total(raw, aborted)

        source = "vllm:time_to_first_token_seconds_count - finished - in flight"
        self._estimate(build, model, "cancelled", cancelled, source)

    def _errors(self, build: Build, model: str) -> None:
        """Failed requests: finished_reason=error, or answers 5xx less the rejections among them.

        One failure may be in both, so the larger counts. A stream that fails after its headers is an HTTP
        200: this too is a lower bound.
        """
        failed = build.slots(_SUCCESS, model_name=model, finished_reason="error")
        rejected = build.slots("vllm:admission_rejections_total", model_name=model)
        has_http = "http_requests_total" in build.shape.families and bool(build.only_model)
        answers = [
            slot
            for slot in build.slots("http_requests_total", status="5xx")
            if has_http and build.shape.samples[slot].label("handler").startswith("/v1/")
        ]
        if not failed and not has_http:
            return

        def errors(out: list[float], raw: Sequence[float]) -> float:
            told = self.risen((model, "error"), total(raw, answers) - total(raw, rejected))
            return max(told, total(raw, failed))

        source = "vllm:request_success_total{error} or http_requests_total{5xx} - rejections"
        self._estimate(build, model, "error", errors, source)

    @staticmethod
    def _estimate(build: Build, model: str, outcome: str, compute: Computed, source: str) -> None:
        build.computed("requests_total", build.labels(model, {"outcome": outcome}), compute)
        build.note(
            Provenance(
                f"requests_total:{outcome}",
                Status.OK,
                Method.ESTIMATED,
                source,
                Scope.FRONTEND,
                "a lower bound",
            )
        )

    def _adapters(self, build: Build) -> None:
        """LoRA activity: the series with the newest time is the present state; old ones stay for ever.

        A name may hold a comma, so a list is split only by names that /v1/models knows; in multi-process mode
        the times are summed over processes, which keeps the newest one the highest.
        """
        found = build.by_name.get("vllm:lora_requests_info", [])
        if not found:
            return
        lists = {
            "adapter_running": {slot: sample.label("running_lora_adapters") for slot, sample in found},
            "adapter_waiting": {slot: sample.label("waiting_lora_adapters") for slot, sample in found},
        }
        names = self._adapter_names([text for texts in lists.values() for text in texts.values()])
        for signal, texts in lists.items():
            for name in names:
                members = {slot: float(name in self._split(text, names)) for slot, text in texts.items()}
                build.computed(signal, build.labels("", {"adapter": name}), _newest(members))
            build.note(Provenance(signal, Status.OK, Method.NATIVE, "vllm:lora_requests_info", Scope.ENGINE))

    def _adapter_names(self, texts: list[str]) -> list[str]:
        seen = {name for text in texts for name in self._split(text, self.facts.adapters)}
        return sorted(seen)[:MAX_ADAPTERS]

    @staticmethod
    def _split(text: str, known: Sequence[str]) -> set[str]:
        """Names in a comma-joined list; known names that hold commas are taken out whole first."""
        found = set()
        for name in sorted(known, key=len, reverse=True):
            if "," in name and name in text:
                found.add(name)
                text = text.replace(name, "")
        return found | {part.strip() for part in text.split(",") if part.strip()}


def _newest(members: dict[int, float]) -> Computed:
    """1 or 0 as the series with the highest value says."""

    def state(out: list[float], raw: Sequence[float]) -> float:
        return members[max(members, key=lambda slot: raw[slot])]

    return state
