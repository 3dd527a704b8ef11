"""Expressions that several dashboards share. Counters are added up before they are divided."""

from __future__ import annotations

#: Matchers of series that name their model; of those that don't; of a GPU's.
MODEL = 'namespace=~"$namespace", runtime=~"$runtime", model_name=~"$model", target=~"$target"'
TARGET = 'namespace=~"$namespace", runtime=~"$runtime", target=~"$target"'
GPU = 'namespace=~"$namespace", gpu_uuid=~"$gpu"'
OBJECTIVE = f'{MODEL}, slo=~"$slo"'

#: What can be full; a queue is what comes of it.
RESOURCES = 'resource!~"max|queue"'

#: Values of labels that are asked for.
OK, NOT_OK, NOT_MEASURABLE = 'status="ok"', 'status!="ok"', 'status="not_measurable"'
SM = 'clock="sm"'
AMISS = 'reason=~"hw_.*|sw_thermal|power_brake"'
FAILED = 'outcome=~"error|timeout|rejected"'

#: One series in two sidecars is told apart by these.
SAME_SIDECAR = "on (namespace, job, instance)"


def of(signal: str, more: str = "", where: str = MODEL) -> str:
    """`inference_<signal>` with the variables' matchers, and more."""
    matchers = ", ".join(part for part in (where, more) if part)
    return f"inference_{signal}{{{matchers}}}"


def rate(signal: str, more: str = "", by: str = "", where: str = MODEL) -> str:
    """Increase a second, summed."""
    return f"{summed(by)} (rate({of(signal, more, where)}[$__rate_interval]))"


def total(signal: str, more: str = "", by: str = "", where: str = MODEL) -> str:
    return f"{summed(by)} ({of(signal, more, where)})"


def highest(signal: str, more: str = "", by: str = "", where: str = MODEL) -> str:
    return f"max{_by(by)} ({of(signal, more, where)})"


def quantile(share: float, signal: str, by: str = "", where: str = MODEL) -> str:
    """Of the observations since the last point: buckets are added up over replicas, never quantiles.

    Runtimes have other bounds, so their buckets are not mixed: without `by` there is one line a runtime, with
    it the worst runtime counts. No sample instead of NaN where nothing was observed.
    """
    labels = list(dict.fromkeys(["runtime", *filter(None, by.split(", "))]))
    summed_up = f"sum by (le, {', '.join(labels)}) ({_real(signal, 'rate', where)})"
    found = f"histogram_quantile({share:g}, {summed_up}) >= 0"
    return found if set(labels) == {"runtime"} or "runtime" in by else f"max by ({by}) ({found})"


def worst_quantile(share: float, signal: str) -> str:
    """As one number: the worst runtime's."""
    return f"max ({quantile(share, signal)})"


def _real(signal: str, change: str, where: str) -> str:
    """Buckets of those that have any: a source with sum and count alone has only +Inf, which tells nothing."""
    bucket = of(signal + "_bucket", "", where)
    key = "namespace, job, instance, target, model_name, model_version"
    return f"{change}({bucket}[$__rate_interval]) and on ({key}) (count by ({key}) ({bucket}) > 1)"


def mean(signal: str, by: str = "", where: str = MODEL) -> str:
    """Sum over count of the observations since the last point; no sample when there was none."""
    return f"{rate(signal + '_sum', '', by, where)} / ({rate(signal + '_count', '', by, where)} > 0)"


def buckets(signal: str, where: str = MODEL) -> str:
    return f"sum by (le) ({_real(signal, 'increase', where)})"


def failed_share(by: str = "") -> str:
    """Failed of those that were answered; who hung up is neither."""
    answered = rate("requests_total", 'outcome!="cancelled"', by)
    return f"{rate('requests_total', FAILED, by)} / ({answered} > 0)"


def kv(by: str = "") -> str:
    """The fullest cache; where ranks are not told apart, the mean over them is all there is."""
    return f"max{_by(by)} ({of('kv_cache_usage_max_ratio')} or {of('kv_cache_usage_ratio')})"


def ratio_over(window: str, by: str = "slo, model_name", where: str = OBJECTIVE) -> str:
    """Bad share of an objective's events over a window: the recorded series, else the counters."""
    recorded = f"slo:sli_error:ratio_rate{window}" if not window.startswith("$") else ""
    bad = f"{summed(by)} (increase({of('slo_bad_events_total', BAD, where)}[{window}]))"
    counted = f"{bad} / ({summed(by)} (increase({of('slo_events_total', '', where)}[{window}])) > 0)"
    if not recorded or by != "slo, model_name":
        return counted
    return f"{named_slo(recorded)} or {counted}"


def named_slo(recorded: str) -> str:
    """A recorded series, of the fleet, under the labels of the sidecar's own; of models that are chosen."""
    chosen = f'{recorded}{{sloth_slo=~"$slo", model_name=~"$model"}}'
    named = f'max by (slo, model_name) (label_replace({chosen}, "slo", "$1", "sloth_slo", "(.+)"))'
    return f"{named} and on (slo, model_name) {highest('slo_info', '', 'slo, model_name', OBJECTIVE)}"


#: Surely bad events: what alerts count too.
BAD = 'bound="lenient"'


def burn(by: str = "slo, model_name", more: str = "") -> str:
    """The fleet's burn rate where it is recorded, else the worst replica's own over its shortest window."""
    own = (
        f"max by (slo, model_name) ({of('slo_burn_rate', ', '.join(filter(None, (SHORT, more))), OBJECTIVE)})"
    )
    return f"{named_slo('slo:current_burn_rate:ratio')} or {own}"


def budget() -> str:
    """What is left of the period's budget, over the fleet where it is recorded, else the worst replica's."""
    own = f"min by (slo, model_name) ({of('slo_error_budget_remaining_ratio', '', OBJECTIVE)})"
    return f"{named_slo('slo:period_error_budget_remaining:ratio')} or {own}"


#: Windows of five minutes and less: the shortest that an objective has by default is 5m.
SHORT = 'window=~"[0-9]+s|[1-5]m"'


def owned(expr: str, labels: str = "target, pod") -> str:
    """A GPU's series with the replica that uses it; without one it stays as it is."""
    owner = f"max by (namespace, job, instance, gpu_uuid, {labels}) (inference_gpu_allocation_info{{{GPU}}})"
    key = "on (namespace, job, instance, gpu_uuid)"
    return f"({expr} * {key} group_left ({labels}) {owner}) or ({expr} unless {key} {owner})"


def summed(by: str) -> str:
    return f"sum{_by(by)}"


def _by(labels: str) -> str:
    return f" by ({labels})" if labels else ""
