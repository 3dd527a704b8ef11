"""What outlives the process: service times, idle gaps and observed limits of a target's models, as bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sidecar.signals.model import ModelSignals
from sidecar.signals.settings import HORIZON, Settings
from sidecar.snapshot import Snapshot

STATE_KEY = "signals/"
_FORMAT = 1


def freeze(last: Snapshot, models: Mapping[str, ModelSignals]) -> dict[str, bytes]:
    """The state of a target after its last snapshot. Times in it are Unix times."""
    offset = last.time - last.mono
    body = {
        "format": _FORMAT,
        "time": last.time,
        "models": {name: model.saved(offset) for name, model in models.items()},
    }
    return {STATE_KEY + last.target: json.dumps(body).encode()}


class Remembered:
    """What an earlier process knew of a target's models, seen from a first snapshot."""

    def __init__(self, state: Mapping[str, bytes], first: Snapshot, problems: list[str]) -> None:
        """What can't be used is added to `problems`."""
        self._problems = problems
        self._first = first
        self._models: dict[str, Any] = {}
        self._known = self._another = False
        body = state.get(STATE_KEY + first.target)
        if body is not None:
            try:
                self._models, saved_at = _read(body)
                self._known = 0 <= first.time - saved_at < HORIZON
                self._another = first.life.get("target_start_timestamp_seconds") > saved_at
            except (ValueError, KeyError, TypeError) as error:
                self._refuse("", error)

    def model(self, name: str, settings: Settings) -> ModelSignals:
        """A model's signals, going on where they were left."""
        first = self._first
        saved = self._models.pop(name, None)
        if saved is not None:
            model = ModelSignals(name, settings, known=self._known)
            try:
                model.restore(saved, first.time - first.mono, first.mono)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self._refuse(f", model {name}", error)
            else:
                if self._another:
                    model.decision.restarted()
                return model
        return ModelSignals(name, settings)

    def _refuse(self, of: str, error: Exception) -> None:
        self._problems.append(
            f"derived signals of target {self._first.target}{of}: saved state is not used ({error!r})"
        )


def _read(body: bytes) -> tuple[dict[str, Any], float]:
    """The models' states, and the Unix time that they are of."""
    state = json.loads(body)
    if state["format"] != _FORMAT:
        raise ValueError(f"format {state['format']}, this version reads {_FORMAT}")
    return dict(state["models"]), float(state["time"])
