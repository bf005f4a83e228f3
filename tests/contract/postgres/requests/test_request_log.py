"""Requests: their log, and the last uses of keys."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from attrs import evolve

from meetcore.domain.ids import uuid7
from meetcore.domain.records.pages import RequestDetails
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.domain.requests.views import RequestFilter
from meetcore.domain.webhooks.events import Event, EventKind
from meetcore.testing import ledger as ledger_transactions
from tests.support.postgres_rig import PostgresRig
from tests.support.transactions import AT, Customer, new_endpoint, new_id, open_customer, register

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
ANY = RequestFilter()


def new_request(customer: Customer, at: datetime = AT, status: int = 200) -> LoggedRequest:
    id_ = uuid7(at, new_id().bytes[-10:])
    return LoggedRequest(id_, customer.account_id, customer.key_id, at, "GET", "/meetings/{id}", status, 12)


async def test_a_request_is_read_as_it_was_written(rig: PostgresRig) -> None:
    customer, other = await open_customer(rig), await open_customer(rig)
    bare = new_request(customer)
    full = evolve(
        new_request(customer, AT + SECOND), method="create_meeting", path="", status=409,
        code="conflict", subject_id=new_id(), duration_ms=0, client_address="203.0.113.7",
        message="A webhook has this URL.", details=("fields.url", "id"),
    )  # fmt: skip
    await rig.request_log.save([bare, full])
    assert list(await rig.queries.list_requests(customer.account_id, ANY, 9, None)) == [full, bare]
    found = await rig.queries.find_request(customer.account_id, full.id)
    [key] = await rig.registry.list_keys(customer.account_id)
    assert found == RequestDetails(full, key.name)
    assert await rig.queries.find_request(other.account_id, full.id) is None
    assert await rig.queries.find_request_of_any(full.id) == full
    assert await rig.queries.find_request_of_any(new_id()) is None
    assert list(await rig.queries.list_requests(other.account_id, ANY, 9, None)) == []


async def test_requests_of_an_erased_account_are_not_written(rig: PostgresRig, customer: Customer) -> None:
    other = await open_customer(rig)
    async with rig.store.begin() as tx:
        await tx.lock_account(customer.account_id)
        await tx.erasures.start(customer.account_id, AT)
    written = new_request(other)
    await rig.request_log.save([new_request(customer), written])
    assert list(await rig.queries.list_requests(customer.account_id, ANY, 9, None)) == []
    assert list(await rig.queries.list_requests(other.account_id, ANY, 9, None)) == [written]


async def test_requests_are_listed_by_path_code_and_time(rig: PostgresRig, customer: Customer) -> None:
    first, second, third = (new_request(customer, AT + number * SECOND) for number in range(3))
    first, second = evolve(first, path=""), evolve(second, code="gone", status=410)
    await rig.request_log.save([first, second, third])

    async def listed(wanted: RequestFilter, before: UUID | None = None) -> list[LoggedRequest]:
        return list(await rig.queries.list_requests(customer.account_id, wanted, 9, before))

    assert await listed(RequestFilter(path="")) == [first]
    assert await listed(RequestFilter(path="/meetings/{id}")) == [third, second]
    assert await listed(RequestFilter(path="/meetings/{id}", code="gone", status_class=4)) == [second]
    assert await listed(RequestFilter(code="conflict")) == []
    assert await listed(RequestFilter(begins_at=AT + SECOND)) == [third, second]
    assert await listed(RequestFilter(begins_at=AT, ends_at=AT + SECOND)) == [first]
    assert await listed(RequestFilter(ends_at=AT + SECOND), before=third.id) == [first]
    assert await listed(RequestFilter(ends_at=AT + 2 * SECOND), before=second.id) == [first]


async def test_deliveries_are_found_by_the_request_that_caused_them(
    rig: PostgresRig, customer: Customer
) -> None:
    created, failed = EventKind.MEETING_CREATED, EventKind.NOTE_FAILED
    endpoint = await register(rig, new_endpoint(customer, created, failed))
    request = evolve(new_request(customer), duration_ms=2000, subject_id=new_id())
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    def event(kind: EventKind, at: datetime, cause: str | None, subject: UUID | None = None) -> Event:
        id_ = uuid7(at, new_id().bytes[-10:])
        return Event(id_, customer.account_id, kind, at, {}, subject, cause)

    own, later = str(request.id), AT + 10 * MINUTE
    caused = [
        event(created, AT, own),
        event(created, AT + 2 * SECOND, f"{trace} {own}"),
        event(failed, later, own, request.subject_id),
    ]
    others = [
        event(created, AT, None),
        event(created, AT, str(new_id())),
        event(created, later, own),  # not looked for so long after the request
        event(failed, later, None, request.subject_id),
    ]
    await ledger_transactions.top_up(rig, customer, 1, "r", *caused, *others)
    found = await rig.queries.list_caused_deliveries(request)
    assert [each.event_id for each in found] == [each.id for each in caused]
    assert {(each.endpoint_id, each.url, each.attempts_made) for each in found} == {
        (endpoint.id, endpoint.url, 0)
    }
    assert found[2].event_kind is failed
    without = await rig.queries.list_caused_deliveries(evolve(request, subject_id=None))
    assert len(without) == 2
    other = await open_customer(rig)
    stranger = evolve(request, account_id=other.account_id)
    assert list(await rig.queries.list_caused_deliveries(stranger)) == []


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
    assert await rig.queries.find_request(customer.account_id, old.id) is not None
    assert await rig.housekeeping.purge_requests(AT + SECOND) >= 1
    assert await rig.queries.find_request(customer.account_id, old.id) is None
    assert await rig.queries.find_request(customer.account_id, young.id) is not None


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
