"""A model that is loaded anew is no restart of the server, and its counts go on."""

from __future__ import annotations

from pathlib import Path

from sidecar.pipeline import Settings, TargetPipeline
from sidecar.runtimes.adapter import Answer
from sidecar.runtimes.registry import Registry
from sidecar.snapshot import Snapshot

PAGES = Path(__file__).parent / "pages" / "unload"
NAMES = ("0_before", "1_after_unload", "2_after_load_again", "3_after_3_more", "4_after_reload_in_place")


def page(**success: int | None) -> bytes:
    """A page of models with so many successes; None: unloaded. Rejections of `slow` never reset."""
    lines = ["# TYPE nv_inference_request_success counter"]
    for name, count in success.items():
        if name != "rejected" and count is not None:
            lines.append(f'nv_inference_request_success{{model="{name}",version="1"}} {count}')
    lines += ["# TYPE nv_inference_queue_duration_us counter"]
    for name, count in success.items():
        if name != "rejected" and count is not None:
            lines.append(f'nv_inference_queue_duration_us{{model="{name}",version="1"}} {count * 1000}')
    lines += ["# TYPE nv_inference_request_failure counter"]
    lines.append(
        f'nv_inference_request_failure{{model="slow",reason="REJECTED",version="1"}} {success["rejected"]}'
    )
    return ("\n".join(lines) + "\n").encode()


def feed(line: TargetPipeline, body: bytes, at: float) -> Snapshot:
    return line.feed({"metrics": Answer(200, body)}, time=at, mono=at)


def successes(snapshot: Snapshot, model: str) -> float:
    return snapshot.data.get("requests_total", model_name=model, outcome="success")


def test_counts_of_a_reloaded_model_go_on() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    feed(line, page(slow=500, fast=900, rejected=2), 0)
    unloaded = feed(line, page(slow=None, fast=910, rejected=2), 2)
    assert successes(unloaded, "slow") != successes(unloaded, "slow")  # absent, not 0
    again = feed(line, page(slow=3, fast=920, rejected=3), 4)
    assert successes(again, "slow") == 503
    assert successes(again, "fast") == 920
    assert again.data.get("requests_total", model_name="slow", outcome="rejected") == 3
    (queue,) = again.data.layout.find("request_queue_time_seconds", model_name="slow")
    assert again.data.values[queue.count_index] == 503
    assert again.epoch == 0
    later = feed(line, page(slow=5, fast=930, rejected=3), 6)
    assert successes(later, "slow") == 505


def test_a_reload_between_two_scrapes_is_seen_by_the_fall() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    feed(line, page(slow=500, fast=900, rejected=0), 0)
    after = feed(line, page(slow=4, fast=901, rejected=0), 2)
    assert (successes(after, "slow"), after.epoch) == (504, 0)


def test_when_every_model_starts_anew_the_server_has() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    feed(line, page(slow=500, fast=900, rejected=7), 0)
    after = feed(line, page(slow=4, fast=0, rejected=0), 2)
    assert (successes(after, "slow"), after.epoch) == (4, 1)
    later = feed(line, page(slow=6, fast=1, rejected=0), 4)
    assert (successes(later, "slow"), later.epoch) == (6, 1)


def test_a_restart_forgets_what_was_carried() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    feed(line, page(slow=500, fast=900, rejected=0), 0)
    feed(line, page(slow=1, fast=901, rejected=0), 2)
    after = feed(line, page(slow=0, fast=0, rejected=0), 4)
    assert (successes(after, "slow"), after.epoch) == (0, 1)


def test_the_real_server_unloading_and_loading() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    seen = [feed(line, (PAGES / f"{name}.prom").read_bytes(), at) for at, name in enumerate(NAMES)]
    assert [successes(one, "fast") for one in seen[2:]] == [10, 13, 13]
    assert not list(seen[1].data.layout.find("requests_waiting", model_name="fast"))
    assert [one.epoch for one in seen] == [0, 0, 0, 0, 0]


def test_a_reload_with_other_tags_adds_to_the_old_series() -> None:
    line = TargetPipeline(Settings(runtime="triton"), Registry())
    snapshot = feed(line, (PAGES / "5_after_reload_with_config_without_tags.prom").read_bytes(), 0)
    assert successes(snapshot, "fast") == 3
