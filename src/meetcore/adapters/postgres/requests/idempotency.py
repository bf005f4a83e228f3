"""Idempotency keys, the last uses of API keys, and the log of requests."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns, Row, utc
from meetcore.adapters.postgres.money.rows import FUNDS
from meetcore.adapters.postgres.repository import NEWEST, PooledWrites, Reads, Repository, load_statements
from meetcore.domain.errors import require_record
from meetcore.domain.requests import idempotency, request_log, views
from meetcore.ports.queries import MAX_PAGE
from meetcore.ports.runtime import Cipher

KEY = Columns(idempotency.IdempotencyRecord, "i", "key_", without=("encoded_outcome",))


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


class PostgresIdempotencyRepository(Repository):
    """Idempotency records."""

    async def load_locked(self, account_id: UUID, key: str) -> views.KeyView:
        row = require_record(await self._locked(SQL["load_key"], account_id=account_id, key=key), "account")
        return views.KeyView(key_record(row, self._cipher), utc(row["now"]))

    async def save(self, account_id: UUID, record: idempotency.IdempotencyRecord) -> None:
        sealed = sealed_outcome(self._cipher, account_id, record.key, record.encoded_outcome)
        parameters = KEY.parameters(record) | {"account_id": account_id, "answer": sealed}
        await self._connection.execute(SQL["save_key"], parameters)


class PostgresKeyUses(PooledWrites):
    """Last uses of keys."""

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        await self._run(SQL["save_uses"], ids=list(used), times=list(used.values()))


REQUEST = Columns(request_log.LoggedRequest, "r", "request_")

SQL = load_statements(__file__, FUNDS=FUNDS, KEY=KEY, MAX_PAGE=MAX_PAGE, REQUEST=REQUEST)


_OF_KEY, _OF_CLASS = " AND w.api_key_id = %(api_key_id)s", " AND w.status / 100 = %(status_class)s"

# A page of an account's requests, by whether a key and whether a class of status is wanted.
_LISTS = {
    (is_of_key, is_of_class): SQL["list_requests"].replace(
        "{and_more}", _OF_KEY * is_of_key + _OF_CLASS * is_of_class
    )
    for is_of_key in (False, True)
    for is_of_class in (False, True)
}


class PostgresRequestLog(PooledWrites):
    """The log of requests of all processes."""

    async def save(self, requests: Sequence[request_log.LoggedRequest]) -> None:
        parameters = {
            "ids": [each.id for each in requests],
            "accounts": [each.account_id for each in requests],
            "keys": [each.api_key_id for each in requests],
            "times": [each.at for each in requests],
            "methods": [each.method for each in requests],
            "paths": [each.path for each in requests],
            "statuses": [each.status for each in requests],
            "durations": [each.duration_ms for each in requests],
            "codes": [each.code for each in requests],
            "subjects": [each.subject_id for each in requests],
        }
        await self._run(SQL["save_requests"], parameters)


class RequestReads(Reads):
    """Reads of the log of requests."""

    async def list_requests(
        self, account_id: UUID, wanted: views.RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[request_log.LoggedRequest]:
        statement = _LISTS[wanted.api_key_id is not None, wanted.status_class is not None]
        rows = await self._all(
            statement,
            account_id=account_id,
            before=NEWEST if before is None else before,
            limit=limit,
            api_key_id=wanted.api_key_id,
            status_class=wanted.status_class,
        )
        return [REQUEST.read(row) for row in rows]

    async def find_request(self, account_id: UUID, request_id: UUID) -> request_log.LoggedRequest | None:
        return await self._find(REQUEST, SQL["find_request"], account_id=account_id, id=request_id)

    async def find_request_of_any(self, request_id: UUID) -> request_log.LoggedRequest | None:
        return await self._find(REQUEST, SQL["find_request_of_any"], id=request_id)
