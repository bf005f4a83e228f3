"""Checks for orphans in PostgreSQL. Their first opening and their end with an abandoned meeting are in `create`."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from meetcore.adapters.postgres.columns import Row
from meetcore.adapters.postgres.meetings.rows import MEETING_COLUMNS, meeting
from meetcore.adapters.postgres.repository import Repository
from meetcore.ports.lease import Lease
from meetcore.ports.orphan_checks import OrphanCheck

# Makes the check of a meeting due now, as if an orphan had just been seen. A worker that holds it loses it.
_OPEN = """
INSERT INTO orphan_checks (account_id, meeting_id, since, due_at)
VALUES (%(account_id)s, %(meeting_id)s, clock_timestamp(), clock_timestamp())
ON CONFLICT (account_id, meeting_id) DO UPDATE
    SET since = EXCLUDED.since, due_at = EXCLUDED.due_at, failures = 0, lease_token = NULL
"""

_TAKE = f"""), taken AS (
    UPDATE orphan_checks c
    SET lease_token = %(token)s, due_at = clock_timestamp() + %(lease_s)s * interval '1 second'
    FROM due WHERE c.account_id = due.account_id AND c.meeting_id = due.meeting_id
    RETURNING c.account_id, c.meeting_id, c.since, c.failures
)
SELECT {MEETING_COLUMNS}, COALESCE(h.provider_user_id, '') AS provider_user_id, taken.failures,
       extract(epoch FROM statement_timestamp() - taken.since)::float8 AS age_s
FROM taken JOIN meetings m ON m.account_id = taken.account_id AND m.id = taken.meeting_id
LEFT JOIN hosts h ON h.id = m.host_id"""

# Takes the checks that are due, the longest due first. The bound is the statement's time: a volatile one could not
# bound the scan of the index.
_CLAIM_DUE = f"""
WITH due AS (
    SELECT account_id, meeting_id FROM orphan_checks WHERE due_at <= statement_timestamp()
    ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
{_TAKE}
"""

# Takes the check of one meeting, also while another process has it.
_TAKE_ONE = f"""
WITH due AS (
    SELECT account_id, meeting_id FROM orphan_checks
    WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s FOR UPDATE
{_TAKE}
"""

# Makes a check due again, for the holder of its lease only.
_POSTPONE = """
UPDATE orphan_checks SET lease_token = NULL, failures = %(failures)s,
    due_at = clock_timestamp() + %(after_s)s::float8 * interval '1 second',
    since = CASE WHEN %(is_sighting)s THEN clock_timestamp() ELSE since END
WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND lease_token = %(token)s
"""

# Ends a check, for the holder of its lease only.
_CLOSE = """
DELETE FROM orphan_checks
WHERE account_id = %(account_id)s AND meeting_id = %(meeting_id)s AND lease_token = %(token)s
"""


class PostgresOrphanCheckRepository(Repository):
    """Checks that are open."""

    async def open(self, account_id: UUID, meeting_id: UUID) -> None:
        await self._connection.execute(_OPEN, {"account_id": account_id, "meeting_id": meeting_id})

    async def claim_due(self, limit: int, lease: Lease) -> Sequence[OrphanCheck]:
        found = await self._all(_CLAIM_DUE, {"limit": limit, "token": lease.token, "lease_s": lease.seconds})
        return [self._check(row, lease) for row in found]

    async def take(self, account_id: UUID, meeting_id: UUID, lease: Lease) -> OrphanCheck | None:
        named = {"account_id": account_id, "meeting_id": meeting_id}
        row = await self._one(_TAKE_ONE, named | {"token": lease.token, "lease_s": lease.seconds})
        return None if row is None else self._check(row, lease)

    def _check(self, row: Row, lease: Lease) -> OrphanCheck:
        user, age_s, failures = row["provider_user_id"], row["age_s"], row["failures"]
        return OrphanCheck(meeting(row, self._cipher), user, age_s, failures, lease.token)

    async def postpone(
        self, check: OrphanCheck, after_s: float, *, failures: int = 0, is_sighting: bool = False
    ) -> None:
        values = {"after_s": after_s, "failures": failures, "is_sighting": is_sighting}
        await self._connection.execute(_POSTPONE, _named(check) | values)

    async def close(self, check: OrphanCheck) -> None:
        await self._connection.execute(_CLOSE, _named(check))


def _named(check: OrphanCheck) -> dict[str, Any]:
    return {"account_id": check.meeting.account_id, "meeting_id": check.meeting.id, "token": check.token}
