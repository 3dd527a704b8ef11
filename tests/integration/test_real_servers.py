"""The servers that other tests build on: they answer, and they are gone afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.integration.real_servers import alertmanager, prometheus


def test_prometheus_answers_and_ends(tmp_path: Path) -> None:
    with prometheus(tmp_path) as server:
        assert server.value("vector(2) * 21") == 42
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_alertmanager_answers_and_ends(tmp_path: Path) -> None:
    config = {"route": {"receiver": "none"}, "receivers": [{"name": "none"}]}
    with alertmanager(tmp_path, config) as server:
        assert server.get_json("/api/v2/alerts") == []
    with pytest.raises(ProcessLookupError):
        os.kill(server.pid, 0)


def test_a_bad_config_is_told(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="no_such_key"), prometheus(tmp_path, {"no_such_key": 1}):
        pass
