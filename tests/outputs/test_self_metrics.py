from __future__ import annotations

import asyncio
import time

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from sidecar import __version__
from sidecar.outputs.self_metrics import SelfMetrics
from sidecar.schema.itself import ITSELF


def families(page: str) -> set[str]:
    return {line.split()[2] for line in page.splitlines() if line.startswith("# TYPE")}


def everything() -> SelfMetrics:
    itself = SelfMetrics()
    itself.config_loaded(1_700_000_000)
    itself.series_dropped("local", "duplicate")
    itself.loop_lagged(0.01)
    itself.output_failed("http")
    itself.keeps_state()
    itself.state_saved(1_700_000_000)
    return itself


def test_what_it_emits_is_what_the_schema_declares() -> None:
    page = everything().render().decode()
    own = {name for name in families(page) if not name.startswith("process_")}
    assert own == {signal.family for signal in ITSELF}
    declared = {signal.family: set(signal.labels) for signal in ITSELF}
    for family in parse_text(page):
        for sample in family.samples:
            assert set(sample.labels) == declared.get(sample.name, set())


def test_nothing_is_there_before_it_is_known() -> None:
    page = SelfMetrics().render().decode()
    own = {name for name in families(page) if not name.startswith("process_")}
    assert own == {"inference_sidecar_build_info"}
    assert f'version="{__version__}"' in page
    assert "process_resident_memory_bytes" in page


@pytest.mark.parametrize("openmetrics", [False, True])
def test_no_created_series_no_empty_family_no_end_of_file(openmetrics: bool) -> None:
    page = everything().render(openmetrics=openmetrics).decode()
    assert "_created" not in page
    assert "# EOF" not in page
    assert "NaN" not in page
    parsed = list(parse_openmetrics(page + "# EOF\n") if openmetrics else parse_text(page))
    assert all(family.samples for family in parsed)


def value(itself: SelfMetrics, name: str, **labels: str) -> float | None:
    return itself.registry.get_sample_value(name, labels)


def test_a_refused_config_says_so_and_keeps_the_time_of_the_one_in_force() -> None:
    itself = SelfMetrics()
    itself.config_loaded(1_700_000_000)
    assert value(itself, "inference_sidecar_config_reload_success") == 1
    itself.config_refused()
    assert value(itself, "inference_sidecar_config_reload_success") == 0
    assert value(itself, "inference_sidecar_config_loaded_timestamp_seconds") == 1_700_000_000
    itself.config_loaded(1_700_000_100)
    assert value(itself, "inference_sidecar_config_reload_success") == 1


def test_a_state_that_can_not_be_written_is_counted_and_the_last_good_one_stays() -> None:
    itself = SelfMetrics()
    itself.keeps_state()
    assert value(itself, "inference_sidecar_state_write_errors_total") == 0
    assert b"state_saved" not in itself.render(), "never written yet"
    itself.state_saved(1_700_000_000)
    itself.state_saved(None)
    itself.state_saved(None)
    assert value(itself, "inference_sidecar_state_write_errors_total") == 2
    assert value(itself, "inference_sidecar_state_saved_timestamp_seconds") == 1_700_000_000


def test_counters_count_by_label() -> None:
    itself = everything()
    itself.series_dropped("local", "duplicate")
    itself.series_dropped("other", "label")
    name = "inference_sidecar_series_dropped_total"
    assert value(itself, name, target="local", reason="duplicate") == 2
    assert value(itself, name, target="other", reason="label") == 1
    assert value(itself, "inference_sidecar_output_errors_total", output="http") == 1


def test_two_of_them_live_side_by_side() -> None:
    registry = CollectorRegistry()
    assert SelfMetrics(registry).registry is registry
    SelfMetrics()


def test_a_blocked_loop_shows_as_lag() -> None:
    itself = SelfMetrics()

    async def scenario() -> None:
        watch = asyncio.create_task(itself.watch_loop())
        await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - blocking the loop is what is being measured
        await asyncio.sleep(0.05)
        watch.cancel()

    asyncio.run(scenario())
    lag = value(itself, "inference_sidecar_loop_lag_seconds")
    assert lag is not None and lag >= 0.3
