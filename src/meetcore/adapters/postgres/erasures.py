"""Erasure of accounts in PostgreSQL: ids and money stay, names and contents go."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import utc
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.requests.erasures import ERASED, Erasure, erased_email

_LOWEST = UUID(int=0)

# Takes the account's lock and raises the version, so that waiting readers read again.
_LOCK_ACCOUNT = "UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s RETURNING id"

# What an erasure depends on. The account is locked by now.
_LOAD = """
SELECT (SELECT count(*) FROM meetings
        WHERE account_id = %(account_id)s AND status IN ('scheduled', 'cancelling', 'started')) AS open_meetings,
    (SELECT count(*) FROM ledger_holds WHERE account_id = %(account_id)s) AS holds, e.requested_at, e.finished_at
FROM (VALUES (1)) AS always LEFT JOIN account_erasures e ON e.account_id = %(account_id)s
"""

# The request to erase an account, which is locked by now.
_FIND_REQUEST = "SELECT requested_at FROM account_erasures WHERE account_id = %(account_id)s"

# Notes an erasure; the account has no name and no address from now on, and its keys are refused.
_START = """
WITH noted AS (
    INSERT INTO account_erasures (account_id, requested_at) VALUES (%(account_id)s, %(at)s) ON CONFLICT DO NOTHING
), keys AS (
    UPDATE api_keys SET revoked_at = COALESCE(revoked_at, %(at)s), name = %(erased)s WHERE account_id = %(account_id)s
), invitations AS (
    UPDATE invitations SET email = 'erased-' || id || '@erased.invalid', revoked_at = COALESCE(revoked_at, %(at)s)
    WHERE account_id = %(account_id)s
), sessions AS (
    DELETE FROM sessions WHERE account_id = %(account_id)s
)
UPDATE accounts SET email = %(email)s, full_name = %(erased)s, suspended_at = COALESCE(suspended_at, %(at)s)
WHERE id = %(account_id)s
"""

# Users whom the account removed: of these the audit log alone still says that they belonged to it.
_REMOVED = """SELECT target_id::uuid AS user_id FROM audit_log
    WHERE account_id = %(account_id)s AND action = 'member.removed'"""

# Locks the users of an account, and those whom it removed: of two erasures at once, the second reads what the first one left. `FOR UPDATE` holds
# up new memberships, too, whose foreign keys lock their users.
_LOCK_USERS = f"""
SELECT u.id FROM users u
WHERE u.id IN (SELECT user_id FROM memberships WHERE account_id = %(account_id)s UNION {_REMOVED})
ORDER BY u.id FOR UPDATE
"""

# Ends the memberships of an account and returns those of its users, the removed ones included, who belong to no other.
_END_MEMBERSHIPS = f"""
WITH ended AS (
    DELETE FROM memberships WHERE account_id = %(account_id)s RETURNING user_id
), known AS (
    SELECT user_id FROM ended UNION {_REMOVED}
)
SELECT u.id, u.email FROM known JOIN users u ON u.id = known.user_id
WHERE NOT EXISTS (SELECT FROM memberships o WHERE o.user_id = u.id AND o.account_id <> %(account_id)s)
"""

# A user without name and address.
_ERASE_USER = "UPDATE users SET email = %(email)s, full_name = %(erased)s WHERE id = %(id)s"

# The passkeys of a user.
_DELETE_PASSKEYS = "DELETE FROM passkeys WHERE user_id = %(id)s"

# Deletes the mails to an address, whatever they are about.
_DELETE_MAILS_TO = "DELETE FROM mails WHERE lower(recipient) = lower(%(recipient)s)"

# Takes erasures that are due, the longest due first, and puts them off (`domain.requests.erasures.retry_delay`).
_CLAIM_DUE = """
WITH next AS (
    SELECT account_id FROM account_erasures
    WHERE finished_at IS NULL AND COALESCE(due_at, requested_at) <= %(at)s
    ORDER BY COALESCE(due_at, requested_at) LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE account_erasures e
SET due_at = %(at)s + LEAST(GREATEST((%(at)s - e.requested_at) / 4, interval '5 minutes'), interval '2 hours')
FROM next WHERE e.account_id = next.account_id RETURNING e.account_id
"""

# Meetings of an account whose recordings are not expired.
_FIND_RECORDED = """
SELECT meeting_id FROM recordings WHERE account_id = %(account_id)s AND status <> 'expired'
ORDER BY id LIMIT %(limit)s
"""

# The next meetings of an account, without what people wrote; those that hold nothing any more are not written.
_ERASE_MEETINGS = """
WITH next AS (
    SELECT id FROM meetings WHERE account_id = %(account_id)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
), erased AS (
    UPDATE meetings m SET title = %(erased)s, description = NULL, password = NULL, join_url = NULL,
        sealed_join_url = NULL, idempotency_key = NULL
    FROM next WHERE m.account_id = %(account_id)s AND m.id = next.id
        AND (m.title <> %(erased)s OR num_nonnulls(
            m.description, m.password, m.join_url, m.sealed_join_url, m.idempotency_key) > 0)
)
SELECT id FROM next ORDER BY id DESC LIMIT 1
"""

# The next notes of an account that are not in progress, without their content.
_ERASE_NOTES = """
WITH next AS (
    SELECT id, status FROM notes WHERE account_id = %(account_id)s AND id > %(after)s ORDER BY id LIMIT %(limit)s
), erased AS (
    UPDATE notes n SET status = 'erased', content = NULL, error = NULL
    FROM next WHERE n.account_id = %(account_id)s AND n.id = next.id AND next.status IN ('completed', 'failed')
)
SELECT id FROM next ORDER BY id DESC LIMIT 1
"""

# Deletes some deliveries of an account with their attempts.
_DELETE_DELIVERIES = """
WITH gone AS (
    DELETE FROM deliveries WHERE account_id = %(account_id)s AND id IN (
        SELECT id FROM deliveries WHERE account_id = %(account_id)s ORDER BY id LIMIT %(limit)s)
    RETURNING id
), attempts AS (
    DELETE FROM delivery_attempts a USING gone WHERE a.account_id = %(account_id)s AND a.delivery_id = gone.id
)
SELECT count(*) AS gone FROM gone
"""

# Deletes some events of an account.
_DELETE_EVENTS = """
DELETE FROM events WHERE account_id = %(account_id)s AND id IN (
    SELECT id FROM events WHERE account_id = %(account_id)s ORDER BY id LIMIT %(limit)s)
"""

# Deletes some mails about an account.
_DELETE_MAILS = """
DELETE FROM mails WHERE id IN (SELECT id FROM mails WHERE account_id = %(account_id)s LIMIT %(limit)s)
"""

# Deletes some stored answers of an account.
_DELETE_ANSWERS = """
DELETE FROM idempotency_keys WHERE account_id = %(account_id)s AND key IN (
    SELECT key FROM idempotency_keys WHERE account_id = %(account_id)s ORDER BY key LIMIT %(limit)s)
"""

# Deletes some logged requests of an account.
_DELETE_REQUESTS = """
DELETE FROM api_requests WHERE account_id = %(account_id)s AND id IN (
    SELECT id FROM api_requests WHERE account_id = %(account_id)s ORDER BY id LIMIT %(limit)s)
"""

# Finishes an erasure when no meeting waits for its recording, and no recording for the removal of its files.
_FINISH = """
UPDATE account_erasures SET finished_at = %(at)s
WHERE account_id = %(account_id)s AND finished_at IS NULL
    AND NOT EXISTS (SELECT FROM meetings WHERE account_id = %(account_id)s AND due_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM recordings WHERE account_id = %(account_id)s AND due_at IS NOT NULL)
    AND NOT EXISTS (SELECT FROM ledger_holds WHERE account_id = %(account_id)s)
"""


class PostgresErasureRepository(Repository):
    """What is erased of an account, and which erasures are under way."""

    async def load_locked(self, account_id: UUID) -> Erasure:
        if await self._one(_LOCK_ACCOUNT, {"account_id": account_id}) is None:
            raise NotFound("No account with this id.")
        row = await self._one(_LOAD, {"account_id": account_id})
        assert row is not None
        times = [None if row[name] is None else utc(row[name]) for name in ("requested_at", "finished_at")]
        return Erasure(account_id, row["open_meetings"], row["holds"], *times)

    async def is_requested(self, account_id: UUID) -> bool:
        return await self._one(_FIND_REQUEST, {"account_id": account_id}) is not None

    async def start(self, account_id: UUID, at: datetime) -> None:
        values = {"account_id": account_id, "at": at, "erased": ERASED}
        await self._connection.execute(_START, values | {"email": erased_email(account_id)})
        await self._connection.execute(_LOCK_USERS, {"account_id": account_id})
        for row in await self._all(_END_MEMBERSHIPS, {"account_id": account_id}):
            user = {"id": row["id"], "email": erased_email(row["id"]), "erased": ERASED}
            await self._connection.execute(_ERASE_USER, user)
            await self._connection.execute(_DELETE_PASSKEYS, {"id": row["id"]})
            await self._connection.execute(_DELETE_MAILS_TO, {"recipient": row["email"]})

    async def claim_due(self, at: datetime, limit: int) -> Sequence[UUID]:
        return [row["account_id"] for row in await self._all(_CLAIM_DUE, {"at": at, "limit": limit})]

    async def find_recorded(self, account_id: UUID, limit: int) -> Sequence[UUID]:
        rows = await self._all(_FIND_RECORDED, {"account_id": account_id, "limit": limit})
        return [row["meeting_id"] for row in rows]

    async def erase_meetings(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        return await self._erased_up_to(_ERASE_MEETINGS, account_id, after, limit)

    async def erase_notes(self, account_id: UUID, after: UUID | None, limit: int) -> UUID | None:
        return await self._erased_up_to(_ERASE_NOTES, account_id, after, limit)

    async def delete_portion(self, account_id: UUID, limit: int) -> int:
        named = {"account_id": account_id, "limit": limit}
        row = await self._one(_DELETE_DELIVERIES, named)
        gone = 0 if row is None else int(row["gone"])
        for statement in (_DELETE_EVENTS, _DELETE_MAILS, _DELETE_ANSWERS, _DELETE_REQUESTS):
            gone += (await self._connection.execute(statement, named)).rowcount
        return gone

    async def finish(self, account_id: UUID, at: datetime) -> bool:
        return await self._changed(_FINISH, {"account_id": account_id, "at": at})

    async def _erased_up_to(
        self, statement: str, account_id: UUID, after: UUID | None, limit: int
    ) -> UUID | None:
        named = {"account_id": account_id, "after": after or _LOWEST, "limit": limit, "erased": ERASED}
        row = await self._one(statement, named)
        return None if row is None else row["id"]
