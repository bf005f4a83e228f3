"""Requests: their log, and the last uses of keys."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.domain.ids import uuid7
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.domain.requests.views import RequestFilter
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import AT, Customer, new_id, open_customer

SECOND = timedelta(seconds=1)
ANY = RequestFilter()


def new_request(customer: Customer, at: datetime = AT, status: int = 200) -> LoggedRequest:
    id_ = uuid7(at, new_id().bytes[-10:])
    return LoggedRequest(id_, customer.account_id, customer.key_id, at, "GET", "/meetings/{id}", status, 12)


async def test_a_request_is_read_as_it_was_written(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    bare = new_request(customer)
    full = evolve(
        new_request(customer, AT + SECOND), method="create_meeting", path="", status=409,
        code="conflict", subject_id=new_id(), duration_ms=0,
    )  # fmt: skip
    await rig.request_log.save([bare, full])
    assert list(await rig.queries.list_requests(customer.account_id, ANY, 9, None)) == [full, bare]
    assert await rig.queries.find_request(customer.account_id, full.id) == full
    assert await rig.queries.find_request(other.account_id, full.id) is None
    assert await rig.queries.find_request_of_any(full.id) == full
    assert await rig.queries.find_request_of_any(new_id()) is None
    assert list(await rig.queries.list_requests(other.account_id, ANY, 9, None)) == []


async def test_a_request_that_is_written_again_is_kept_once(rig: PostgresRig, customer: Customer) -> None:
    first, second = new_request(customer), new_request(customer, AT + SECOND)
    await rig.request_log.save([first])
    await rig.request_log.save([evolve(first, status=500), second])
    found = await rig.queries.list_requests(customer.account_id, ANY, 9, None)
    assert list(found) == [second, first]
    await rig.request_log.save([])


async def test_requests_of_before_an_instant_are_deleted(rig: PostgresRig, customer: Customer) -> None:
    old, young = [new_request(customer, AT + days * timedelta(days=1)) for days in (0, 1)]
    await rig.request_log.save([old, young])
    await rig.housekeeping.purge_requests(AT)
    assert await rig.queries.find_request(customer.account_id, old.id) == old
    assert await rig.housekeeping.purge_requests(AT + SECOND) >= 1
    assert await rig.queries.find_request(customer.account_id, old.id) is None
    assert await rig.queries.find_request(customer.account_id, young.id) == young


MINUTE = timedelta(minutes=1)


async def _last_used(rig: PostgresRig, account_ids: Sequence[UUID]) -> list[datetime | None]:
    return [(await rig.registry.list_keys(account_id))[0].last_used_at for account_id in account_ids]


async def test_the_latest_use_is_stored_whenever_it_is_written(rig: PostgresRig) -> None:
    first, second, unused = [await open_customer(rig) for _ in range(3)]
    accounts = [customer.account_id for customer in (first, second, unused)]
    assert await _last_used(rig, accounts) == [None] * 3
    await rig.key_uses.save({first.key_id: AT, second.key_id: AT + MINUTE, new_id(): AT})
    assert await _last_used(rig, accounts) == [AT, AT + MINUTE, None]
    await rig.key_uses.save({first.key_id: AT + MINUTE, second.key_id: AT})
    assert await _last_used(rig, accounts) == [AT + MINUTE, AT + MINUTE, None]


async def test_processes_that_write_the_same_keys_at_once_wait_for_each_other(rig: PostgresRig) -> None:
    customers = [await open_customer(rig) for _ in range(20)]
    await asyncio.gather(
        *(
            rig.key_uses.save({one.key_id: AT + minute * MINUTE for one in customers[:: (-1) ** minute]})
            for minute in range(12)
        )
    )
    assert await _last_used(rig, [one.account_id for one in customers]) == [AT + 11 * MINUTE] * 20
