"""The audit log in PostgreSQL: the service's role can add to it, and neither change nor delete."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.adapters.postgres.repository import NEWEST, Reads, Repository
from meetcore.domain.members.audit import AuditEntry, with_addresses

_ENTRY = Columns(AuditEntry, "g", "audit_", nested={"actor": "actor_"}, without=("details",))

AUDIT_COLUMNS = f"{_ENTRY.names}, details"

# Writes one entry.
_APPEND = f"INSERT INTO audit_log ({AUDIT_COLUMNS}) VALUES ({_ENTRY.values}, %(details)s)"

# An entry, with the addresses that its member and its invitation (`audit.INVITATION_ACTIONS`) have now.
_SHOWN = f"""
    {_ENTRY.select}, g.details,
    (SELECT u.email FROM users u WHERE g.actor_kind = 'member' AND u.id = g.actor_id) AS member,
    (SELECT i.email FROM invitations i WHERE i.id = CASE
        WHEN g.action IN ('member.invited', 'member.invitation_revoked') THEN g.target_id::uuid END) AS invited
"""

# A page of the whole log, by the primary key backwards.
_LIST = f"""
SELECT {_SHOWN}FROM audit_log g WHERE g.id < %(before)s ORDER BY g.id DESC LIMIT %(limit)s
"""

# The same of one account.
_LIST_OF_ACCOUNT = f"""
SELECT {_SHOWN}FROM audit_log g
WHERE g.account_id = %(account_id)s AND g.id < %(before)s ORDER BY g.id DESC LIMIT %(limit)s
"""

ENTRIES_LOOKED_AT: Final = 50_000
"""How many of the oldest and of the newest entries are looked at for addresses."""

# An entry that holds an address, as those of an earlier release do, among the oldest and the newest by the primary key.
# Where there is none, the time to find that out does not grow with the log.
_FIND_ADDRESS = """
SELECT FROM (
    (SELECT actor_kind, actor_name, action, details FROM audit_log ORDER BY id LIMIT %(limit)s)
    UNION ALL
    (SELECT actor_kind, actor_name, action, details FROM audit_log ORDER BY id DESC LIMIT %(limit)s)
) AS g
WHERE (actor_kind = 'member' AND actor_name <> 'member')
    OR (action IN ('member.invited', 'member.invitation_revoked') AND details ? 'email')
LIMIT 1
"""


def holds_addresses(connection: psycopg.Connection) -> bool:
    """Whether entries hold addresses of members, which the owner of the tables has yet to remove."""
    return bool(connection.execute(_FIND_ADDRESS.encode(), {"limit": ENTRIES_LOOKED_AT}).rowcount)


def audit_row(entry: AuditEntry) -> Row:
    """An entry by the names of its columns."""
    row = {name.removeprefix("audit_"): value for name, value in _ENTRY.parameters(entry).items()}
    return row | {"details": dict(entry.details)}


class PostgresAuditLog(Repository):
    """Entries of changes."""

    async def append(self, entry: AuditEntry) -> None:
        parameters = _ENTRY.parameters(entry) | {"details": Jsonb(dict(entry.details))}
        await self._connection.execute(_APPEND, parameters)


class AuditReads(Reads):
    """Reads of the audit log."""

    async def list_audit_entries(
        self, account_id: UUID | None, limit: int, before: UUID | None
    ) -> Sequence[AuditEntry]:
        statement = _LIST if account_id is None else _LIST_OF_ACCOUNT
        page = {"account_id": account_id, "limit": limit, "before": before or NEWEST}
        return [
            with_addresses(_ENTRY.read(row, details=row["details"]), row["member"], row["invited"])
            for row in await self._all(statement, page)
        ]
