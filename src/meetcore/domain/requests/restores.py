"""A restore of the database to an earlier moment, and the idempotency keys that it lost.

What was committed after the moment to which the database was restored is gone, and the customer who got
the answer cannot know. Until an operator has compared the database with the provider, a *fence* stands:
nothing is sold, and nothing is posted. Each restore has an epoch, counted from 1.

A key of the lost time would be new to the service, and a retry would do the work again. A key that is a
UUID of version 7 states when it was made, so one from the lost time is refused. Of another key nothing is
known.

Owns which keys are lost. Does not find what the provider still has of that time: see `meetings.memos`.
"""

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from attrs import frozen

from meetcore.domain.ids import instant_of

__all__ = ["KEY_MARGIN", "Restore", "is_key_lost", "key_made_at"]

KEY_MARGIN: Final = timedelta(minutes=2)
"""How long before the lost time a key may have been made whose request was carried out in it."""

_LENGTH: Final = 36


@frozen
class Restore:
    """A restore: what was committed after `restored_to` is lost.

    Nothing was carried out between the last commit of the lost time and `fenced_at`. The fence stands while
    `released_at` is `None`.
    """

    epoch: int
    restored_to: datetime
    fenced_at: datetime
    released_at: datetime | None = None

    @property
    def is_fenced(self) -> bool:
        """Whether nothing may be sold or posted yet."""
        return self.released_at is None


def key_made_at(key: str | None) -> datetime | None:
    """When an idempotency key was made; `None` for one that is no UUID of version 7 in its usual form."""
    if key is None or len(key) != _LENGTH:
        return None
    try:
        return instant_of(UUID(key))
    except ValueError:
        return None


def is_key_lost(key: str | None, restore: Restore) -> bool:
    """Whether a restore may have lost what became of a key that is unknown now."""
    made_at = key_made_at(key)
    return made_at is not None and restore.restored_to - KEY_MARGIN <= made_at <= restore.fenced_at
