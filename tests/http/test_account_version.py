"""What a customer changes raises the version of its account, by which a standby is seen to lack it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from meetcore.domain.requests.keys import digest
from tests.support.api_harness import ApiHarness, Customer
from tests.support.sandbox_recordings import store_recording

Change = Callable[[Customer, dict[str, Any]], Awaitable[httpx.Response]]


async def version_of(harness: ApiHarness, customer: Customer) -> int:
    """The version of the account, as the next request of its key finds it."""
    caller = await harness.application.ports.queries.find_caller(digest(customer.key.text))
    assert caller is not None
    assert caller.version is not None
    return caller.version.number


async def _delete_recording(customer: Customer, _: dict[str, Any]) -> httpx.Response:
    recording = await store_recording(customer)
    return await customer.delete(f"/recordings/{recording['id']}")


async def _order_note(customer: Customer, _: dict[str, Any]) -> httpx.Response:
    recording = await store_recording(customer)
    return await customer.post("/notes", {"recording_id": recording["id"]})


async def _cancel(customer: Customer, _: dict[str, Any]) -> httpx.Response:
    meeting = await customer.make_meeting()
    return await customer.delete(f"/meetings/{meeting['id']}")


CHANGES: dict[str, Change] = {
    "a new meeting": lambda customer, _: customer.post("/meetings", customer.harness.body()),
    "a cancelled meeting": _cancel,
    "a deleted recording": _delete_recording,
    "a new note": _order_note,
    "a changed webhook": lambda customer, hook: customer.patch(
        f"/webhooks/{hook['id']}", {"description": "x"}
    ),
    "another secret": lambda customer, hook: customer.post(f"/webhooks/{hook['id']}/rotate-secret", None),
    "a test": lambda customer, hook: customer.post(f"/webhooks/{hook['id']}/test", None),
    "a recovery": lambda customer, hook: customer.post(
        f"/webhooks/{hook['id']}/recover", {"since": f"{datetime.now(UTC):%Y-%m-%d}"}
    ),
    "a removed webhook": lambda customer, hook: customer.delete(f"/webhooks/{hook['id']}"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_each_change_that_is_asked_for_raises_the_version(
    harness: ApiHarness, customer: Customer, name: str
) -> None:
    hook = await customer.make_webhook()
    before = await version_of(harness, customer)
    answer = await CHANGES[name](customer, hook)
    assert answer.status_code < 300, answer.text
    assert await version_of(harness, customer) > before


async def test_a_delivery_sent_again_raises_the_version(harness: ApiHarness, customer: Customer) -> None:
    hook = await customer.make_webhook()
    sent = (await customer.post(f"/webhooks/{hook['id']}/test", None)).json()
    before = await version_of(harness, customer)
    answer = await customer.post(f"/webhooks/{hook['id']}/deliveries/{sent['id']}/resend", None)
    assert answer.status_code == 202, answer.text
    assert await version_of(harness, customer) > before


async def test_a_read_does_not_raise_it(harness: ApiHarness, customer: Customer) -> None:
    before = await version_of(harness, customer)
    for path in ("/meetings", "/me", "/credits", "/webhooks"):
        assert (await customer.get(path)).status_code == 200
    assert await version_of(harness, customer) == before
