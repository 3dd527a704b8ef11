"""What each page of `pages/` must give. Read it as: an SRE looks at the page and says what they would expect.

`samples` are written `name{label=value;…} type`; `lost` names the families that malformed lines cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, nan
from pathlib import Path

from sidecar.exposition import PageError, PageReader

PAGES = Path(__file__).parent / "pages"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Samples by series and type; families lost with (a part of) the reason; or the failure of the page."""

    samples: dict[str, float] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    failure: str = ""
    cut: bool = False  # ends in mid-air: a failed scrape when the transport doesn't vouch for its end


def gives(samples: dict[str, float], *, cut: bool = False, **lost: str) -> Outcome:
    return Outcome(samples, lost, cut=cut)


def fails(result: str, *, cut: bool = False) -> Outcome:
    return Outcome(failure=result, cut=cut)


H, C, G, U = "histogram", "counter", "gauge", "untyped"

OUTCOMES: dict[str, Outcome] = {
    # Counters with and without `_total`: kept as written, never renamed.
    "01-counter-no-total": gives({"tgi_request_count{} counter": 5}),
    "02-counter-no-total-om": gives({"tgi_request_count{} counter": 5}),
    "03-counter-total": gives({"vllm:prompt_tokens_total{m=x} counter": 5}),
    # OpenMetrics or text is told by the content; `_created` is a time, not a count.
    "04-om-counter-created": gives(
        {
            "vllm:prompt_tokens_total{m=x} counter": 5,
            "vllm:prompt_tokens_created{m=x} gauge": 1.7e9,
        }
    ),
    "05-om-body-as-text": gives(
        {
            "vllm:prompt_tokens_total{m=x} counter": 5,
            "vllm:prompt_tokens_created{m=x} gauge": 1.7e9,
        }
    ),
    "06-text-body-as-om": gives({"vllm:prompt_tokens_total{m=x} counter": 5}),
    "07-text-created-gauge": gives({"r_total{} counter": 5, "r_created{} gauge": 1.7e9}),
    # Metadata: repeated is fine, contradictory costs the family, after the samples is as good as before.
    "08-dup-help-type": gives({"q{e=0} gauge": 1, "q{e=1} gauge": 2}),
    "09-type-changes": gives({}, q="a second type: counter after gauge"),
    "10-interleaved": gives({"a{e=0} gauge": 1, "b{e=0} gauge": 2, "a{e=1} gauge": 3, "b{e=1} gauge": 4}),
    "11-interleaved-hist": gives(
        {
            "h_bucket{e=0;le=1} histogram": 1,
            "h_bucket{e=0;le=+Inf} histogram": 2,
            "g{} gauge": 1,
            "h_sum{e=0} histogram": 3,
            "h_count{e=0} histogram": 2,
        }
    ),
    # Label values and names.
    "12-escapes": gives({'m{model=a"b\\c\nd,e}f{g # h=i 模型} gauge': 1}),
    "13-bad-escape": gives({r"m{model=C:\models\dir} gauge": 1}),
    "14-utf8-quoted-name": gives({"sglang.num_running.reqs{model=x} gauge": 3}),
    "15-utf8-quoted-label": gives({"m{http.route=/v1;model=x} gauge": 3}),
    "16-dotted-name": fails("not_metrics"),
    # Values: as Prometheus understands them, no more.
    "17-specials": gives(
        {
            "g{v=1} gauge": nan,
            "g{v=2} gauge": inf,
            "g{v=3} gauge": -inf,
            "g{v=4} gauge": inf,
            "g{v=5} gauge": nan,
            "g{v=6} gauge": 1000,
            "g{v=7} gauge": 1796033129.5824544,
            "g{v=8} gauge": inf,
        }
    ),
    "18-hex-underscore": gives({}, g="could not convert"),
    "19-underscore-number": fails("not_metrics"),
    "20-comma-decimal": fails("not_metrics"),
    "21-unicode-digits": fails("not_metrics"),
    "22-big-int": gives({"c_total{} counter": 9007199254740992.0}),
    "23-six-digits": gives({"llamacpp:prompt_tokens_total{} counter": 1000540}),
    # A timestamp doesn't matter: the value is what the page says now. An exemplar is no timestamp.
    "24-timestamp-old": gives({"g{} gauge": 1}),
    "25-timestamp-future": gives({"g{} gauge": 1}),
    "26-exemplar-in-text": gives(
        {
            "h_bucket{le=1} histogram": 3,
            "h_bucket{le=+Inf} histogram": 3,
            "h_sum{} histogram": 1,
            "h_count{} histogram": 3,
        }
    ),
    "27-exemplar-om": gives(
        {
            "h_bucket{le=1.0} histogram": 3,
            "h_bucket{le=+Inf} histogram": 3,
            "h_sum{} histogram": 1,
            "h_count{} histogram": 3,
        }
    ),
    # Ends of lines and of pages.
    "28-crlf": gives({"g{a=b} gauge": 1, "c_total{} untyped": 2}),
    "29-no-final-newline": gives({"g{a=b} gauge": 12345}, cut=True),
    "30-empty": gives({}),
    "31-only-comments": gives({}),
    "32-cut-in-line": gives({"g{a=b} gauge": 1}, c_total="could not convert", cut=True),
    "33-cut-in-number": gives({"c_total{m=x} counter": 1234}, cut=True),
    # One series twice: the first counts, whatever the order or emptiness of its labels.
    "34-dup-same": gives({"g{a=1} gauge": 1}),
    "35-dup-label-order": gives({"g{a=1;b=2} gauge": 1}),
    "36-dup-label": fails("not_metrics"),
    "37-empty-label": gives({"g{} gauge": 1}),
    # Implausible numbers are what the page says; `test_hazards_bound` tells that none gets further.
    "38-negative-counter": gives({"c_total{} counter": -3}),
    "39-nan-counter": gives({"c_total{} counter": nan}),
    "40-bucket-noncumulative": gives(
        {
            "h_bucket{le=1} histogram": 5,
            "h_bucket{le=2} histogram": 3,
            "h_bucket{le=+Inf} histogram": 9,
            "h_sum{} histogram": 1,
            "h_count{} histogram": 9,
        }
    ),
    "41-bucket-no-inf": gives(
        {
            "h_bucket{le=1} histogram": 5,
            "h_bucket{le=2} histogram": 7,
            "h_sum{} histogram": 9,
            "h_count{} histogram": 8,
        }
    ),
    "42-bucket-count-mismatch": gives(
        {
            "h_bucket{le=1} histogram": 5,
            "h_bucket{le=+Inf} histogram": 9,
            "h_sum{} histogram": 9,
            "h_count{} histogram": 11,
        }
    ),
    "43-bucket-unsorted": gives(
        {
            "h_bucket{le=+Inf} histogram": 9,
            "h_bucket{le=10} histogram": 8,
            "h_bucket{le=2} histogram": 5,
            "h_sum{} histogram": 9,
            "h_count{} histogram": 9,
        }
    ),
    "44-bucket-no-count-sum": gives({"h_bucket{le=1} histogram": 5, "h_bucket{le=+Inf} histogram": 9}),
    "45-sum-first": gives(
        {
            "h_sum{a=1} histogram": 9,
            "h_bucket{a=1;le=1.0} histogram": 5,
            "h_bucket{a=1;le=+Inf} histogram": 9,
            "h_count{a=1} histogram": 9,
        }
    ),
    "46-le-spelling": gives(
        {
            "h_bucket{le=1} histogram": 5,
            "h_bucket{le=1.0} histogram": 5,
            "h_bucket{le=1e0} histogram": 5,
            "h_bucket{le=inf} histogram": 9,
            "h_sum{} histogram": 9,
            "h_count{} histogram": 9,
        }
    ),
    # The declared type decides, never the look of a name or of a label.
    "47-le-on-gauge": gives(
        {
            "sglang:routing_key_running_req_count{gt=0;le=1} gauge": 3,
            "sglang:routing_key_running_req_count{gt=1;le=+Inf} gauge": 2,
        }
    ),
    "48-summary-nan": gives(
        {
            "s{quantile=0.5} summary": nan,
            "s{quantile=0.99} summary": nan,
            "s_sum{} summary": 0,
            "s_count{} summary": 0,
        }
    ),
    "49-counter-named-count": gives(
        {
            "jetstream_request_success_count_total{} counter": 3,
            "tgi_batch_inference_count{method=decode} counter": 7,
        }
    ),
    "50-hist-named-total": gives(
        {
            "lmdeploy:iteration_tokens_total_bucket{le=1.0} histogram": 1,
            "lmdeploy:iteration_tokens_total_bucket{le=+Inf} histogram": 2,
            "lmdeploy:iteration_tokens_total_sum{} histogram": 9,
            "lmdeploy:iteration_tokens_total_count{} histogram": 2,
        }
    ),
    "51-counter-not-total-suffix": gives({"llamacpp:n_tokens_max{} counter": 244}),
    "52-gauge-named-total": gives({"vllm:x_total{} gauge": 4}),
    # White space.
    "53-no-space-value": gives({"g{a=b} untyped": 3}),
    "54-tabs": gives({"g{a=b} gauge": 3}),
    "55-spaces": gives({"g{a=b} untyped": 3}),
    "56-unterminated": fails("not_metrics"),
    # What isn't a metrics page at all.
    "57-html-200": fails("not_metrics"),
    "58-html-200-as-text": fails("not_metrics"),
    "59-json-200": fails("not_metrics"),
    "60-json-200-as-text": fails("not_metrics"),
    "61-ollama-root": fails("not_metrics", cut=True),
    # Bytes.
    "62-bom": gives({"g{} gauge": 1}),
    "63-bad-utf8": gives({}, g="not UTF-8"),
    "64-nul": gives({"g{a=x\x00y} gauge": 1}),
    "65-digit-name": fails("not_metrics"),
    "66-dash-name": fails("not_metrics"),
    # Comments that go wrong.
    "67-help-newline": gives({"g{} gauge": 1}, second="text after the value"),
    "68-type-after-samples": gives({"g{} gauge": 1}),
    "69-unknown-type": gives({"g{a=x} stateset": 1, "u{} unknown": 2, "i_info{v=1} info": 1}),
    "70-type-uppercase": gives({}, g="unknown type GAUGE"),
    "71-target-label-clash": gives({"g{instance=pod-7;job=inner} gauge": 1}),
    # `__` is Prometheus' own: a label that begins so is refused.
    "72-meta-label": fails("not_metrics"),
    "73-no-content-type": gives({"g{} gauge": 1}),
    "74-long-label": gives({}, g="over 65536 bytes"),
}


