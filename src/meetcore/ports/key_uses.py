"""When API keys were used last."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol
from uuid import UUID

__all__ = ["KeyUses"]


class KeyUses(Protocol):
    """The last uses of keys, written by many processes."""

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        """Write when each key was used last; a later use that is stored stays. Unknown keys are left out."""
