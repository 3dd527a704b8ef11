"""The definition of the demand for replicas as plain code, as it was tried in a simulated fleet before it was
written down. A yardstick: it keeps every poll, knows no restart, no blindness and no missing input.

A poll has `running`, `waiting`, `kv`, `inf_sum`, `inf_cnt`, `itl_sum`, `itl_cnt`, `itl_good` (gaps within the
threshold); counters are cumulative and there is one poll every two seconds or so.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from typing import Any

WINDOW, DRAIN, UTILISATION = 60.0, 30.0, 0.8
BACKLOG_CAP, SLO_FLOOR, MEAN_SHARE, BUDGET_SHARE = 0.5, 3.0, 0.85, 0.5


class ReplicaDemand:
    def __init__(
        self,
        slots: float | None = None,
        itl_threshold: float | None = None,
        itl_budget: float = 0.05,
        idle_itl: float | None = None,
        service_time: float | None = None,
    ) -> None:
        self.slots, self.threshold, self.budget = slots, itl_threshold, itl_budget
        self.seed_idle, self.seed_service_time = idle_itl, service_time
        self.times: list[float] = []
        self.polls: list[dict[str, float]] = []
        self.level: dict[int, list[float]] = {}
        self.kv_quotients: list[tuple[float, float]] = []
        self.service_time: float | None = None
        self.observed: tuple[float, float] | None = None
        self.why: dict[str, Any] = {}

    def feed(self, t: float, **v: float) -> None:
        v.update(int_running=0.0, int_level=0.0)
        if self.polls:
            q = self.polls[-1]
            dt = t - self.times[-1]
            n = 0.5 * (v["running"] + q["running"])
            gaps = v["itl_cnt"] - q["itl_cnt"]
            v["int_running"] = q["int_running"] + n * dt
            v["int_level"] = q["int_level"] + n * gaps
            if n > 0 and gaps >= 10:
                place = round(math.log(max(n, 0.5), 1.25))
                pool = self.level.setdefault(place, [0.0, 0.0, 0.0, t])
                left = 0.5 ** ((t - pool[3]) / 600)
                seconds = v["itl_sum"] - q["itl_sum"]
                pool[:] = [pool[0] * left + n * gaps, pool[1] * left + seconds, pool[2] * left + gaps, t]
        if v["kv"] >= 0.2:
            self.kv_quotients.append((t, v["running"] / v["kv"]))
        self.times.append(t)
        self.polls.append(v)

    def at(self, window: float) -> int:
        return max(bisect_right(self.times, self.times[-1] - window + 1e-6) - 1, 0)

    def idle_itl(self, hard: float) -> float | None:
        points = [(pool[0] / pool[2], pool[1] / pool[2]) for pool in self.level.values() if pool[2] >= 100]
        if not points:
            return self.seed_idle
        low = min(y for _, y in points)
        xs = [x for x, _ in points]
        if min(xs) > max(0.12 * hard, 2.0):
            return min(self.seed_idle, low) if self.seed_idle else 0.5 * low
        slopes = [
            (y2 - y1) / (x2 - x1)
            for i, (x1, y1) in enumerate(points)
            for x2, y2 in points[i + 1 :]
            if abs(x2 - x1) > 0.2 * max(x1, x2)
        ]
        if max(xs) / min(xs) >= 1.5 and slopes:
            b = max(statistics.median(slopes), 0.0)
            a = min(max(statistics.median(y - b * x for x, y in points), 0.5 * low), low)
        else:
            a = 0.9 * low
        return min(a, 1.05 * self.seed_idle) if self.seed_idle else a

    def value(self) -> float:
        now, v = self.times[-1], self.polls[-1]
        i = self.at(WINDOW)
        q = self.polls[i]
        young = self.times[-1] - self.times[0] < WINDOW - 1
        if len(self.polls) < 2:
            return 0.0
        gaps = v["itl_cnt"] - q["itl_cnt"]
        n = (v["int_level"] - q["int_level"]) / gaps if gaps >= 20 else v["running"]
        itl = (v["itl_sum"] - q["itl_sum"]) / gaps if gaps >= 20 else None
        capacity = {"slots": float(self.slots or 1e6)}
        quotients = [quotient for at, quotient in self.kv_quotients[-300:] if at > now - 600]
        if quotients:
            capacity["kv_cache"] = max(statistics.median(quotients), 1.0)
        hard = min(capacity.values())
        a = self.idle_itl(hard)
        b = None
        if a and itl and n > 0.3:
            b = max(itl - a, 0.02 * itl) / max(n, 1.0)
        if a and b and self.threshold:
            c = (MEAN_SHARE * self.threshold - a) / b
            bad = (gaps - (v["itl_good"] - q["itl_good"])) / gaps
            if gaps >= 200 and bad > 0.002:
                c = min(c, n * max(BUDGET_SHARE * self.budget / bad, 0.5))
            third = hard / (a + b * hard) / SLO_FLOOR
            capacity["slo"] = max(c, third * a / max(1 - third * b, 1e-9), 1.0)
        z = self.polls[self.at(30.0) :]
        queued = [p["waiting"] for p in z]
        if (
            now - self.times[self.at(30.0)] >= 28
            and sum(w >= 1 for w in queued) >= 0.8 * len(z)
            and sum(queued) >= 3 * len(z)
        ):
            self.observed = (max(sum(p["running"] for p in z) / len(z), 1.0), now)
        if self.observed and now - self.observed[1] <= 600:
            capacity["observed"] = self.observed[0]
        limit = min(capacity, key=lambda name: capacity[name])
        most = capacity[limit]
        stretch = (a + b * most) / itl if a and b and itl else 1.0
        for w in (60.0, 120.0, 300.0, 600.0):
            u = self.polls[self.at(w)]
            m = v["inf_cnt"] - u["inf_cnt"]
            if m >= 10 or (w == 600.0 and m > 0):
                self.service_time = (v["inf_sum"] - u["inf_sum"]) / m
                break
        service_time = self.service_time if self.service_time is not None else self.seed_service_time
        if service_time is None:
            load = float(v["running"])
        else:
            dt = max(now - self.times[i], WINDOW)
            z0 = 0.0 if young else q["running"] + q["waiting"]
            base = 0.0 if young else q["int_running"]
            change = v["running"] + v["waiting"] - z0
            load = max((v["int_running"] - base) / dt + change / dt * min(service_time, dt), 0.0)
        backlog = 0.0
        if service_time is not None:
            backlog = min(v["waiting"] * service_time / DRAIN, BACKLOG_CAP * load)
        self.why = {"limit": limit, "capacity": most, "stretch": stretch, "load": load, "itl": itl, "b": b}
        return (load + backlog) * stretch / (most * UTILISATION)
