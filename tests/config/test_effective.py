"""What is printed loads to the same config, whatever a user wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sidecar.config import Config, effective_yaml, load, load_bytes
from sidecar.config.reference import EXAMPLE

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,10}(\.[a-z]{2,5})?", fullmatch=True)
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=12)
FILES = WORDS.map(lambda word: f"/run/{word}")


def durations(low: float, high: float) -> st.SearchStrategy[Any]:
    """As a number, and as people write it."""
    whole = st.integers(max(1, int(low)), int(high))
    return st.one_of(
        st.floats(low, high), whole, whole.map(lambda n: f"{n}s"), whole.map(lambda n: f"{n * 1000}ms")
    )


def shares() -> st.SearchStrategy[Any]:
    return st.one_of(st.floats(0.001, 0.999), st.integers(1, 99).map(lambda n: f"{n}%"), st.just("99.95%"))


def some(**keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A mapping with any of the keys."""
    return st.fixed_dictionaries({}, optional=keys)


URLS = st.builds(
    "{}://{}:{}{}".format,
    st.sampled_from(["http", "https"]),
    HOSTS,
    st.integers(1, 65535),
    st.sampled_from(["", "/v1"]),
)

AUTH = st.one_of(
    some(bearer_token_file=FILES),
    some(basic=st.fixed_dictionaries({"username": st.just("prometheus"), "password_file": FILES})),
)
TLS = some(ca_file=FILES, cert_file=FILES, server_name=HOSTS, insecure_skip_verify=st.booleans())

TARGETS = some(
    runtime=st.sampled_from(["auto", "vllm", "triton"]),
    metrics_path=st.sampled_from(["auto", "/metrics", "/v1/loads?format=prometheus"]),
    api_url=URLS,
    role=st.sampled_from(["both", "prefill", "decode"]),
    per_rank=st.booleans(),
    interval=durations(0.1, 9),
    timeout=durations(0.01, 300),
    staleness=durations(9, 86_400),
    max_page_size=st.one_of(st.integers(1024, 2**30), st.integers(1, 1000).map(lambda n: f"{n}MiB")),
    auth=AUTH,
    tls=TLS,
    capacity=some(
        slots=st.integers(1, 1000), idle_inter_token_latency=durations(1e-6, 60), gpus=st.floats(0, 4096)
    ),
)

SLOS = st.one_of(
    st.fixed_dictionaries(
        {
            "signal": st.sampled_from(["time_to_first_token", "inter_token_latency", "e2e_request_latency"]),
            "threshold": durations(0.001, 100),
            "objective": shares(),
        },
        optional={
            "period": st.sampled_from(["7d", "28d", "30d", 604800]),
            "method": st.sampled_from(["share", "mean"]),
            "models": st.lists(WORDS, min_size=1, max_size=3),
        },
    ),
    st.fixed_dictionaries(
        {"signal": st.just("availability"), "objective": shares()},
        optional={
            "windows": st.lists(
                st.fixed_dictionaries(
                    {
                        "severity": st.sampled_from(["page", "ticket"]),
                        "short": durations(10, 60),
                        "long": durations(61, 7200),
                        "factor": st.floats(0.5, 100),
                    }
                ),
                max_size=2,
            )
        },
    ),
    st.fixed_dictionaries(
        {
            "signal": st.just("goodput"),
            "objective": shares(),
            "thresholds": st.just({"time_to_first_token": "1s", "inter_token_latency": 0.05}),
        }
    ),
)

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**60), 2**60),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
MAPPINGS = st.dictionaries(
    st.text(st.characters(codec="utf-8"), max_size=8),
    st.recursive(
        LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3)
    ),
    max_size=4,
)


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(NAMES, max_size=3, unique=True))
    targets = [{**draw(TARGETS), "name": name, "url": f"http://h{n}:8000"} for n, name in enumerate(names)]
    slos = [{**draw(SLOS), "name": name} for name in draw(st.lists(NAMES, max_size=3, unique=True))]
    rest = draw(
        some(
            listen=st.sampled_from(["0.0.0.0:9845", "[::1]:0", ":80", "localhost:1"]),
            interval=durations(0.1, 9),
            staleness=st.just("auto"),
            wedged_after=durations(1, 86_400),
            gpu=some(
                source=st.sampled_from(["auto", "nvml", "none"]),
                devices=st.sampled_from(["auto", "all", ["GPU-1", "MIG-2/3/4"], []]),
                optional=st.just(["gpu_fabric_state"]),
                url=URLS,
            ),
            autoscaling=some(target_utilisation=shares(), drain_target=durations(1, 3600)),
            cost=some(gpu_hour_price=st.floats(0, 1e6), currency=st.just("EUR")),
            probe=some(enabled=st.booleans(), max_tokens=st.integers(1, 4096)),
            outputs=some(otlp=some(endpoint=URLS, headers_file=FILES, auth=AUTH, tls=TLS)),
            mappings=st.lists(MAPPINGS, max_size=2),
            state_file=FILES,
        )
    )
    return {**rest, "targets": targets, "slos": slos}


class Quoting(yaml.SafeDumper):
    """Every text in quotes: PyYAML itself leaves `0E0` bare, which is a number in YAML 1.2."""


Quoting.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"')
)


@settings(
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(configs())
def test_effective_yaml_loads_to_the_same_config(values: dict[str, Any]) -> None:
    config = load_bytes(yaml.dump(values, Dumper=Quoting, allow_unicode=True).encode(), "written")
    printed = effective_yaml(config)
    again = load_bytes(printed.encode(), "printed")
    assert again == config
    assert effective_yaml(again) == printed
    assert set(yaml.safe_load(printed)) == set(Config.model_fields)


def test_values_are_written_as_people_write_them() -> None:
    printed = effective_yaml(load_bytes(EXAMPLE.encode(), "example"))
    for line in (
        "listen: 0.0.0.0:9845",
        "- name: llama",
        "  interval: 2s",
        "  max_page_size: 32MiB",
        "  threshold: 50ms",
        "  objective: 99.9%",
        "  period: 7d",
        "  target_utilisation: 90%",
        "    bearer_token_file: /run/secrets/token",
        "    idle_inter_token_latency: auto",
    ):
        assert line in printed.splitlines(), line


def test_the_defaults_are_whole() -> None:
    assert load_bytes(effective_yaml(load()).encode(), "printed") == load()


def test_relative_files_are_seen_from_the_config(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("targets: [{tls: {ca_file: ca.pem, cert_file: /etc/c.pem, key_file: keys/k.pem}}]\n")
    config = load(path)
    tls = config.targets[0].tls
    assert tls.ca_file == tmp_path / "ca.pem"
    assert tls.cert_file == Path("/etc/c.pem")
    assert tls.key_file is not None
    assert tls.key_file.path == tmp_path / "keys/k.pem"
    assert load_bytes(effective_yaml(config).encode(), "elsewhere") == config
