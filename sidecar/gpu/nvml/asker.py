"""Asks NVML about one device and remembers its refusals, so that they aren't repeated at every pass."""

from __future__ import annotations

from math import inf

TYPE_CHECKING = False  # typing costs the child a megabyte
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GET_OLDER, UNDECODABLE, NOT_OURS = 13, -1, -2

#: The GPU has fallen off the bus, needs a reset, or isn't found: nothing else of it can be read.
LOST = (15, 16, 28)

#: Answers that will be the same at the next pass: invalid argument, not supported, no permission,
#: function not found, version of an argument's struct.
REFUSALS = (2, 3, 4, 13, 25)


class LostGpu(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def code_of(error: Exception) -> int:
    """NVML's return code of what its binding raised; not everything it raises is an NVMLError."""
    value = getattr(error, "value", None)
    if isinstance(value, int):
        return value
    if isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError":
        return GET_OLDER
    if isinstance(error, UnicodeDecodeError):
        return UNDECODABLE
    return 12 if isinstance(error, OSError) else NOT_OURS


class Asker:
    """One device, or one MIG instance, of the binding `nvml`. `codes` holds why a reading is not there."""

    def __init__(self, nvml: Any, handle: Any, clock: Callable[[], float], retry: float) -> None:
        self.nvml = nvml
        self.handle = handle
        self.codes: dict[str, int] = {}
        self._clock = clock
        self._retry = retry
        self._until: dict[tuple[str, int], float] = {}

    def get(self, name: str, *alternatives: tuple[Any, ...]) -> Any:
        """The first alternative `(function, arguments…)` that answers, else None. Raises LostGpu.

        Newer calls come first. Whether a driver has one is only known by calling it.
        """
        now = self._clock()
        for i, (function, *arguments) in enumerate(alternatives):
            if self._until.get((name, i), 0.0) > now:
                continue
            try:
                value = getattr(self.nvml, function)(self.handle, *arguments)
            except Exception as error:
                if not self._refused(name, i, code_of(error), now):
                    break
                continue
            self.codes.pop(name, None)
            return value
        return None

    def fields(self, wanted: list[tuple[int, int]]) -> dict[str, float]:
        """Field values by `id`, or `id/link` where they belong to a link, all in one call. Raises LostGpu."""
        now = self._clock()
        asked = [one for one in wanted if self._until.get((_field(*one), 0), 0.0) <= now]
        found: dict[str, float] = {}
        for value in (self.get("fields", ("nvmlDeviceGetFieldValues", asked)) if asked else None) or ():
            name = _field(value.fieldId, value.scopeId)
            if value.nvmlReturn:  # the union holds garbage then
                self._refused(name, 0, value.nvmlReturn, now)
            else:
                self.codes.pop(name, None)
                found[name] = _number(value)
        return found

    def _refused(self, name: str, i: int, code: int, now: float) -> bool:
        """Note a failure; True when it will last, so that an older call may be tried."""
        if code in LOST:
            raise LostGpu(code)
        self.codes[name] = code
        if code not in REFUSALS:
            return False
        self._until[name, i] = inf if code == GET_OLDER else now + self._retry
        return True

    def forget(self) -> None:
        """Ask for everything again: the mode of the GPU has changed."""
        self.codes.clear()
        self._until.clear()


#: Field values that are asked for link by link, with the link as their scope.
LINK_FIELDS = frozenset((161, 162, 163, 202, 204, 206, 207, 208, 209, 210, 211, 213, 214, 215))


def _field(number: int, scope: int) -> str:
    return f"{number}/{scope}" if number in LINK_FIELDS else str(number)


_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def _number(value: Any) -> float:
    kind = value.valueType
    member = _MEMBERS[kind] if 0 <= kind < len(_MEMBERS) else "ullVal"
    number: float = getattr(value.value, member)
    return number
