"""The messages and methods of KEDA's external scaler, by its interface (externalscaler.proto of KEDA 2.20).

Described here rather than generated: generated code is bound to one major version of protobuf. A test compiles
the interface file itself and holds this to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "externalscaler.ExternalScaler"

_Field = descriptor_pb2.FieldDescriptorProto
_STRING, _BOOL, _INT64, _DOUBLE = _Field.TYPE_STRING, _Field.TYPE_BOOL, _Field.TYPE_INT64, _Field.TYPE_DOUBLE

#: Message → its fields in order of their numbers: a scalar type, a message's name, or a list of one.
_MESSAGES: Mapping[str, Mapping[str, Any]] = {
    "ScaledObjectRef": {"name": _STRING, "namespace": _STRING, "scalerMetadata": dict},
    "IsActiveResponse": {"result": _BOOL},
    "MetricSpec": {"metricName": _STRING, "targetSize": _INT64, "targetSizeFloat": _DOUBLE},
    "GetMetricSpecResponse": {"metricSpecs": ["MetricSpec"]},
    "GetMetricsRequest": {"scaledObjectRef": "ScaledObjectRef", "metricName": _STRING},
    "MetricValue": {"metricName": _STRING, "metricValue": _INT64, "metricValueFloat": _DOUBLE},
    "GetMetricsResponse": {"metricValues": ["MetricValue"]},
}


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="sidecar/externalscaler.proto", package="externalscaler", syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            _add(message, field, number, kind)
    return file


def _add(message: descriptor_pb2.DescriptorProto, field: str, number: int, kind: Any) -> None:
    label = _Field.LABEL_REPEATED if isinstance(kind, list) or kind is dict else _Field.LABEL_OPTIONAL
    added = message.field.add(name=field, number=number, label=label)
    if kind is dict:
        entry = field[0].upper() + field[1:] + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        for place, key in enumerate(("key", "value"), 1):
            nested.field.add(name=key, number=place, type=_STRING, label=_Field.LABEL_OPTIONAL)
        kind = f"{message.name}.{entry}"
    elif isinstance(kind, list):
        (kind,) = kind
    if isinstance(kind, str):
        added.type, added.type_name = _Field.TYPE_MESSAGE, f".externalscaler.{kind}"
    else:
        added.type = kind


_POOL = descriptor_pool.DescriptorPool()
_POOL.Add(_describe())


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"externalscaler.{name}"))


ScaledObjectRef = _message("ScaledObjectRef")
IsActiveResponse = _message("IsActiveResponse")
MetricSpec = _message("MetricSpec")
GetMetricSpecResponse = _message("GetMetricSpecResponse")
GetMetricsRequest = _message("GetMetricsRequest")
MetricValue = _message("MetricValue")
GetMetricsResponse = _message("GetMetricsResponse")
