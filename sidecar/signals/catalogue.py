"""All derived signals, in an order in which each comes after what it is made of."""

from __future__ import annotations

from sidecar.signals.accepted import ACCEPTED_REQUESTS, ACCEPTED_TOKENS
from sidecar.signals.arrivals import ARRIVALS
from sidecar.signals.capacity import CAPACITY
from sidecar.signals.drain import SAFE_TO_REMOVE
from sidecar.signals.energy import COST, ENERGY
from sidecar.signals.formula import Formula
from sidecar.signals.gap_line import IDLE_GAP
from sidecar.signals.offered_load import OFFERED_LOAD
from sidecar.signals.peaks import PEAKS
from sidecar.signals.queue_to_compute import QUEUE_TO_COMPUTE
from sidecar.signals.queued_gpu_seconds import QUEUED_GPU_SECONDS
from sidecar.signals.replica_demand import REPLICA_DEMAND, REPLICA_DEMAND_INFO
from sidecar.signals.saturation import SATURATION
from sidecar.signals.service_time import SERVICE_TIME
from sidecar.signals.work import COMPUTE_SECONDS, QUEUE_SECONDS

FORMULAS: tuple[Formula, ...] = (
    *PEAKS,
    QUEUE_SECONDS,
    COMPUTE_SECONDS,
    QUEUE_TO_COMPUTE,
    ARRIVALS,
    SERVICE_TIME,
    IDLE_GAP,
    OFFERED_LOAD,
    CAPACITY,
    SATURATION,
    REPLICA_DEMAND,
    REPLICA_DEMAND_INFO,
    QUEUED_GPU_SECONDS,
    ACCEPTED_TOKENS,
    ACCEPTED_REQUESTS,
    ENERGY,
    COST,
    SAFE_TO_REMOVE,
)
