"""Seal again what is sealed under old keys, while the service runs, so that an old key can be removed.

It goes through every column in the order of ids, in portions. What was interrupted begins anew and passes
over what is done; two at a time do the work once.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from attrs import evolve, field, frozen

from meetcore.domain.members.audit import SERVICE, ActionOrigin
from meetcore.ports.sealed_values import SealedValues
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

    async def __call__(self, *, dry_run: bool = False) -> Resealing:
        """Seal every value under the first key, and count what is left under each.

        Args:
            dry_run: count only.
        """
        resealed = changed = unreadable = 0
        for column in () if dry_run else self.values.columns:
            after: tuple[object, ...] | None = None
            while True:
                found = await self.values.reseal(column, after, self.portion)
                resealed, changed = resealed + found.resealed, changed + found.changed
                unreadable, after = unreadable + found.unreadable, found.after
                if after is None:
                    break
        if resealed:
            async with self.store.begin() as tx:
                await record_action(
                    tx, self.runtime, self.runtime.now(), self.origin, "secrets.resealed", None,
                    self.values.key_ids[0], values=resealed,
                )  # fmt: skip
        left = await self._count()
        return Resealing(tuple(self.values.key_ids), resealed, changed, unreadable, left)

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
