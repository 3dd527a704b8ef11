"""The probe: now and then a real completion, timed on the client. Opt-in.

`request`  what is asked, in a runtime's own dialect
`stream`   server-sent events as they come, and what their moments say
`ask`      the asyncio edge: one request, bounded in time and size
`figures`  what is counted, as a block
`mends`    what mends one that fails
`lone`     the gap of a lone request, from probes that had the engine to themselves
`prober`   the stage that puts them together
"""

from __future__ import annotations

from sidecar.probe.ask import Asker
from sidecar.probe.figures import Figures
from sidecar.probe.prober import Prober, Settings
from sidecar.probe.stream import Outcome

__all__ = ["Asker", "Figures", "Outcome", "Prober", "Settings"]