def page(name: str) -> bytes:
    return (PAGES / f"{name}.txt").read_bytes()


def outcome(reader: PageReader, body: bytes, *, whole: bool = True) -> Outcome:
    """What a reader makes of a body, in the form of the table."""
    try:
        reading = reader.read(body, whole=whole)
    except PageError as error:
        return Outcome(failure=error.result)
    samples = {
        f"{one.name}{{{';'.join('='.join(pair) for pair in one.labels)}}} {one.type}": value
        for one, value in zip(reading.shape.samples, reading.values, strict=True)
    }
    assert len(samples) == len(reading.shape.samples), "a series twice"
    return Outcome(samples, {bad.family: bad.reason for bad in reading.shape.bad_lines})


def numbers(samples: dict[str, float]) -> str:
    """Samples as one text, whatever their order: NaN equals NaN, and -0 isn't 0."""
    return repr(sorted((series, float(value)) for series, value in samples.items()))


def agrees(got: Outcome, stated: Outcome) -> bool:
    """Whether an outcome is the stated one; of a reason only a part is stated."""
    return (
        got.failure == stated.failure
        and numbers(got.samples) == numbers(stated.samples)
        and got.lost.keys() == stated.lost.keys()
        and all(part in got.lost[family] for family, part in stated.lost.items())
    )
