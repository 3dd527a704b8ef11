"""The messages that are described by hand are those of the interface file."""

from __future__ import annotations

from types import ModuleType

import pytest
from google.protobuf import descriptor_pb2

from sidecar.fleet import externalscaler as ours

NAMES = (
    "ScaledObjectRef",
    "IsActiveResponse",
    "MetricSpec",
    "GetMetricSpecResponse",
    "GetMetricsRequest",
    "MetricValue",
    "GetMetricsResponse",
)


@pytest.mark.parametrize("name", NAMES)
def test_each_message_is_described_as_in_the_file(name: str, keda: tuple[ModuleType, ModuleType]) -> None:
    real, mine = descriptor_pb2.DescriptorProto(), descriptor_pb2.DescriptorProto()
    getattr(keda[0], name).DESCRIPTOR.CopyToProto(real)
    getattr(ours, name).DESCRIPTOR.CopyToProto(mine)
    for message in (real, mine):
        for field in message.field:
            field.ClearField("json_name")
        for nested in message.nested_type:
            for field in nested.field:
                field.ClearField("json_name")
    assert mine == real


def test_no_message_and_no_method_is_missing(keda: tuple[ModuleType, ModuleType]) -> None:
    file = keda[0].DESCRIPTOR
    assert set(file.message_types_by_name) == set(NAMES)
    assert file.services_by_name["ExternalScaler"].full_name == ours.SERVICE
    methods = {one.name for one in file.services_by_name["ExternalScaler"].methods}
    assert methods == {"IsActive", "StreamIsActive", "GetMetricSpec", "GetMetrics"}
