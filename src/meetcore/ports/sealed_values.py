"""The values that are kept sealed, and under which keys: to seal those under old keys again."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from attrs import field, frozen

__all__ = ["Resealed", "SealedValues"]


@frozen
class Resealed:
    """What came of a portion of one column.

    `found` counts the values by the ids of their keys, in hex, as they were; `resealed` were sealed under the
    first key, `changed` were written by others meanwhile, `unreadable` do not open and were left alone.
    `after` is the place that the next portion begins behind; None when the column is at its end.
    """

    found: Mapping[str, int] = field(factory=dict)
    resealed: int = 0
    changed: int = 0
    unreadable: int = 0
    after: tuple[object, ...] | None = None


class SealedValues(Protocol):
    """Every column that holds sealed values, read and written in the order of the rows' ids."""

    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns."""
        ...

    @property
    def key_ids(self) -> Sequence[str]:
        """The ids of the keys that are given, in hex; the first one seals."""
        ...

    async def count(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed:
        """Count the next values of a column by their keys."""
        ...

    async def reseal(self, column: str, after: tuple[object, ...] | None, limit: int) -> Resealed:
        """Seal the next values of a column that are under another key under the first one.

        A value is replaced only while it is the one that was read: nothing that others write is lost.
        """
        ...
