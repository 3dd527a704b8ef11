"""Grafana dashboards of the schema, made from code: the same picture for every runtime."""

from __future__ import annotations

from sidecar.outputs.dashboards.autoscaling import AUTOSCALING
from sidecar.outputs.dashboards.dashboard import Dashboard
from sidecar.outputs.dashboards.fleet import FLEET
from sidecar.outputs.dashboards.gpu import GPUS
from sidecar.outputs.dashboards.itself import ITSELF
from sidecar.outputs.dashboards.replica import REPLICA
from sidecar.outputs.dashboards.role import ROLE
from sidecar.outputs.dashboards.slo import OBJECTIVES
from sidecar.outputs.dashboards.triton import TRITON

#: The one to open first is the first.
DASHBOARDS: tuple[Dashboard, ...] = (FLEET, REPLICA, OBJECTIVES, AUTOSCALING, ROLE, GPUS, TRITON, ITSELF)

__all__ = ["DASHBOARDS", "Dashboard"]
