"""Idempotency keys in PostgreSQL. Answers are sealed: they hold passwords and webhook secrets."""

from uuid import UUID

from meetcore.adapters.postgres import rows
from meetcore.adapters.postgres.ledger import LOCK_ACCOUNT, fetch_locked
from meetcore.adapters.postgres.pool import Connection
from meetcore.domain.errors import NotFound
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.ports.cipher import Cipher
from meetcore.ports.idempotency import KeyView

__all__ = ["KEY_COLUMNS", "PostgresIdempotencyRepository"]

KEY_COLUMNS = """
    i.key, i.fingerprint, i.is_done, i.subject_id, i.lease_until AS key_lease_until, i.answer"""

# Takes the account's lock and reads the record of a key.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
       clock_timestamp() AS now, {KEY_COLUMNS}
FROM locked LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s
"""

# Binds a key, or marks it done with its answer; its age runs from the first binding.
_SAVE = """
WITH saved AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, answer, created_at)
    VALUES (%(account_id)s, %(key)s, %(fingerprint)s, %(is_done)s, %(subject_id)s, NULL, %(answer)s, clock_timestamp())
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, is_done = EXCLUDED.is_done,
        subject_id = EXCLUDED.subject_id, lease_until = NULL, answer = EXCLUDED.answer
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""


class PostgresIdempotencyRepository:
    """Idempotency records, on one open transaction."""

    def __init__(self, connection: Connection, cipher: Cipher) -> None:
        self._connection = connection
        self._cipher = cipher

    async def load(self, account_id: UUID, key: str) -> KeyView:
        """Take the account's lock and read a key."""
        row = await fetch_locked(self._connection, _LOAD, {"account_id": account_id, "key": key})
        if row is None:
            raise NotFound("No account with this id.")
        return KeyView(rows.idempotency(row, self._cipher), row["now"])

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        """Write a key as bound, or as done with its answer."""
        answer = record.answer
        if answer is not None:
            answer = self._cipher.seal(answer, rows.answer_context(account_id, record.key))
        await self._connection.execute(
            _SAVE,
            {
                "account_id": account_id,
                "key": record.key,
                "fingerprint": record.fingerprint,
                "is_done": record.is_done,
                "subject_id": record.subject_id,
                "answer": answer,
            },
        )
