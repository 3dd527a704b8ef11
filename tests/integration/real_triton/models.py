"""A handful of small models that show what Triton's metrics mean."""

from __future__ import annotations

from pathlib import Path

_IO = """
input [ { name: "X" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""

_ECHO = """
import time
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        time.sleep({delay})
        read = pb_utils.get_input_tensor_by_name
        values = [read(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)]) for value in values]
"""

_FLAKY = """
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            x = pb_utils.get_input_tensor_by_name(request, "X").as_numpy()
            if x.flat[0] == -999:
                raise RuntimeError("boom")
            if x.flat[0] < 0:
                answers.append(pb_utils.InferenceResponse(error=pb_utils.TritonError("negative")))
            else:
                answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]))
        return answers
"""

_STREAM = """
import threading, time
import numpy as np
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def answer(self, request):
        sender = request.get_response_sender()
        count = int(pb_utils.get_input_tensor_by_name(request, "X").as_numpy().flat[0])
        for number in range(count):
            time.sleep(0.1)
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.float32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.answer, args=(request,), daemon=True).start()
        return None
"""

_BROKEN = """
class TritonPythonModel:
    def initialize(self, args):
        raise RuntimeError("weights are missing")
    def execute(self, requests):
        return []
"""

#: Loaded at the start; `broken` is there to be loaded by a test.
LOADED = ("fast", "slow", "flaky", "stream", "cached", "multi", "ens")


def write(folder: Path) -> None:
    """The model repository."""
    _model(folder, "fast", _ECHO.format(delay=0.002))
    _model(
        folder,
        "slow",
        _ECHO.format(delay=0.4),
        batch=2,
        more="""
dynamic_batching {
  default_queue_policy { timeout_action: REJECT default_timeout_microseconds: 1200000 max_queue_size: 12 }
}""",
    )
    _model(folder, "flaky", _FLAKY)
    _model(folder, "stream", _STREAM, batch=0, more="model_transaction_policy { decoupled: true }")
    _model(folder, "cached", _ECHO.format(delay=0.05), more="response_cache { enable: true }")
    _model(
        folder,
        "multi",
        _ECHO.format(delay=0.001),
        _ECHO.format(delay=0.001),
        more="version_policy: { all { } }",
    )
    _model(folder, "broken", _BROKEN)
    steps = "".join(
        f'{{ model_name: "{name}" model_version: -1 input_map {{ key: "X" value: "{source}" }} '
        f'output_map {{ key: "Y" value: "{sink}" }} }}{end}\n'
        for name, source, sink, end in (("fast", "X", "mid", ","), ("flaky", "mid", "Y", ""))
    )
    (folder / "ens" / "3").mkdir(parents=True)
    (folder / "ens" / "config.pbtxt").write_text(
        f'platform: "ensemble"\nmax_batch_size: 4\n{_IO}\nensemble_scheduling {{ step [ {steps} ] }}\n'
    )


def _model(folder: Path, name: str, *versions: str, batch: int = 4, more: str = "") -> None:
    for number, source in enumerate(versions, 1):
        (folder / name / str(number)).mkdir(parents=True)
        (folder / name / str(number) / "model.py").write_text(source)
    (folder / name / "config.pbtxt").write_text(
        f'backend: "python"\nmax_batch_size: {batch}\n{_IO}\n'
        f"instance_group [ {{ kind: KIND_CPU count: 1 }} ]\n{more}\n"
    )
