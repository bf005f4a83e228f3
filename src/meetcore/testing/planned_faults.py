"""Faults that wait for their calls at a stand-in, in the order in which they were planned.

Owns which call meets which. What a fault does, each stand-in decides.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

__all__ = ["Faults", "Waiting"]


class Waiting(Protocol):
    """What a fault waits for.

    `call` names one, or is `any`. With a `marker` it waits for a call that says that. `times` counts down;
    None is for ever.
    """

    call: str
    times: int | None
    marker: str


F = TypeVar("F", bound=Waiting)


class Faults(Generic[F]):
    """Those that wait; nothing at first."""

    def __init__(self) -> None:
        self._planned: list[F] = []

    @property
    def planned(self) -> Sequence[F]:
        """Those that wait, oldest first."""
        return tuple(self._planned)

    def plan(self, *faults: F) -> None:
        """Let calls meet these, the first that fits first."""
        self._planned.extend(faults)

    def clear(self) -> None:
        """Plan nothing any more."""
        self._planned.clear()

    def due(self, call: str, body: bytes) -> F | None:
        """Take the fault that this call meets, by its name and by what it says."""
        for fault in self._planned:
            if fault.call in (call, "any") and fault.marker.encode() in body:
                if fault.times is not None:
                    fault.times -= 1
                    if fault.times <= 0:
                        self._planned.remove(fault)
                return fault
        return None
