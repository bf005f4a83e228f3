"""What a member of an account does by hand: paid like a request of a key, and shown without one."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from meetcore.domain.meetings.meetings import MeetingRequest
from meetcore.domain.requests.keys import dashboard_key, digest
from meetcore.domain.webhooks.events import EventKind
from meetcore.domain.webhooks.urls import parse_webhook_url
from meetcore.ports.queries import Caller
from meetcore.usecases.idempotency import IdempotentRequest
from meetcore.usecases.webhooks import Registration
from tests.support.api_harness import TIER_CREDITS, ApiHarness, Customer

UNREPEATED = IdempotentRequest(None, b"")


async def member_of(harness: ApiHarness, customer: Customer) -> Caller:
    caller = await harness.application.ports.queries.find_caller(digest(customer.key.text))
    assert caller is not None
    key = dashboard_key(customer.account_id, harness.application.runtime.now())
    return Caller(key, caller.account, user_id=uuid4())


@pytest.mark.spec("1/credits", "3/cancel-before")
async def test_a_meeting_made_by_hand_is_paid_refunded_and_shown_without_a_key(
    harness: ApiHarness, customer: Customer
) -> None:
    member, now = await member_of(harness, customer), harness.application.runtime.now()
    wanted = MeetingRequest(**harness.body())
    made = await harness.application.api.create_meeting(member, wanted, UNREPEATED, now)
    assert made.record is not None
    meeting_id = UUID(str(made.record["id"]))
    assert (await customer.get(f"/meetings/{meeting_id}")).status_code == 200
    await harness.application.api.cancel_meeting(member, meeting_id, UNREPEATED, now)
    listed = (await customer.get("/credits/transactions")).json()["data"]
    assert [(each["amount"], each["api_key_id"]) for each in listed[:2]] == [
        (TIER_CREDITS, None), (-TIER_CREDITS, None),
    ]  # fmt: skip
    assert await customer.balance() == 1000
    keys = await harness.application.ports.registry.list_keys(customer.account_id)
    assert [key.id for key in keys] == [customer.key.key.id], "it is kept nowhere"


@pytest.mark.spec("2.3/fields")
async def test_an_endpoint_registered_by_hand_names_the_member(
    harness: ApiHarness, customer: Customer
) -> None:
    member, now = await member_of(harness, customer), harness.application.runtime.now()
    wanted = Registration(parse_webhook_url("https://hooks.test/by-hand"), (EventKind.MEETING_CREATED,))
    made = await harness.application.api.register_webhook(member, wanted, UNREPEATED, now)
    assert made.record is not None
    assert (await customer.get(f"/webhooks/{made.record['id']}")).json()["created_by"] == str(member.user_id)
