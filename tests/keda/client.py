"""A client that is generated from KEDA's own interface file, at test time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from grpc_tools import protoc

PROTO = Path(__file__).parent / "externalscaler.proto"


def generated(folder: Path) -> tuple[ModuleType, ModuleType]:
    """The modules of messages and of stubs."""
    arguments = ["protoc", f"-I{PROTO.parent}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main([*arguments, str(PROTO)]) == 0
    sys.path.insert(0, str(folder))
    try:
        return (
            importlib.import_module("externalscaler_pb2"),
            importlib.import_module("externalscaler_pb2_grpc"),
        )
    finally:
        sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def keda(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ModuleType, ModuleType]]:
    yield generated(tmp_path_factory.mktemp("keda"))
