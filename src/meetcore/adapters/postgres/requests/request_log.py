"""The log of requests, and the last uses of API keys: both are collected by each process and written in batches."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations
from uuid import UUID

from meetcore.adapters.postgres import repository
from meetcore.adapters.postgres.columns import Columns, Row
from meetcore.domain.ids import first_id
from meetcore.domain.records import pages
from meetcore.domain.requests import request_log, views
from meetcore.ports.queries import MAX_PAGE

REQUEST = Columns(request_log.LoggedRequest, "r", "request_")

SQL = repository.load_statements(__file__, MAX_PAGE=MAX_PAGE, REQUEST=REQUEST)


_CONDITIONS = {
    "api_key_id": " AND w.api_key_id = %(api_key_id)s",
    "status_class": " AND w.status / 100 = %(status_class)s",
    # By an index of its own; successes are most of what there is.
    "refused_class": " AND w.status >= 400 AND w.status / 100 = %(refused_class)s",
    "path": " AND w.path = %(path)s",
    "code": " AND w.code = %(code)s",
}

# A page of an account's requests, by the conditions that are wanted.
_LISTS = {
    names: SQL["list_requests"].replace("{and_more}", "".join(_CONDITIONS[name] for name in names))
    for length in range(len(_CONDITIONS) + 1)
    for names in combinations(_CONDITIONS, length)
}

_AFTERWARDS = timedelta(seconds=1)
"""How long after the end of a request an event that it caused may be made."""

DELIVERY_LINE = Columns(pages.DeliveryLine, "w", "")


class PostgresKeyUses(repository.PooledWrites):
    """Last uses of keys."""

    async def save(self, used: Mapping[UUID, datetime]) -> None:
        await self._run(SQL["save_uses"], ids=list(used), times=list(used.values()))


class PostgresRequestLog(repository.PooledWrites):
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
            "addresses": [each.client_address for each in requests],
            "messages": [each.message for each in requests],
            "details": ["\n".join(each.details) for each in requests],
        }
        await self._run(SQL["save_requests"], parameters)


class RequestReads(repository.Reads):
    """Reads of the log of requests."""

    async def list_requests(
        self, account_id: UUID, wanted: views.RequestFilter, limit: int, before: UUID | None
    ) -> Sequence[request_log.LoggedRequest]:
        of_class = wanted.status_class
        conditions: Row = {
            "api_key_id": wanted.api_key_id,
            "status_class": None if of_class is None or of_class >= 4 else of_class,
            "refused_class": None if of_class is None or of_class < 4 else of_class,
            "path": wanted.path,
            "code": wanted.code,
        }
        statement = _LISTS[tuple(name for name, value in conditions.items() if value is not None)]
        begins_at, ends_at = wanted.begins_at, wanted.ends_at
        last = repository.NEWEST if ends_at is None else first_id(ends_at)
        parameters: Row = conditions | {
            "account_id": account_id, "limit": limit,
            "before": last if before is None else min(before, last),
            "first": repository.OLDEST if begins_at is None else first_id(begins_at),
        }  # fmt: skip
        return await self._list(REQUEST, statement, parameters)

    async def list_caused_deliveries(
        self, request: request_log.LoggedRequest
    ) -> Sequence[pages.DeliveryLine]:
        took = timedelta(milliseconds=request.duration_ms)
        return await self._list(
            DELIVERY_LINE,
            SQL["list_caused"],
            account_id=request.account_id,
            request_id=str(request.id),
            subject_id=request.subject_id,
            oldest_event=first_id(request.at),
            newest_event=first_id(request.at + took + _AFTERWARDS),
        )

    async def find_request(self, account_id: UUID, request_id: UUID) -> pages.RequestDetails | None:
        row = await self._one(SQL["find_request"], account_id=account_id, id=request_id)
        return None if row is None else pages.RequestDetails(REQUEST.read(row), row["key_name"] or "")

    async def find_request_of_any(self, request_id: UUID) -> request_log.LoggedRequest | None:
        return await self._find(REQUEST, SQL["find_request_of_any"], id=request_id)
