"""Idempotency keys in PostgreSQL. Outcomes are sealed: they hold passwords and webhook secrets."""

from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.ledger.parts import LOCK_ACCOUNT
from meetcore.adapters.postgres.repository import Repository
from meetcore.domain.errors import NotFound
from meetcore.domain.requests.idempotency import IdempotencyRecord
from meetcore.domain.requests.restores import KEY_MARGIN, key_made_at
from meetcore.ports.cipher import Cipher
from meetcore.ports.idempotency import KeyView

_KEY = Columns(IdempotencyRecord, "i", "key_", without=("encoded_outcome",))
KEY_COLUMNS = f"{_KEY.select}, i.answer AS key_answer"

# Whether a restore may have lost what became of a key that was made then (`domain.requests.restores.is_key_lost`).
KEY_LOST = f"""EXISTS (SELECT FROM restores WHERE %(key_made_at)s::timestamptz
        BETWEEN restored_to - interval '{KEY_MARGIN.total_seconds():.0f} s' AND fenced_at)"""

# Claims the key of a request, under a lease, for the meeting that `guard` lets be worked on.
CLAIM_KEY = """
    claim AS (
        INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, created_at)
        SELECT account_id, %(key)s, %(fingerprint)s, false, %(meeting_id)s,
            clock_timestamp() + %(lease_s)s * interval '1 second', clock_timestamp()
        FROM guard WHERE %(key)s::text IS NOT NULL
        ON CONFLICT (account_id, key) DO UPDATE
            SET subject_id = EXCLUDED.subject_id, lease_until = EXCLUDED.lease_until
    )"""

# Lets the key of a request try again.
RELEASE_KEY = """
    bound AS (
        UPDATE idempotency_keys SET subject_id = NULL, lease_until = NULL
        WHERE account_id = %(account_id)s AND key = %(key)s::text
    )"""

# Takes the account's lock and reads the record of a key.
_LOAD = f"""
WITH {LOCK_ACCOUNT}
SELECT locked.account_id, locked.version, (SELECT version FROM accounts WHERE id = %(account_id)s) AS seen_version,
    clock_timestamp() AS now, {KEY_COLUMNS}, {KEY_LOST} AS is_key_lost
FROM locked LEFT JOIN idempotency_keys i ON i.account_id = locked.account_id AND i.key = %(key)s
"""

# Binds a key, or marks it done with its answer; its age runs from the first binding.
_SAVE = """
WITH saved AS (
    INSERT INTO idempotency_keys (account_id, key, fingerprint, is_done, subject_id, lease_until, answer, created_at)
    VALUES (%(account_id)s, %(key_key)s, %(key_fingerprint)s, %(key_is_done)s, %(key_subject_id)s, NULL, %(answer)s,
        clock_timestamp())
    ON CONFLICT (account_id, key) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, is_done = EXCLUDED.is_done,
        subject_id = EXCLUDED.subject_id, lease_until = NULL, answer = EXCLUDED.answer
)
UPDATE accounts SET version = version + 1 WHERE id = %(account_id)s
"""


def key_record(row: Row, cipher: Cipher) -> IdempotencyRecord | None:
    """The record of a key, if any, with its outcome opened."""
    encoded = row["key_answer"]
    if encoded is not None:
        encoded = cipher.open(encoded, answer_context(row["account_id"], row["key_key"]))
    return _KEY.find(row, encoded_outcome=encoded)


def sealed_outcome(cipher: Cipher, account_id: UUID, key: str | None, encoded: bytes | None) -> bytes | None:
    """An outcome as it is stored; without a key there is none."""
    return None if encoded is None or key is None else cipher.seal(encoded, answer_context(account_id, key))


def answer_context(account_id: UUID, key: str) -> str:
    """What a stored answer is sealed for."""
    return f"{account_id}/idempotency/{key}"


class PostgresIdempotencyRepository(Repository):
    """Idempotency records."""

    async def load_locked(self, account_id: UUID, key: str) -> KeyView:
        parameters = {"account_id": account_id, "key": key, "key_made_at": key_made_at(key)}
        row = await self._locked(_LOAD, parameters)
        if row is None:
            raise NotFound("No account with this id.")
        return KeyView(key_record(row, self._cipher), utc(row["now"]), row["is_key_lost"])

    async def save(self, account_id: UUID, record: IdempotencyRecord) -> None:
        sealed = sealed_outcome(self._cipher, account_id, record.key, record.encoded_outcome)
        parameters = _KEY.parameters(record) | {"account_id": account_id, "answer": sealed}
        await self._connection.execute(_SAVE, parameters)
