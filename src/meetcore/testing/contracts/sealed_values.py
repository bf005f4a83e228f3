"""Sealed values: every one is sealed again under the first key, and opens as before."""

from typing import Protocol

import pytest

from meetcore.ports.sealed_values import SealedValues


class SealedValuesRig(Protocol):
    """Values that were sealed under an old key, and a new one.

    The ids of the keys are in hex. `values(*names)` opens the values on the keys of these names, "old" and
    "new", the first one first. `check` raises where a value does not open under them.
    """

    old_id: str
    new_id: str

    def values(self, *names: str) -> SealedValues:
        """The values on keys, the first one first."""
        ...

    async def check(self, *names: str) -> None:
        """Open every value under these keys; raise where one does not open."""
        ...


async def walk(values: SealedValues, limit: int, *, dry_run: bool = False) -> tuple[dict[str, int], int, int]:
    """What was found under each key, how many were resealed, and how many do not open."""
    found: dict[str, int] = {}
    resealed = unreadable = 0
    for column in values.columns:
        after: tuple[object, ...] | None = None
        while True:
            portion = await (values.count if dry_run else values.reseal)(column, after, limit)
            for key, count in portion.found.items():
                found[key] = found.get(key, 0) + count
            resealed, unreadable = resealed + portion.resealed, unreadable + portion.unreadable
            if (after := portion.after) is None:
                break
    return found, resealed, unreadable


@pytest.mark.asyncio
class SealedValuesContract:
    """What `ports.sealed_values.SealedValues` promises.

    Give it the fixture `sealed`, a `SealedValuesRig`.
    """

    async def test_every_value_is_sealed_again_and_opens_without_the_old_key(
        self, sealed: SealedValuesRig
    ) -> None:
        await sealed.check("old")
        values = sealed.values("new", "old")
        assert list(values.key_ids) == [sealed.new_id, sealed.old_id]
        before, _, _ = await walk(values, 3, dry_run=True)
        assert set(before) == {sealed.old_id}
        assert await walk(values, 1) == (before, before[sealed.old_id], 0)
        after, resealed, unreadable = await walk(values, 2)
        assert (after, resealed, unreadable) == ({sealed.new_id: before[sealed.old_id]}, 0, 0)
        await sealed.check("new")

    async def test_what_does_not_open_is_left_alone(self, sealed: SealedValuesRig) -> None:
        before, resealed, unreadable = await walk(sealed.values("new"), 5)
        assert (set(before), resealed, unreadable) == ({sealed.old_id}, 0, before[sealed.old_id])
        await sealed.check("old")
