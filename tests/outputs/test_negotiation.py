from __future__ import annotations

import pytest

from sidecar.outputs.prometheus.negotiation import wants_gzip, wants_openmetrics

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0;q=0.75,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=0.0.4;q=0.25,*/*;q=0.1"
)
PROMETHEUS_3_TEXT_FIRST = (
    "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "*/*;q=0.1"
)
PROTOBUF_FIRST = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.8,"
    "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,*/*;q=0.8", False),
        (PROMETHEUS_2, True),
        (PROMETHEUS_3_TEXT_FIRST, False),
        (PROTOBUF_FIRST, True),
        ("application/openmetrics-text", True),
        ("Application/OpenMetrics-Text; Version=1.0.0", True),
        ('application/openmetrics-text; version="1.0.0"', True),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;q=0, */*", False),
        ("text/plain,application/openmetrics-text", False),
        ("application/openmetrics-text,text/plain", True),
        ("application/openmetrics-text;q=0.5,*/*;q=0.5", True),
        ("application/openmetrics-text;q=nonsense,text/plain;q=0.1", False),
        ("application/openmetrics-text;q=nan,text/plain;q=0.1", False),
        ("application/json", False),
        (";;,,=;q", False),
    ],
)
def test_format(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics


@pytest.mark.parametrize(
    ("accept_encoding", "gzip"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP;q=0.5", True),
        ("br, gzip;q=0.8", True),
        ("gzip;q=0", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=0, *", False),
        ("identity", False),
        ("identity;q=1, gzip;q=0.5", False),
        ("identity;q=0.5, gzip;q=1", True),
        ("deflate, br", False),
    ],
)
def test_encoding(accept_encoding: str, gzip: bool) -> None:
    assert wants_gzip(accept_encoding) is gzip
