"""A closed loop: the simulator's fleet, its sidecars, and what scales it, all in simulated time.

`hpa`      the algorithm of Kubernetes' HorizontalPodAutoscaler, exactly
`keda`     what KEDA adds: activation, cooldown, fallback
`policy`   a ScaledObject's file as a policy
`sidecars` the sidecars of the replicas: telemetry → signals
`traffics` named traffics, each with its engine
`faults`   what goes wrong, and when
`oracle`   the fewest replicas that keep the objectives, knowing the traffic ahead
`loop`     the run itself
`verdict`  what came of it: attainment, replica-hours, flaps, recovery
`table`, `picture`  the same for people
"""

from __future__ import annotations
