"""Remember when each API key was used last, to the minute, without a write for each request.

Uses are collected in memory and written by a periodic task in one statement. A process that is killed loses
those of one period.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import define, field

from meetcore.domain.requests.keys import ApiKey, minute_of_use
from meetcore.ports.key_uses import KeyUses

MAX_KEYS: Final = 20_000
_MINUTE: Final = timedelta(minutes=1)


@define
class TrackKeyUse:
    """Keeps the latest use of each key until it is written.

    Args:
        store: where it is written.
        at_most: how many keys are kept; further ones are kept from their first request after a write.
    """

    store: KeyUses
    at_most: int = MAX_KEYS
    _used: dict[UUID, datetime] = field(factory=dict, init=False, repr=False)

    def add(self, key: ApiKey, now: datetime) -> None:
        """Keep a use of a key, unless its minute or a later one is stored already."""
        known = self._used.get(key.id, key.last_used_at)
        if known is not None and now < known + _MINUTE:
            return
        if key.id in self._used or len(self._used) < self.at_most:
            self._used[key.id] = minute_of_use(now)

    async def __call__(self) -> None:
        """Write what was kept.

        Raises:
            StoreUnavailable: it is kept for the next time.
        """
        used = dict(self._used)
        if not used:
            return
        await self.store.save(used)
        # A use that came meanwhile is of a later minute, and stays.
        self._used = {key_id: at for key_id, at in self._used.items() if used.get(key_id) != at}
