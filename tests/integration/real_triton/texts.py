"""Models that take text and stream it, as the backends for language models do; each keeps its own time.

`chat`      asked as the vLLM backend is: `stream` is an input, the rest are parameters of the request
`llmapi`    asked as TensorRT-LLM's LLM API model is: `streaming`, `sampling_param_max_tokens`, …
`ensemble`  asked as TensorRT-LLM's ensemble is: typed inputs, `max_tokens` a required one; around `llmapi`
`classify`  takes text and answers once
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: Seconds before the first token and between two.
PREFILL, GAP = 0.03, 0.01

#: Loaded at the start; `ensemble` is there to be loaded by a test.
LOADED = ("chat", "llmapi", "classify")

# As the real ones do, it says everything at once when it isn't asked to stream, and a request that is cancelled
# ends. A prompt with «FAIL 3» fails instead of its fourth token.
_SPEAK = f"""
import json, re, threading, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.inputs = [one["name"] for one in config["input"]]
        self.log = open(args["model_repository"] + "/spoken.jsonl", "a", buffering=1)
        self.lock = threading.Lock()
    def asked(self, request):
        tensors = ((name, pb_utils.get_input_tensor_by_name(request, name)) for name in self.inputs)
        given = {{name: tensor.as_numpy().flat[0] for name, tensor in tensors if tensor is not None}}
        given = {{name: one.decode() if isinstance(one, bytes) else one.item() for name, one in given.items()}}
        return json.loads(request.parameters()) | given
    def answer(self, request, began):
        sender, sent, ended = request.get_response_sender(), [], "length"
        def say(text):
            sent.append(time.monotonic())
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([text], object))]))
        asked = self.asked(request)
        tokens = asked.get("max_tokens", asked.get("sampling_param_max_tokens", 32))
        fails = re.search("FAIL ([0-9]+)", asked["text_input"])
        streams = asked.get("stream" if "stream" in self.inputs else "streaming", False)
        time.sleep({PREFILL})
        for number in range(tokens):
            if number:
                time.sleep({GAP})
            if sender.is_cancelled():
                ended = "cancelled"
                break
            if fails and number == int(fails[1]):
                ended = "failed"
                break
            if streams:
                say(f" {{number}}\\n")
        if not streams:
            say(" 0" * tokens)
        final = dict(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if ended == "failed":
            error = pb_utils.TritonError("the engine is dead")
            sender.send(pb_utils.InferenceResponse(error=error), **final)
        else:
            sender.send(**final)
        with self.lock:
            self.log.write(json.dumps(dict(asked=asked, began=began, sent=sent, ended=ended)) + "\\n")
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request, time.monotonic()), daemon=True).start()
"""

_ONCE = """
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("text_output", np.array([b"sea"], object))])
            for _ in requests
        ]
"""

_TEXT, _SAID = "text_input", "text_output"
_TOKENS, _TOP, _STREAM = "max_tokens", "top_k", "stream"
_CHAT = {_STREAM: "TYPE_BOOL", "sampling_parameters": "TYPE_STRING", "exclude_input_in_output": "TYPE_BOOL"}
_LLMAPI = {
    "streaming": "TYPE_BOOL",
    "sampling_param_max_tokens": "TYPE_INT32",
    "sampling_param_top_k": "TYPE_INT32",
}
_ENSEMBLE = {_STREAM: "TYPE_BOOL", _TOP: "TYPE_INT32"}


@dataclass(frozen=True, slots=True)
class Spoken:
    """One request as the model saw it: what was asked of it, moments on the machine's monotonic clock."""

    asked: dict[str, Any]
    began: float
    sent: list[float]
    ended: str


def spoken(folder: Path, model: str) -> list[Spoken]:
    """What a model has answered so far; `folder` is the model repository."""
    lines = (folder / model / "spoken.jsonl").read_text().splitlines(keepends=True)
    return [Spoken(**json.loads(line)) for line in lines if line.endswith("\n")]


def write(folder: Path) -> None:
    """The models, into the model repository."""
    decoupled = "model_transaction_policy { decoupled: true }"
    _model(folder, "chat", _SPEAK, _CHAT, decoupled)
    _model(folder, "llmapi", _SPEAK, _LLMAPI, decoupled)
    _model(folder, "classify", _ONCE, {})
    inputs = dict(zip((_STREAM, _TOKENS, _TOP), _LLMAPI, strict=True))
    maps = "".join(
        f'input_map {{ key: "{own}" value: "{name}" }} ' for name, own in ({_TEXT: _TEXT} | inputs).items()
    )
    step = f'model_name: "llmapi" model_version: -1 {maps}output_map {{ key: "{_SAID}" value: "{_SAID}" }}'
    _config(
        folder / "ensemble",
        {_TEXT: "TYPE_STRING", _TOKENS: "TYPE_INT32"},
        _ENSEMBLE,
        f'platform: "ensemble"\nensemble_scheduling {{ step [ {{ {step} }} ] }}',
    )


def _model(folder: Path, name: str, source: str, optional: dict[str, str], more: str = "") -> None:
    kind = 'backend: "python"\ninstance_group [ { kind: KIND_CPU count: 1 } ]'
    _config(folder / name, {_TEXT: "TYPE_STRING"}, optional, f"{kind}\n{more}")
    (folder / name / "1" / "model.py").write_text(source)


def _config(folder: Path, required: dict[str, str], optional: dict[str, str], more: str) -> None:
    inputs = ", ".join(
        f'{{ name: "{name}" data_type: {kind} dims: [ 1 ] optional: {str(name in optional).lower()} }}'
        for name, kind in (required | optional).items()
    )
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(
        f"{more}\nmax_batch_size: 0\ninput [ {inputs} ]\n"
        f'output [ {{ name: "{_SAID}" data_type: TYPE_STRING dims: [ -1 ] }} ]\n'
    )
