"""The audit log: entries of changes, to which the service can only add."""

from collections.abc import Sequence
from uuid import UUID

from psycopg.types.json import Jsonb

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.adapters.postgres.repository import NEWEST, Reads, Repository, load_statements
from meetcore.domain.members import audit

AUDIT_ENTRY = Columns(audit.AuditEntry, "g", "audit_", nested={"actor": "actor_"}, without=("details",))

SQL = load_statements(__file__, AUDIT_ENTRY=AUDIT_ENTRY)


def audit_row(entry: audit.AuditEntry) -> Row:
    """Return an entry by the names of its columns."""
    row = {name.removeprefix("audit_"): value for name, value in AUDIT_ENTRY.parameters(entry).items()}
    return row | {"details": dict(entry.details)}


class PostgresAuditLog(Repository):
    """Entries of changes."""

    async def append(self, entry: audit.AuditEntry) -> None:
        parameters = AUDIT_ENTRY.parameters(entry) | {"details": Jsonb(dict(entry.details))}
        await self._run(SQL["append_audit"], parameters)


class AuditReads(Reads):
    """Reads of the audit log."""

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[audit.AuditEntry]:
        statement = SQL["list_audit"] if account_id is None else SQL["list_audit_of_account"]
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [
            audit.as_shown(
                AUDIT_ENTRY.read(row, details=row["details"]),
                row["member"],
                row["target_email"],
                row["title"],
            )
            for row in await self._all(statement, page)
        ]
