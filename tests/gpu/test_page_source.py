"""A page as a source: failing, frozen, stale, another node's."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sidecar.gpu.allocation import Rule
from sidecar.gpu.owners import Owners
from sidecar.gpu.pages.source import PageSource

CASES = Path(__file__).parent / "cases"
GPU = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
POWER = f'gpu_power_watts{{gpu_uuid="{GPU}"}}'


class Exporter:
    """Serves `pages` one after the other, the last one again and again; an exception is raised."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.now = 0.0

    async def fetch(self, url, seconds):
        page = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        if isinstance(page, Exception):
            raise page
        return page

    def source(self, rule=None, **options):
        owners = Owners(rule or Rule(targets=("local",)), proc=Path("/nonexistent"))
        return PageSource(
            self.fetch, "http://exporter", owners, mono=lambda: self.now, wall=lambda: 5.0, **options
        )

    def read(self, source, *waits):
        async def run():
            readings = []
            for wait in waits:
                self.now += wait
                readings.append(await source.read(1.0))
            return readings

        return asyncio.run(run())


def case(name):
    return (CASES / f"{name}.prom").read_bytes()


def test_a_frozen_page_is_stale_after_three_scrapes_and_90_seconds(series):
    exporter = Exporter(case("p16_frozen_1"), case("p17_frozen_2"))
    readings = exporter.read(exporter.source(), 0, 30, 30, 29, 2)
    assert [reading.ok for reading in readings] == [True, True, True, True, False]
    found = series(readings[-1].block)
    assert POWER not in found
    assert found['gpu_collect_success{source="dcgm"}'] == 0
    assert found['gpu_collect_errors_total{reason="stale",source="dcgm"}'] == 1


def test_a_frozen_page_that_moves_again_is_believed_again():
    still = case("p16_frozen_1")
    exporter = Exporter(*[still] * 5, still.replace(b"319159391000", b"319159392000"))
    readings = exporter.read(exporter.source(), *[45] * 6)
    assert [reading.ok for reading in readings] == [True, True, True, False, False, True]


def test_scrapes_faster_than_the_exporter_asks_are_no_freeze():
    exporter = Exporter(case("p16_frozen_1"))
    assert all(reading.ok for reading in exporter.read(exporter.source(), *[5] * 15))


def test_an_idle_board_without_power_may_stand_still():
    exporter = Exporter(case("p16_frozen_1").replace(b"612.25", b"0"))
    assert all(reading.ok for reading in exporter.read(exporter.source(), *[60] * 6))


def test_a_failed_fetch_keeps_the_last_reading_for_three_intervals(series):
    exporter = Exporter(case("p16_frozen_1"), OSError("refused"))
    good, failed, old = exporter.read(exporter.source(interval=10.0), 0, 20, 20)
    assert good.ok and series(good.block)['gpu_collect_timestamp_seconds{source="dcgm"}'] == 5.0
    assert not failed.ok and POWER in series(failed.block)
    assert all(key.startswith("gpu_collect_") for key in series(old.block))
    assert old.notes[0].reason == "fetch" and "refused" in old.notes[0].detail


def test_only_the_own_pods_rows(series):
    exporter = Exporter(case("p06_other_pods"))
    rule = Rule(targets=("local",), pod="llm-b", namespace="ml")
    found = series(exporter.read(exporter.source(rule), 0)[0].block)
    second = "GPU-aaaaaaaa-0000-0000-0000-000000000002"
    assert [key for key in found if key.startswith("gpu_memory_used")] == [
        f'gpu_memory_used_bytes{{gpu_uuid="{second}"}}'
    ]
    allocation = f'container="e",gpu_uuid="{second}",namespace="ml",pod="llm-b",target="local"'
    assert found[f"gpu_allocation_info{{{allocation}}}"] == 1
    assert found["gpu_devices"] == 2


def test_another_nodes_page_names_this_pod_nowhere(series):
    exporter = Exporter(case("p06_other_pods"))
    rule = Rule(targets=("local",), pod="llm-z", namespace="ml")
    reading = exporter.read(exporter.source(rule), 0)[0]
    assert not reading.ok and "another node" in reading.notes[0].detail
    assert not [key for key in series(reading.block) if "memory" in key]


def test_a_page_without_pods_shows_its_gpus_and_guesses_no_owner(series):
    page = case("p16_frozen_1") + case("p16_frozen_1").replace(b"000000000001", b"000000000002")
    exporter = Exporter(page)
    rule = Rule(targets=("local",), pod="llm-a", namespace="ml", visible="all")
    reading = exporter.read(exporter.source(rule), 0)[0]
    assert POWER in series(reading.block)
    assert not [key for key in series(reading.block) if key.startswith("gpu_allocation")]
    assert [note for note in reading.notes if note.what == "gpu_allocation_info"]


def test_what_is_no_gpu_page(series):
    exporter = Exporter(b"up 1\n", b"<html>", b"DCGM_FI_DEV_SM_CLOCK 5\n")
    reasons = [reading.notes[0].reason for reading in exporter.read(exporter.source(), 0, 1, 1)]
    assert reasons == ["parse", "parse", "unsupported"]


def test_opt_in_families_stay_out(series):
    page = (CASES.parent / "samples" / "dcgm_exporter_l4_580.prom").read_bytes()
    plain, asked = Exporter(page), Exporter(page)
    found = series(plain.read(plain.source(), 0)[0].block)
    assert not [key for key in found if "encoder" in key]
    with_encoder = asked.source(optional=["gpu_encoder_utilization_ratio"])
    assert [key for key in series(asked.read(with_encoder, 0)[0].block) if "encoder" in key]
