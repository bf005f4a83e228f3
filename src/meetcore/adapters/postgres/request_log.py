"""What became of requests, in PostgreSQL: written in batches, read by id and in pages, the newest first."""

from collections.abc import Sequence
from uuid import UUID

from meetcore.adapters.postgres.columns import Columns
from meetcore.adapters.postgres.pool import Pool, translated
from meetcore.adapters.postgres.repository import NEWEST, Reads
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.queries import MAX_PAGE
from meetcore.ports.request_log import RequestFilter

REQUEST = Columns(LoggedRequest, "r", "request_")

# Writes a batch; a request that is there already stays.
_SAVE = """
INSERT INTO api_requests (id, account_id, api_key_id, at, method, path, status, duration_ms, code, subject_id)
SELECT * FROM unnest(%(ids)s::uuid[], %(accounts)s::uuid[], %(keys)s::uuid[], %(times)s::timestamptz[],
    %(methods)s::text[], %(paths)s::text[], %(statuses)s::smallint[], %(durations)s::integer[], %(codes)s::text[],
    %(subjects)s::uuid[])
ON CONFLICT (id) DO NOTHING
"""

_OF_KEY = " AND w.api_key_id = %(api_key_id)s"
_OF_CLASS = " AND w.status / 100 = %(status_class)s"


def _page(conditions: str) -> str:
    """The inner limit is for the planner: of a parameter it would expect a tenth of the table."""
    return f"""
SELECT {REQUEST.select} FROM (
    SELECT w.* FROM api_requests w
    WHERE w.account_id = %(account_id)s AND w.id < %(before)s{conditions}
    ORDER BY w.id DESC LIMIT {MAX_PAGE}
) AS r ORDER BY r.id DESC LIMIT %(limit)s
"""


# A page of an account's requests, by whether a key and whether a class of status is wanted.
_LISTS = {
    (is_of_key, is_of_class): _page((_OF_KEY if is_of_key else "") + (_OF_CLASS if is_of_class else ""))
    for is_of_key in (False, True)
    for is_of_class in (False, True)
}

# An account's request.
_FIND = f"SELECT {REQUEST.select} FROM api_requests r WHERE id = %(id)s AND account_id = %(account_id)s"

# A request of any account.
_FIND_OF_ANY = f"SELECT {REQUEST.select} FROM api_requests r WHERE id = %(id)s"


class PostgresRequestLog:
    """Where the requests of all processes are kept."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def save(self, requests: Sequence[LoggedRequest]) -> None:
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
        with translated():
            async with self._pool.connection() as connection:
                await connection.execute(_SAVE, parameters)


class RequestReads(Reads):
    """Reads of the requests that are kept."""

    async def list_requests(
        self, account_id: UUID, wanted: RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[LoggedRequest]:
        statement = _LISTS[wanted.api_key_id is not None, wanted.status_class is not None]
        rows = await self._all(
            statement,
            {
                "account_id": account_id,
                "before": NEWEST if before is None else before,
                "limit": limit,
                "api_key_id": wanted.api_key_id,
                "status_class": wanted.status_class,
            },
        )
        return [REQUEST.read(row) for row in rows]

    async def find_request(self, account_id: UUID, request_id: UUID) -> LoggedRequest | None:
        row = await self._one(_FIND, {"account_id": account_id, "id": request_id})
        return None if row is None else REQUEST.read(row)

    async def find_request_of_any(self, request_id: UUID) -> LoggedRequest | None:
        row = await self._one(_FIND_OF_ANY, {"id": request_id})
        return None if row is None else REQUEST.read(row)
