"""What became of requests: kept once, read by their own account and by operators, deleted in time."""

from datetime import datetime, timedelta

import pytest
from attrs import evolve

from meetcore.domain.ids import uuid7
from meetcore.domain.requests.request_log import LoggedRequest
from meetcore.ports.queries import MAX_PAGE
from meetcore.ports.request_log import RequestFilter
from meetcore.testing.contracts.store_rig import RequestLogRig
from meetcore.testing.contracts.transactions import AT, Customer, new_id, open_customer

SECOND = timedelta(seconds=1)
ANY = RequestFilter()


def new_request(customer: Customer, at: datetime = AT, status: int = 200) -> LoggedRequest:
    """A request of a customer's key."""
    id_ = uuid7(at, new_id().bytes[-10:])
    return LoggedRequest(id_, customer.account_id, customer.key_id, at, "GET", "/meetings/{id}", status, 12)


@pytest.mark.asyncio
class RequestLogContract:
    """What `ports.request_log` promises."""

    async def test_a_request_is_read_as_it_was_written(self, rig: RequestLogRig) -> None:
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

    async def test_a_request_that_is_written_again_is_kept_once(self, rig: RequestLogRig) -> None:
        customer = await open_customer(rig)
        first, second = new_request(customer), new_request(customer, AT + SECOND)
        await rig.request_log.save([first])
        await rig.request_log.save([evolve(first, status=500), second])
        found = await rig.queries.list_requests(customer.account_id, ANY, 9, None)
        assert list(found) == [second, first]
        await rig.request_log.save([])

    async def test_pages_are_of_a_key_and_of_a_class_of_status(self, rig: RequestLogRig) -> None:
        customer, other_key = await open_customer(rig), new_id()
        statuses = (200, 201, 404, 503, 204, 429, 500)
        made = [
            evolve(
                new_request(customer, AT + number * SECOND, status),
                api_key_id=customer.key_id if number % 2 else other_key,
            )
            for number, status in enumerate(statuses)
        ]
        await rig.request_log.save(made)
        made.reverse()
        for key_id in (None, customer.key_id, other_key, new_id()):
            for status_class in (None, 2, 4, 5):
                wanted = RequestFilter(key_id, status_class)
                expected = [
                    each
                    for each in made
                    if key_id in (None, each.api_key_id) and status_class in (None, each.status // 100)
                ]
                found = await rig.queries.list_requests(customer.account_id, wanted, MAX_PAGE, None)
                assert list(found) == expected
                if len(expected) > 1:
                    page = await rig.queries.list_requests(customer.account_id, wanted, 1, expected[0].id)
                    assert list(page) == expected[1:2]

    async def test_requests_of_before_an_instant_are_deleted(self, rig: RequestLogRig) -> None:
        customer = await open_customer(rig)
        old, young = [new_request(customer, AT + days * timedelta(days=1)) for days in (0, 1)]
        await rig.request_log.save([old, young])
        await rig.housekeeping.purge_requests(AT)
        assert await rig.queries.find_request(customer.account_id, old.id) == old
        assert await rig.housekeeping.purge_requests(AT + SECOND) >= 1
        assert await rig.queries.find_request(customer.account_id, old.id) is None
        assert await rig.queries.find_request(customer.account_id, young.id) == young
