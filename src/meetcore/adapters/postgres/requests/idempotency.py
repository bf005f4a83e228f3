"""Idempotency keys, with the outcomes that are stored under them."""

from uuid import UUID

from meetcore.adapters.postgres import repository
from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.money.rows import FUNDS
from meetcore.domain.errors import require_record
from meetcore.domain.requests import idempotency, views
from meetcore.ports.runtime import Cipher

KEY = Columns(idempotency.IdempotencyRecord, "i", "key_", without=("encoded_outcome",))

SQL = repository.load_statements(__file__, FUNDS=FUNDS, KEY=KEY)


def key_record(row: Row, cipher: Cipher) -> idempotency.IdempotencyRecord | None:
    """Read the record of a key, if any, with its outcome opened."""
    encoded = row["key_answer"]
    if encoded is not None:
        encoded = cipher.open(encoded, answer_context(row["account_id"], row["key_key"]))
    return KEY.find(row, encoded_outcome=encoded)


def sealed_outcome(cipher: Cipher, account_id: UUID, key: str | None, encoded: bytes | None) -> bytes | None:
    """Seal an outcome to store; without a key there is none."""
    return None if encoded is None or key is None else cipher.seal(encoded, answer_context(account_id, key))


def answer_context(account_id: UUID, key: str) -> str:
    """Return the context that a stored answer is sealed for."""
    return f"{account_id}/idempotency/{key}"


class PostgresIdempotencyRepository(repository.Repository):
    """Idempotency records."""

    async def load_locked(self, account_id: UUID, key: str) -> views.KeyView:
        row = require_record(await self._locked(SQL["load_key"], account_id=account_id, key=key), "account")
        return views.KeyView(key_record(row, self._cipher), utc(row["now"]))

    async def save(self, account_id: UUID, record: idempotency.IdempotencyRecord) -> None:
        sealed = sealed_outcome(self._cipher, account_id, record.key, record.encoded_outcome)
        parameters = KEY.parameters(record) | {"account_id": account_id, "answer": sealed}
        await self._connection.execute(SQL["save_key"], parameters)
