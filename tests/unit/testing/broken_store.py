"""A memory store with one repository exchanged for one that does wrong: what the kit must notice."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from meetcore.adapters.memory.store import MemoryStore, MemoryTransaction
from meetcore.testing.memory_rig import MemoryRig

__all__ = ["BrokenStore"]


class BrokenStore(MemoryStore):
    """The memory store with one repository exchanged."""

    def __init__(self, rig: MemoryRig, role: str, make: Callable[..., Any]) -> None:
        intact = rig.store
        assert isinstance(intact, MemoryStore)
        super().__init__(intact._clock, intact._entropy, intact.state)
        self._role = f"_{role}"
        self._make = make

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[MemoryTransaction]:
        async with super().begin() as tx:
            known = vars(getattr(tx, self._role))
            setattr(tx, self._role, self._make(**{name.lstrip("_"): what for name, what in known.items()}))
            yield tx
