"""A target's windows as bytes and back: a header in JSON, then the ring's columns as doubles.

Times are Unix times in here, because no monotonic clock outlives its machine.
"""

from __future__ import annotations

import json
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from sidecar.slo.account import Account, Counts, Status
from sidecar.slo.objective import Objective
from sidecar.slo.ring import TIERS, Tier
from sidecar.slo.track import Track

FORMAT = 1
_LENGTH = struct.Struct("<I")


def freeze(track: Track) -> bytes:
    """A track that has seen data, as bytes."""
    track.remember()
    ring, offset = track.ring, 0.0 if track.unix_times else track.clock_offset
    header = {
        "format": FORMAT,
        "byteorder": sys.byteorder,
        "tiers": [[tier.step, len(tier.times)] for tier in ring.tiers],
        "newest": ring.newest + offset,
        "seen": ring.seen,
        "gaps": ring.gaps,
        "started": track.started if isfinite(track.started) else None,
        "accounts": [
            {
                "fingerprint": account.objective.fingerprint,
                "model": account.model,
                "judged": account.judged,
                "born": account.born + offset,
                "born_seen": account.born_seen,
                "gone": account.gone + offset if isfinite(account.gone) else None,
                "events": account.earlier.events + account.counts.events,
                "lenient": account.earlier.lenient + account.counts.lenient,
            }
            for account in track.columns
        ],
        "raw": [[key, cut, last] for key, (cut, last) in track.remembered.items()],
    }
    columns = []
    for tier in ring.tiers:
        columns.append(array("d", [time + offset for time in tier.times]))
        columns += [tier.seen, *tier.columns]
    text = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *(column.tobytes() for column in columns)))


def thaw(body: bytes, objectives: Iterable[Objective]) -> Track:
    """The track again, of the objectives that are still configured. ValueError when it isn't one of ours."""
    try:
        return _thaw(body, tuple(objectives))
    except (KeyError, TypeError, IndexError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"damaged ({error})") from error


def _thaw(body: bytes, objectives: tuple[Objective, ...]) -> Track:
    (length,) = _LENGTH.unpack_from(body)
    header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    if header["format"] != FORMAT or header["byteorder"] != sys.byteorder:
        raise ValueError(f"format {header['format']}, {header['byteorder']} endian")
    numbers = array("d")
    numbers.frombytes(body[_LENGTH.size + length :])
    shape = [(float(step), int(count)) for step, count in header["tiers"]]
    width = 2 + 2 * len(header["accounts"])
    if [step for step, _ in shape] != [step for step, _ in TIERS] or any(count < 1 for _, count in shape):
        raise ValueError("other resolutions")
    if len(numbers) != width * sum(count for _, count in shape):
        raise ValueError("cut short")

    track = Track(objectives)
    kept = _accounts(track, header["accounts"])
    start = 0
    for tier, (_, count) in zip(track.ring.tiers, shape, strict=True):
        columns = [numbers[start + count * at : start + count * (at + 1)] for at in range(width)]
        start += count * width
        _fill(tier, columns, kept)
    ring = track.ring
    ring.newest, ring.seen = float(header["newest"]), float(header["seen"])
    first, second = header["gaps"]
    ring.gaps = (float(first), float(second))
    track.started = float("nan") if header["started"] is None else float(header["started"])
    track.remembered = {_frozen(key): (_frozen(cut), _frozen(last)) for key, cut, last in header["raw"]}
    track.unix_times = True
    return track


def _accounts(track: Track, entries: Sequence[dict[str, Any]]) -> list[int]:
    """Make the accounts that are still wanted; the number of each in the saved columns."""
    wanted = {one.fingerprint: one for one in track.objectives}
    kept = []
    for number, entry in enumerate(entries):
        objective = wanted.get(entry["fingerprint"])
        if objective is None or not objective.covers(entry["model"]):
            continue
        account = Account(objective, str(entry["model"]))
        account.born, account.born_seen = float(entry["born"]), float(entry["born_seen"])
        if entry.get("gone") is not None:
            account.gone = float(entry["gone"])
        account.earlier = Counts(events=float(entry["events"]), lenient=float(entry["lenient"]))
        account.become(Status.OK if entry["judged"] else Status.NO_DATA, "")
        track.accounts[account.key] = account
        track.give_column(account)
        kept.append(number)
    track.revision += 1
    return kept


def _fill(tier: Tier, columns: Sequence[array[float]], kept: Sequence[int]) -> None:
    tier.times, tier.seen = columns[0], columns[1]
    tier.columns = [columns[2 + 2 * number + which] for number in kept for which in (0, 1)]
    if not all(map(isfinite, tier.times)):
        raise ValueError("times that are none")
    if any(new <= old for old, new in zip(tier.times, tier.times[1:], strict=False)):
        raise ValueError("times go backwards")


def _frozen(value: Any) -> Any:
    return tuple(_frozen(one) for one in value) if isinstance(value, list) else value
