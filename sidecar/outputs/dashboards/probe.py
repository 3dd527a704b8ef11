"""The probe's row: what a client of the sidecar's own meets, beside what the runtime says of all its requests."""

from __future__ import annotations

from dataclasses import replace

from sidecar.outputs.dashboards import queries as q
from sidecar.outputs.dashboards.dashboard import Section
from sidecar.outputs.dashboards.panels import BAD, GOOD, Panel, Query, lines, states

#: Probes are minutes apart: a line joins them over this many milliseconds.
_JOINED = 900_000


def _sparse(panel: Panel) -> Panel:
    return replace(panel, custom={**panel.custom, "spanNulls": _JOINED})


PROBE = Section(
    "Probe",
    (
        states(
            "Probes answered",
            "Whether the last completion that the sidecar asked for was answered to its end. Nothing where "
            "`probe.enabled` is off, or no probe went out of late.",
            Query(q.highest("probe_success", by="target, model_name"), "{{target}} {{model_name}}"),
            words={"1": ("yes", GOOD), "0": ("no", BAD)},
            width=16,
            height=5,
        ),
        lines(
            "Probes by result",
            "none",
            "Probes since the point before, by how they ended.",
            Query(
                f"sum by (result) (increase({q.of('probe_requests_total')}[$__rate_interval])) > 0",
                "{{result}}",
            ),
            width=8,
            height=5,
        ),
        _sparse(
            lines(
                "First token, as a client sees it",
                "s",
                "Mean of the probes, and of all requests as the runtime times them. Probes are short: what lies "
                "above is long prompts, what lies below is the way in front of the engine.",
                Query(q.mean("probe_time_to_first_token_seconds", "target"), "{{target}} probe"),
                Query(q.mean("time_to_first_token_seconds", "target"), "{{target}} all"),
            )
        ),
        _sparse(
            lines(
                "Gap between tokens, as a client sees it",
                "s",
                "Mean of the probes, of all requests as the runtime times them, and the gap of a lone request.",
                Query(q.mean("probe_inter_token_latency_seconds", "target"), "{{target}} probe"),
                Query(q.mean("inter_token_latency_seconds", "target"), "{{target}} all"),
                Query(
                    q.highest("idle_inter_token_latency_seconds", by="target"),
                    "{{target}} alone",
                ),
            )
        ),
        lines(
            "Tokens of probes",
            "none",
            "Tokens that probes took, in and out: they are in the runtime's own counts, too.",
            Query(
                f"sum by (target) (increase({q.of('probe_prompt_tokens_total')}[$__rate_interval]))",
                "{{target}} prompt",
            ),
            Query(
                f"sum by (target) (increase({q.of('probe_generation_tokens_total')}[$__rate_interval]))",
                "{{target}} generated",
            ),
        ),
    ),
    closed=True,
)
