"""A standby in memory: a copy of the state whose following may be paused, and lists from it."""

from meetcore.adapters.memory.queries import MemoryQueries
from meetcore.adapters.memory.state import MemoryState, Tables
from meetcore.ports.clock import Clock
from meetcore.ports.lists import AccountVersion, ListQueries

__all__ = ["MemoryReplica", "MemoryStandbyLists"]


class MemoryReplica(MemoryState):
    """What another state has, or had when following it was paused."""

    def __init__(self, primary: MemoryState) -> None:
        super().__init__()
        self._primary = primary
        self._paused: Tables | None = None

    @property
    def committed(self) -> Tables:
        return self._primary.committed if self._paused is None else self._paused

    def pause(self) -> None:
        """Stay at what the other state has now."""
        self._paused = self._primary.committed

    def resume(self) -> None:
        """Follow again."""
        self._paused = None


class MemoryStandbyLists:
    """Chooses for each list between a replica and the state itself. Fills `Lists`."""

    def __init__(self, replica: MemoryReplica, primary: MemoryQueries, clock: Clock) -> None:
        self._replica = replica
        self._primary = primary
        self._queries = MemoryQueries(replica, clock)

    def since(self, version: AccountVersion | None) -> ListQueries:
        """Return lists of this version of an account."""
        has_version = version is not None and self._replica.committed.changes >= version.number
        return self._queries if has_version else self._primary
