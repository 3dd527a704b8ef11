"""Numbers read off the pages by eye (`grep`), beside what the sidecar says of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan

import pytest

from tests.runtimes.vllm.captured import captured, count_and_sum

approx = pytest.approx


@dataclass(frozen=True, slots=True)
class Seen:
    """What a person reads on the page. Histograms: (count, sum)."""

    running: float
    waiting: float
    kv: float
    prompt: float
    generated: float
    success: float
    ttft: tuple[float, float]
    itl: tuple[float, float]
    queue: tuple[float, float]
    preempted: float
    rejected: float = nan  # admission_rejections: from 0.32 on
    finished_as: str = "length"


PAGES = {
    "01_idle_first": Seen(0, 0, 0, 0, 0, 0, (0, 0), (0, 0), (0, 0), 0, 0),
    "03_s2_after_preempt": Seen(
        0,
        0,
        0,
        16350,
        76300,
        109,
        (109, 94.93349647521973),
        (76191, 137.11528565399885),
        (109, 93.46897359899822),
        192,
        388,
    ),
    "06_s3_asc2_after": Seen(
        0,
        0,
        0,
        5600,
        16800,
        56,
        (56, 98.33204436302185),
        (16744, 45.701824650999924),
        (56, 85.38438566100012),
        0,
        0,
    ),
    "08_s4_lora_after": Seen(
        0,
        0,
        0,
        288,
        4800,
        8,
        (8, 7.160692453384399),
        (4792, 13.24424882600033),
        (8, 6.796522726000376),
        0,
        0,
    ),
    # Two engines: 2 + 2 run, 3 + 1 wait.
    "11_s5_after_enginekill": Seen(
        2 + 2,
        3 + 1,
        0.00036623329060614385,
        1740 + 1620,
        8678 + 7969,
        27 + 25,
        (29 + 27, 28.100168466567993 + 28.293954133987427),
        (8649 + 7942, 22.19941607699957 + 23.058873075999145),
        (27 + 25, 25.561286079999718 + 25.4965197420006),
        0,
        0,
    ),
    "13_s7_hung_1": Seen(
        2,
        4,
        0.0009766221082829762,
        120,
        1746,
        0,
        (2, 0.04865407943725586),
        (1744, 2.088744289999795),
        (0, 0),
        0,
        0,
    ),
    "14_s8_mp_user_dir_run1": Seen(
        0,
        0,
        0,
        400,
        500,
        10,
        (10, 1.5560717582702637),
        (490, 0.7415602809996926),
        (10, 1.3708137819999138),
        0,
        0,
    ),
    "17_v0271_idle": Seen(0, 0, 0, 0, 0, 0, (0, 0), (0, 0), (0, 0), 0),
    "19_eager_small": Seen(
        0,
        0,
        0,
        240,
        300,
        6,
        (6, 0.4704153537750244),
        (294, 0.3392263740006456),
        (6, 0.35920403499949316),
        0,
        0,
    ),
    "ts_load_015": Seen(
        4,
        12,
        0.0012207776353537758,
        20280,
        41025,
        103,
        (107, 127.30141162872314),
        (40918, 46.667368496999075),
        (103, 121.37792162399933),
        0,
        0,
    ),
    "ts_preempt_009": Seen(
        5,
        7,
        1.0,
        8400,
        36345,
        49,
        (56, 45.07844638824463),
        (36289, 68.27070211799901),
        (49, 35.79663915299966),
        81,
        388,
    ),
    "step_one_token": Seen(
        0,
        0,
        0,
        44449,
        92932,
        237,
        (242, 285.3861839771271),
        (92690, 109.19534149799983),
        (237, 282.39551622599913),
        0,
        0,
    ),
    "step_prefix_warm": Seen(
        0,
        0,
        0,
        45669,
        92942,
        239,
        (244, 285.49640011787415),
        (92698, 109.22152472599976),
        (239, 282.39556461799907),
        0,
        0,
    ),
    "rust_frontend": Seen(
        4,
        12,
        0.0012207776353537758,
        20280,
        41025,
        103,
        (107, 127.30141162872314),
        (40918, 46.667368496999075),
        (103, 121.37792162399933),
        nan,  # a series of the Rust front end comes with its first event
    ),
}

#: Pages made from a release's definitions: 3 run, 2 wait, KV 0.42, 5200 and 9100 tokens, 40 of the rest.
RELEASES = {
    "v0.6.6": (29.31591402418298, 1.29908453960935, 34.57991766271207),
    "v0.7.3": (31.372920418311153, 1.3429493073629701, 43.29740519186863),
    "v0.8.0": (30.049116185835416, 1.59439594618381, 24.487560951666694),
    "v0.9.0.1": (35.52515396189839, 1.4136711064707765, 36.2880881118068),
    "v0.9.2": (30.241639198111475, 1.5211738106414585, 33.699945933010966),
    "v0.11.0": (35.558320867577216, 1.4076096379572678, 33.550080541466535),
    "v0.11.2": (40.19135447064444, 1.3011177533523712, 30.654633160098896),
    "v0.16.0": (27.675039640563558, 1.25919700232451, 34.50590338722606),
    "v0.24.0": (37.138418956883164, 1.3987412827244308, 43.34066635655128),
}
ALL = PAGES | {
    name: Seen(3, 2, 0.42, 5200, 9100, 40, (40, ttft), (40, itl), (40, queue), 40, finished_as="stop")
    for name, (ttft, itl, queue) in RELEASES.items()
}


@pytest.mark.parametrize("name", ALL)
def test_the_page_says(name: str) -> None:
    seen, data = ALL[name], captured(name).data
    assert data.get("requests_running") == seen.running
    assert data.get("requests_waiting") == seen.waiting
    assert data.get("kv_cache_usage_ratio") == approx(seen.kv)
    assert data.get("kv_cache_usage_max_ratio") == approx(seen.kv)
    assert data.get("prompt_tokens_total") == seen.prompt
    assert data.get("generation_tokens_total") == seen.generated
    assert data.get("requests_total", outcome="success") == seen.success
    assert data.get("requests_finished_total", reason=seen.finished_as) == seen.success
    assert count_and_sum(data, "time_to_first_token_seconds") == approx(seen.ttft)
    assert count_and_sum(data, "inter_token_latency_seconds") == approx(seen.itl)
    assert count_and_sum(data, "request_queue_time_seconds") == approx(seen.queue)
    assert data.get("preemptions_total") == approx(seen.preempted, nan_ok=True)
    assert data.get("requests_total", outcome="rejected") == approx(seen.rejected, nan_ok=True)


def test_the_oldest_page_says_what_it_can() -> None:
    data = captured("v0.3.3").data
    assert (data.get("requests_running"), data.get("requests_waiting")) == (3, 2)
    assert data.get("kv_cache_usage_ratio") == 0.42
    assert count_and_sum(data, "time_to_first_token_seconds") == (40, 42.09142743219512)
    assert count_and_sum(data, "inter_token_latency_seconds") == (40, 1.5693745557086025)


def test_capacity() -> None:
    """0.32 tells the tokens; before, blocks times their size; two engines add up; Rust doesn't tell."""
    told = {
        name: captured(name).data.get("kv_cache_capacity_tokens")
        for name in ("01_idle_first", "03_s2_after_preempt", "09_s5_dp2_idle", "v0.16.0", "rust_frontend")
    }
    assert told == {
        "01_idle_first": 2097152,
        "03_s2_after_preempt": 3072,
        "09_s5_dp2_idle": 2 * 2097152,
        "v0.16.0": 7000 * 16,
        "rust_frontend": approx(nan, nan_ok=True),
    }


def test_speculation() -> None:
    data = captured("06_s3_asc2_after").data
    assert data.get("spec_decode_draft_tokens_total") == 57
    assert data.get("spec_decode_accepted_tokens_total") == 0


def test_the_bounds_are_the_pages_own() -> None:
    """TTFT of 0.32 ends at 2560 s; a merged directory of two runs has both sets of bounds."""
    (ttft,) = captured("01_idle_first").data.layout.find("time_to_first_token_seconds")
    assert ttft.bounds[-4:] == (160.0, 640.0, 2560.0, float("inf"))
    (merged,) = captured("15_s8_mp_user_dir_restart_idle").data.layout.find("time_to_first_token_seconds")
    (plain,) = captured("14_s8_mp_user_dir_run1").data.layout.find("time_to_first_token_seconds")
    assert set(plain.bounds) < set(merged.bounds)
    assert len(merged.bounds) == 25
