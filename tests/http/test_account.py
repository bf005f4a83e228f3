"""The account (spec 2.2, 4.2): its record, its tiers, its version, and what members do by hand."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from attrs import evolve

from meetcore.domain.members.roles import Role
from meetcore.domain.money.pricing import DEFAULT_TIERS
from meetcore.domain.requests.keys import Scope, dashboard_key, digest
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import Caller
from meetcore.usecases.requests.idempotency import IdempotentRequest
from meetcore.usecases.webhooks.endpoints import Registration
from tests.support.api_harness import TIER_CREDITS, Customer
from tests.support.sandbox_recordings import store_recording
from tests.support.texts import assert_contains
from tests.support.visitors import SignIn


@pytest.mark.spec("2.2/fields", "4.2/1", "5/6", "1/credits", "1/base")
async def test_the_account_record(customer: Customer) -> None:
    answer = await customer.get("/me")
    assert answer.status_code == 200
    record = answer.json()
    assert set(record) == {"user", "credits", "api_key"}
    assert record["user"] == {
        "id": str(customer.user_id),
        "email": customer.email,
        "full_name": "Sari Dewi",
    }
    assert str(UUID(record["user"]["id"])) == record["user"]["id"]
    assert record["credits"] == {"balance": 1000}
    assert set(record["api_key"]) == {"id", "scopes", "daily_credit_cap"}
    assert record["api_key"]["daily_credit_cap"] is None


@pytest.mark.spec("1/credits", "2.2/fields")
async def test_two_keys_see_one_balance_and_their_own_caps(customer: Customer) -> None:
    another_key = await customer.another_key(daily_cap=0)
    await customer.make_meeting()
    assert await another_key.balance() == await customer.balance() == 1000 - TIER_CREDITS
    assert (await another_key.get("/me")).json()["api_key"]["daily_credit_cap"] == 0


@pytest.mark.spec("4.2/errors")
async def test_me_takes_no_body(customer: Customer) -> None:
    assert (await customer.send("GET", "/me", raw=b"{broken")).status_code == 200


@pytest.mark.spec("1/op/pricing-tiers")
async def test_the_tiers_on_sale(customer: Customer) -> None:
    answer = await customer.get("/pricing-tiers")
    assert answer.status_code == 200
    assert answer.json()["next_cursor"] is None
    tiers = {tier["id"]: tier for tier in answer.json()["data"]}
    assert list(tiers) == ["standard-100", "standard-100-long", "plus-300", "large-500", "event-1000"]
    assert tiers["plus-300"] == {
        "id": "plus-300",
        "name": DEFAULT_TIERS.find("plus-300").name,
        "capacity": 300,
        "max_duration": 180,
        "duration_unit": "minutes",
        "credits": 40,
        "recording_credits": 15,
    }


Change = Callable[[Customer, dict[str, Any]], Awaitable[httpx.Response]]


async def version_of(customer: Customer) -> int:
    """The version of the account, as the next request of its key finds it."""
    caller = await customer.application.ports.queries.find_caller(digest(customer.key.text))
    assert caller is not None
    assert caller.version is not None
    return caller.version.number


async def _delete_recording(customer: Customer, _: dict[str, Any]) -> httpx.Response:
    recording = await store_recording(customer)
    return await customer.delete(f"/recordings/{recording['id']}")


async def _order_note(customer: Customer, _: dict[str, Any]) -> httpx.Response:
    recording = await store_recording(customer)
    return await customer.post("/notes", {"recording_id": recording["id"]})


async def _send_again(customer: Customer, hook: dict[str, Any]) -> httpx.Response:
    sent = (await customer.post(f"/webhooks/{hook['id']}/test", None)).json()
    return await customer.post(f"/webhooks/{hook['id']}/deliveries/{sent['id']}/resend", None)


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
    "a delivery sent again": _send_again,
    "a recovery": lambda customer, hook: customer.post(
        f"/webhooks/{hook['id']}/recover", {"since": f"{datetime.now(UTC):%Y-%m-%d}"}
    ),
    "a removed webhook": lambda customer, hook: customer.delete(f"/webhooks/{hook['id']}"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_each_change_that_is_asked_for_raises_the_version(customer: Customer, name: str) -> None:
    hook = await customer.make_webhook()
    before = await version_of(customer)
    answer = await CHANGES[name](customer, hook)
    assert answer.status_code < 300, answer.text
    assert await version_of(customer) > before


async def test_a_read_does_not_raise_it(customer: Customer) -> None:
    before = await version_of(customer)
    for path in ("/meetings", "/me", "/credits", "/webhooks"):
        assert (await customer.get(path)).status_code == 200
    assert await version_of(customer) == before


UNREPEATED = IdempotentRequest(None, b"")


async def member_of(customer: Customer) -> Caller:
    caller = await customer.application.ports.queries.find_caller(digest(customer.key.text))
    assert caller is not None
    key = dashboard_key(customer.account_id, customer.application.runtime.now())
    return Caller(key, caller.account, user_id=uuid4())


@pytest.mark.spec("2.3/fields")
async def test_an_endpoint_registered_by_hand_names_the_member(customer: Customer) -> None:
    member, now = await member_of(customer), customer.application.runtime.now()
    wanted = Registration(parse_webhook_url("https://hooks.test/by-hand"), (EventKind.MEETING_CREATED,))
    made = await customer.application.api.webhooks.register(member, wanted, UNREPEATED, now)
    assert made.record is not None
    assert (await customer.get(f"/webhooks/{made.record['id']}")).json()["created_by"] == str(member.user_id)


PAGE = "/dashboard/ledger"


async def test_entries_are_filtered_by_the_key_that_caused_them(customer: Customer, sign_in: SignIn) -> None:
    scopes = [Scope.MEETINGS_WRITE]
    second = await customer.application.administration.keys.create(customer.account_id, scopes, name="Two")
    async with customer.on() as there:  # a process that writes no uses of keys: the service does each minute
        await there.make_meeting()
        await evolve(there, key=second).make_meeting()
    browser = await sign_in(customer.account_id, Role.FINANCE)
    first, all_of_it = customer.key.key.id, (await browser.get(f"{PAGE}?key=any")).text
    assert f'<option value="{second.key.id}">Two' in all_of_it
    assert all_of_it.count('data-is="Balance after"') == 3
    for key_id in (first, second.key.id):
        for query in (f"key={key_id}", f"key={key_id}&kind=meeting_charge", f"key={key_id}&from=2020-01-01"):
            page = (await browser.get(f"{PAGE}?{query}")).text
            assert page.count('data-is="Balance after"') == 1, query
        file = (await browser.get(f"{PAGE}.csv?key={key_id}")).content.decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(file)))
        assert [row["api_key_id"] for row in rows] == [str(key_id)]
        nothing = (await browser.get(f"{PAGE}?key={key_id}&kind=topup")).text
        assert "Nothing was found." in nothing
    page = (await browser.get("/dashboard/keys")).text
    assert re.search(rf'href="{PAGE}\?key={first}"', page)
    # Spent today, and the use is not written yet.
    assert_contains(page, "<dt>Last used</dt><dd>no use recorded yet", absent=["never"])
