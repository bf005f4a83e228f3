"""Seal again what is sealed under old keys, while the service runs, so that an old key can be removed.

It goes through every column in the order of ids, in portions. What was interrupted begins anew and passes
over what is done; two at a time do the work once.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final

from attrs import evolve, field, frozen

from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.ports.sealed_values import Resealed, SealedValues
from meetcore.ports.store import Store
from meetcore.usecases.audit import record_action
from meetcore.usecases.runtime import Runtime

PORTION: Final = 200
"""Values of one statement: a transcript has some hundred kilobytes."""


@frozen
class Resealing:
    """What was done, and what is left.

    `left` has the number of values under each key, by its id in hex; `keys` are the ids of the keys that are
    given, the first one first. `unreadable` values are under a key that is not given, or do not open.
    """

    keys: tuple[str, ...]
    resealed: int = 0
    changed: int = 0
    unreadable: int = 0
    left: Mapping[str, int] = field(factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether every value is under the first key."""
        return set(self.left) <= set(self.keys[:1])


@frozen
class ResealSecrets:
    """The use case. `portion` is how many values one statement takes."""

    values: SealedValues
    store: Store
    runtime: Runtime
    portion: int = PORTION
    origin: ActionOrigin = SERVICE

    def acting_as(self, origin: ActionOrigin) -> "ResealSecrets":
        """The same use case, on behalf of somebody."""
        return evolve(self, origin=origin)

    async def __call__(
        self, *, dry_run: bool = False, on_progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Resealing:
        """Seal every value under the first key, and count what is left under each.

        That it began is in the audit log before anything is written, and what was done at its end.

        Args:
            dry_run: count only.
            on_progress: called with how many values are seen to, and how many were under other keys.
        """
        keys = tuple(self.values.key_ids)
        left = await self._count()
        waiting = sum(count for key, count in left.items() if key != keys[0])
        if dry_run or not waiting:
            return Resealing(keys, left=left)
        await self._record("secrets.reseal_started", waiting)
        total = Resealed()
        for column in self.values.columns:
            async for portion in self._resealed(column):
                total = _sum(total, portion)
                done = total.resealed + total.changed + total.unreadable
                on_progress(min(done, waiting), waiting)
        if total.resealed:
            await self._record("secrets.resealed", total.resealed)
        return Resealing(keys, total.resealed, total.changed, total.unreadable, await self._count())

    async def _resealed(self, column: str) -> AsyncIterator[Resealed]:
        after: tuple[object, ...] | None = None
        while True:
            portion = await self.values.reseal(column, after, self.portion)
            yield portion
            if (after := portion.after) is None:
                return

    async def _record(self, action: str, values: int) -> None:
        now, first = self.runtime.now(), self.values.key_ids[0]
        async with self.store.begin() as tx:
            await record_action(tx, self.runtime, now, self.origin, action, None, first, values=values)

    async def _count(self) -> Mapping[str, int]:
        left: Counter[str] = Counter()
        for column in self.values.columns:
            after: tuple[object, ...] | None = None
            while True:
                found = await self.values.count(column, after, self.portion * 10)
                left.update(found.found)
                if (after := found.after) is None:
                    break
        return dict(left)


def _sum(one: Resealed, other: Resealed) -> Resealed:
    return Resealed(
        resealed=one.resealed + other.resealed,
        changed=one.changed + other.changed,
        unreadable=one.unreadable + other.unreadable,
    )
