"""When API keys were used last, in memory."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from attrs import evolve

from meetcore.adapters.memory.state import MemoryState


class MemoryKeyUses:
    """The last uses of keys."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        async with self._state.change() as tables:
            for key_id, at in used.items():
                key = tables.keys.get(key_id)
                if key is not None and (key.last_used_at is None or key.last_used_at < at):
                    tables.keys[key_id] = evolve(key, last_used_at=at)
