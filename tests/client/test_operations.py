"""Every operation, with both clients, against the real service over HTTP."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from attrs import evolve

from meetcore.adapters.api.operation import UseCases
from meetcore.adapters.sandbox.postgres_state import PostgresSandboxState
from meetcore.adapters.sandbox.provider import SandboxProvider
from meetcore.client import Cancellation, DeliveryStatus, EventKind, MeetingStatus, TransferKind, errors
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from tests.client.clients import ClientUnderTest, open_client, served
from tests.support.api_harness import BASE_URL, ApiHarness, Customer, Funds, api_on

NO_ID = "01890000-0000-7000-8000-000000000000"


async def test_the_caller(invoke: ClientUnderTest, customer: Customer) -> None:
    account = await invoke("me")
    assert account.user.id == str(customer.user_id)
    assert (account.user.email, account.user.full_name) == (customer.email, "Sari Dewi")
    assert account.credits.balance == 1000
    assert set(account.api_key.scopes) == {*Scope}
    assert account.api_key.daily_credit_cap is None


async def test_the_tiers(invoke: ClientUnderTest) -> None:
    tiers = await invoke.items("pricing_tiers", page_size=2)
    assert [tier.id for tier in tiers] == [
        "standard-100", "standard-100-long", "plus-300", "large-500", "event-1000",
    ]  # fmt: skip
    assert (tiers[0].credits, tiers[0].recording_credits, tiers[0].duration_unit) == (10, 5, "minutes")


async def test_a_meeting_from_creation_to_cancellation(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    body = harness.body(title="Rapat 🎉", auto_notulen=True, description="Baris\nkedua", password="rahasia1")
    start = harness.slots.take()
    body |= {"date": start.date(), "start_time": start.time()}
    estimate = await invoke("credits.estimate_meeting", pricing_tier_id="standard-100", auto_notulen=True)
    meeting = await invoke("meetings.create", **body)
    assert (meeting.start_at, meeting.end_at) == (start, start + timedelta(hours=1))
    assert meeting.start_at.utcoffset() == timedelta(0)
    assert meeting.start_at_wib.utcoffset() == timedelta(hours=7)
    assert meeting.status == MeetingStatus.SCHEDULED
    assert (meeting.title, meeting.password) == ("Rapat 🎉", "rahasia1")
    assert (meeting.with_recording, meeting.credits_deducted) == (True, 15) == (
        estimate.with_recording, estimate.credits
    )  # fmt: skip
    assert sum(item.credits for item in estimate.items) == 15
    assert (estimate.type, estimate.balance, estimate.sufficient) == ("meeting", 1000, True)
    assert (await invoke("credits.estimate_notulen", duration=90)).credits == 90
    assert await invoke("meetings.get", meeting.id) == meeting
    assert await invoke("meetings.get", UUID(meeting.id)) == meeting
    cancelled = Cancellation(meeting.id, "cancelled", 15)
    assert await invoke("meetings.cancel", meeting.id) == cancelled
    assert await invoke("meetings.cancel", meeting.id) == cancelled
    assert (await invoke("me")).credits.balance == 1000


@pytest.mark.spec("4/idem-replay")
async def test_the_same_key_is_the_same_meeting(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    body = harness.body()
    first = await invoke("meetings.create", **body, idempotency_key="order-4711")
    assert await invoke("meetings.create", **body, idempotency_key="order-4711") == first
    assert (await invoke("me")).credits.balance == 990
    with pytest.raises(errors.IdempotencyKeyReused) as caught:
        await invoke("meetings.create", **body | {"title": "Lain"}, idempotency_key="order-4711")
    assert caught.value.idempotency_key == "order-4711"


async def test_refusals_of_a_request_have_typed_details(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    with pytest.raises(errors.InvalidRequest) as invalid:
        await invoke("meetings.create", **harness.body(title="", date="soon"))
    assert set(invalid.value.fields) == {"title", "date"}
    assert all(invalid.value.fields.values())
    assert str(invalid.value).startswith(f"invalid_request: {invalid.value.message} ")
    assert f". title: {invalid.value.fields['title'][0]} (request " in str(invalid.value)
    with pytest.raises(errors.NotFound) as missing:
        await invoke("meetings.get", NO_ID)
    error = missing.value
    assert (error.code, error.status, error.attempts, dict(error.details)) == ("not_found", 404, 1, {})
    assert error.message
    assert error.docs_url.endswith("/docs/errors/not_found")
    assert UUID(error.request_id).version == 7
    assert str(error) == f"not_found: {error.message} (request {error.request_id})"
    yesterday = datetime.now(WIB) - timedelta(days=1)
    with pytest.raises(errors.Unprocessable):
        await invoke("meetings.create", **harness.body(date=f"{yesterday:%Y-%m-%d}"))


async def test_refusals_of_a_key_have_typed_details(harness: ApiHarness, kind: str, service_url: str) -> None:
    poor_customer = await harness.customer(credits=3, scopes=(Scope.MEETINGS_WRITE,))
    capped = await harness.customer(daily_cap=4)
    async with open_client(kind, service_url, poor_customer.key.text) as invoke:
        with pytest.raises(errors.InsufficientCredits) as short:
            await invoke("meetings.create", **harness.body())
        with pytest.raises(errors.InsufficientScope) as narrow:
            await invoke.items("webhooks.list")
    assert (short.value.required, short.value.available) == (10, 3)
    assert narrow.value.required == ("webhooks:read", "webhooks:write")
    async with open_client(kind, service_url, capped.key.text) as invoke:
        with pytest.raises(errors.CreditCapExceeded) as over:
            await invoke("meetings.create", **harness.body())
    assert (over.value.cap, over.value.spent, over.value.required) == (4, 0, 10)
    assert over.value.resets_at is not None
    assert over.value.resets_at.astimezone(WIB).time() == time(0)
    async with open_client(kind, service_url, f"mk_live_{'x' * 43}") as invoke:
        with pytest.raises(errors.InvalidApiKey):
            await invoke("me")


async def test_a_webhook_from_creation_to_deletion(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    body = harness.webhook_body(event_types=[EventKind.MEETING_CREATED, "meeting.ended"], description="A")
    made = await invoke("webhooks.create", **body)
    assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", made.secret)
    assert (made.url, made.event_types) == (body["url"], ("meeting.created", "meeting.ended"))
    assert made.is_active
    assert made.disabled_at is None
    with pytest.raises(errors.Conflict) as twice:
        await invoke("webhooks.create", **body)
    assert twice.value.existing_id == made.id
    assert await invoke("webhooks.get", made.id) == made
    rotated = await invoke("webhooks.rotate_secret", made.id)
    assert rotated.secret not in (made.secret, None)
    assert (await invoke("webhooks.rotate_secret", made.id, overlap=0)).secret != rotated.secret
    await invoke("webhooks.delete", made.id)
    with pytest.raises(errors.NotFound):
        await invoke("webhooks.get", made.id)


async def test_an_update_changes_only_given_arguments(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    changed = made = await invoke("webhooks.create", **harness.webhook_body(description="A"))
    for change, description, is_active in (
        ({"event_types": (EventKind.CREDIT_LOW,)}, "A", True), ({"description": None}, None, True),
        ({"is_active": False}, None, False),
    ):  # fmt: skip
        changed = await invoke("webhooks.update", made.id, **change)
        assert changed.event_types == ("credit.low",)
        assert (changed.description, changed.is_active) == (description, is_active)
    assert changed.secret is None, "an update does not show it"
    assert await invoke("webhooks.update", made.id) == changed
    with pytest.raises(errors.Conflict):
        await invoke("webhooks.test", made.id)


async def test_deliveries_are_read_page_after_page(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    hook = await invoke("webhooks.create", **harness.webhook_body())
    sent = [await invoke("webhooks.test", hook.id) for _ in range(5)]
    newest_first = [each.id for each in reversed(sent)]
    assert {each.event_type for each in sent} == {EventKind.WEBHOOK_TEST}
    found = await invoke.items("webhooks.deliveries", hook.id, page_size=2)
    assert [each.id for each in found] == newest_first
    pages = await invoke.pages("webhooks.deliveries", hook.id, page_size=2)
    assert [len(page.data) for page in pages] == [2, 2, 1]
    assert [page.next_cursor is None for page in pages] == [False, False, True]
    older = await invoke.pages("webhooks.deliveries", hook.id, page_size=2, cursor=pages[0].next_cursor)
    assert [page.data[0].id for page in older] == [newest_first[2], newest_first[4]]
    assert (await invoke("webhooks.delivery", hook.id, sent[0].id)).event_id == sent[0].event_id
    again = await invoke("webhooks.resend", hook.id, sent[0].id)
    assert (again.event_id, again.id == sent[0].id) == (sent[0].event_id, False)
    assert await invoke.items("webhooks.deliveries", hook.id, status=DeliveryStatus.EXPIRED) == []


async def test_webhooks_are_listed_without_their_secrets(
    invoke: ClientUnderTest, harness: ApiHarness
) -> None:
    made = [await invoke("webhooks.create", **harness.webhook_body()) for _ in range(3)]
    listed = await invoke.items("webhooks.list", page_size=1)
    assert [each.id for each in listed] == [each.id for each in reversed(made)]
    assert {each.secret for each in listed} == {None}


async def test_the_rate_limit_is_that_of_the_last_response(invoke: ClientUnderTest) -> None:
    assert rate_of(invoke) is None
    await invoke("me")
    rate = rate_of(invoke)
    assert (rate.limit, rate.remaining, rate.operation_class) == (10_000, 9_999, "read")
    assert rate.resets_at.second == 0
    assert timedelta(0) < rate.resets_at - datetime.now(UTC) <= timedelta(minutes=1)
    await invoke("me")
    assert rate_of(invoke).remaining in (9_998, 9_999), "another minute may have begun"
    with pytest.raises(errors.NotFound):
        await invoke("meetings.cancel", NO_ID)
    assert rate_of(invoke).operation_class == "write", "a refusal has it too"


def rate_of(invoke: ClientUnderTest) -> Any:
    return invoke.client.rate_limit


@pytest.mark.spec("4/idem-replay", "7/502")
@pytest.mark.parametrize("fault", ["late", "drop"])
async def test_a_meeting_whose_answer_was_lost_comes_with_the_retry(
    harness: ApiHarness, customer: Customer, kind: str, fault: str
) -> None:
    state = PostgresSandboxState(harness.pool)
    provider = SandboxProvider(BASE_URL, state, bytes(32), timeout_s=0.05)
    async with (
        api_on(harness.application, settle_soon, provider=provider) as app,
        served(app) as url,
        open_client(kind, url, customer.key.text) as invoke,
    ):
        made = await invoke("meetings.create", **harness.body(title=f"[sandbox:{fault}]"))
    assert made.status == MeetingStatus.SCHEDULED
    assert await customer.funds() == Funds(990, 0, 2)
    assert await customer.meeting_statuses() == ["scheduled"]


def settle_soon(use: UseCases) -> UseCases:
    """A short lease and a short timeout, so that a meeting is settled while the client retries."""
    return evolve(use, create_meeting=evolve(use.create_meeting, lease_s=0.6, wait_s=5, poll_s=0.01))


async def test_the_balance_and_the_daily_cap(
    invoke: ClientUnderTest, harness: ApiHarness, kind: str, service_url: str
) -> None:
    balance = await invoke("credits.get")
    assert (balance.balance, balance.held, balance.available, balance.daily_cap) == (1000, 0, 1000, None)
    capped = await harness.customer(daily_cap=40)
    async with open_client(kind, service_url, capped.key.text) as other:
        await other("meetings.create", **harness.body())
        cap = (await other("credits.get")).daily_cap
    assert (cap.cap, cap.spent, cap.remaining) == (40, 10, 30)
    assert cap.resets_at > datetime.now(UTC)


async def test_the_ledger(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    made = await invoke("meetings.create", **harness.body())
    await invoke("meetings.cancel", made.id)
    refund, charge, topup = await invoke.items("credits.transactions", page_size=2)
    wanted = {"kind": TransferKind.TOPUP, "from_": date(2026, 1, 1), "to": datetime(2100, 1, 1, tzinfo=WIB)}
    assert await invoke.items("credits.transactions", **wanted) == [topup]
    assert [each.kind for each in (topup, charge, refund)] == [
        TransferKind.TOPUP, TransferKind.MEETING_CHARGE, TransferKind.MEETING_REFUND,
    ]  # fmt: skip
    assert [each.amount for each in (topup, charge, refund)] == [1000, -10, 10]
    assert (charge.reference.type, charge.reference.id) == ("meeting", made.id)
    assert (refund.reverses, refund.balance_after) == (charge.id, 1000)


async def test_meetings_are_listed(invoke: ClientUnderTest, harness: ApiHarness) -> None:
    made = [await invoke("meetings.create", **harness.body()) for _ in range(3)]
    await invoke("meetings.cancel", made[0].id)
    assert [each.id for each in await invoke.items("meetings.list", page_size=2)] == [
        each.id for each in reversed(made)
    ]
    scheduled = await invoke.items("meetings.list", status=MeetingStatus.SCHEDULED)
    assert [each.id for each in scheduled] == [made[2].id, made[1].id]
    between = await invoke.items("meetings.list", from_=made[1].start_at, to=made[2].start_at)
    assert [each.id for each in between] == [made[1].id]
    of_a_day: list[Any] = await invoke.items("meetings.list", to=date(2020, 1, 1))
    assert of_a_day == []
