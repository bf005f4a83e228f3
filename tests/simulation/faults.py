"""Faults of a run: which opportunities become one, by the seed, and which of them a failure needs.

Each kind of fault has its own sequence of random numbers, one for each opportunity, so that the faults of a
run are a list: a run with a part of the list is as repeatable as the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from attrs import define, field, frozen

T = TypeVar("T")


@frozen
class Fault:
    """One fault: the number of its opportunity among those of its kind, and what it met."""

    kind: str
    number: int
    at_s: float = 0.0
    where: str = ""

    @property
    def text(self) -> str:
        return f"{self.kind} {self.number} at {self.at_s:.3f} s: {self.where}"


@define
class Faults:
    """Decides at each opportunity; `only` are the faults that are left of a run that is made again."""

    seed: int
    only: frozenset[tuple[str, int]] | None = None
    is_active: bool = False
    struck: list[Fault] = field(factory=list)
    _drawn: dict[str, tuple[Random, int]] = field(factory=dict)

    def strikes(self, kind: str, rate: float) -> bool:
        """Return whether the next opportunity of a kind becomes a fault, and keep it if so."""
        if not self.is_active:
            return False
        random, number = self._drawn.get(kind) or (Random(f"{self.seed} {kind}"), 0)
        self._drawn[kind] = (random, number + 1)
        if random.random() >= rate or (self.only is not None and (kind, number) not in self.only):
            return False
        self.struck.append(Fault(kind, number))
        return True


def shrink(items: Sequence[T], fails: Callable[[Sequence[T]], bool], tries: int = 1_000) -> Sequence[T]:
    """Return a part of the items with which it still fails, of which no single one can be left out.

    This is the algorithm ddmin: leave out halves, then quarters, and so on. `tries` bounds the calls of
    `fails`; where they do not suffice, more may be left than needed.
    """
    parts = 2
    while items:
        size = -(-len(items) // parts)
        for begin in range(0, len(items), size):
            rest = [*items[:begin], *items[begin + size :]]
            tries -= 1
            if tries < 0:
                return items
            if fails(rest):
                items, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                return items
            parts = min(len(items), parts * 2)
    return items
