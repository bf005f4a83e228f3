"""The audit log in memory."""

from meetcore.adapters.memory.state import ConstraintBroken, Tables
from meetcore.domain.members.audit import AuditEntry


class MemoryAuditLog:
    """Entries of changes."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    async def append(self, entry: AuditEntry) -> None:
        if entry.id in self._tables.audit_log:
            raise ConstraintBroken(f"audit entry {entry.id} is written already")
        self._tables.audit_log[entry.id] = entry
