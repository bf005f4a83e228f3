"""One step of a state machine: each machine is a table from (state, event) to the next state.

A key that is missing is illegal and changes nothing; `find_step` is for machines that ignore late events.
"""

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

_S = TypeVar("_S", bound=Enum)
_E = TypeVar("_E", bound=Enum)


class IllegalStep(ValueError):
    """An event that the table does not have in this state."""


def find_step(table: Mapping[tuple[_S, _E], _S], state: _S, event: _E) -> _S | None:
    """Return the next state; `None` where the event is illegal."""
    return table.get((state, event))


def step(table: Mapping[tuple[_S, _E], _S], state: _S, event: _E) -> _S:
    """Return the next state; raise `IllegalStep` where the table has none."""
    after = table.get((state, event))
    if after is None:
        raise IllegalStep(f"{type(state).__name__} {state.value} has no step {event.value}")
    return after
