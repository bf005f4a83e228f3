"""The audit log as a transaction sees it: only added to."""

from typing import Protocol

from meetcore.domain.members.audit import AuditEntry

__all__ = ["AuditLog"]


class AuditLog(Protocol):
    """Entries of changes, each written in the transaction of its change."""

    async def append(self, entry: AuditEntry) -> None:
        """Write an entry; an id is written once."""
