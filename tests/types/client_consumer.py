"""A caller of the client in strict mode: the type of each result is asserted. Checked, never run.

`make static` checks it against the source; `tests/e2e/test_wheel.py` against the installed wheel.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import IO, Any, assert_type
from uuid import UUID

from meetcore import client as meetcore
from meetcore.client import AsyncClient, Client, EventKind, MeetingStatus


def blocking(day: date, at: datetime, meeting_id: UUID) -> None:
    with Client("https://meet.example.com", "mk_live_", timeout_s=5, max_attempts=3) as client:
        assert_type(client.me(), meetcore.Account)
        assert_type(client.rate_limit, meetcore.RateLimit | None)
        meeting = client.meetings.create(
            title="A", date=day, start_time=time(9), pricing_tier_id="standard-100", idempotency_key="order-1"
        )
        assert_type(meeting, meetcore.Meeting)
        assert_type(meeting.start_at, datetime)
        assert_type(meeting.status, str)
        assert_type(client.meetings.get(meeting_id), meetcore.Meeting)
        assert_type(client.meetings.cancel(meeting.id).credits_refunded, int)
        meetings = client.meetings.list(status=MeetingStatus.STARTED, from_=day, to=at, page_size=100)
        assert_type(meetings, meetcore.Pages[meetcore.Meeting])
        assert_type(iter(meetings), Iterator[meetcore.Meeting])
        assert_type(meetings.pages(), Iterator[meetcore.Page[meetcore.Meeting]])
        for tier in client.pricing_tiers():
            assert_type(tier, meetcore.PricingTier)
        assert_type(client.credits.get().daily_cap, meetcore.DailyCap | None)
        assert_type(client.credits.estimate_meeting(pricing_tier_id="x"), meetcore.Estimate)
        assert_type(client.credits.estimate_notulen(duration=90).items, tuple[meetcore.EstimateItem, ...])
        assert_type(client.credits.transactions(), meetcore.Pages[meetcore.Transaction])
        hook = client.webhooks.create(url="https://x", event_types=[EventKind.CREDIT_LOW, "meeting.created"])
        assert_type(hook.secret, str | None)
        assert_type(client.webhooks.update(hook.id, description=None), meetcore.Webhook)
        assert_type(client.webhooks.rotate_secret(hook.id, overlap=0), meetcore.Webhook)
        assert_type(client.webhooks.test(hook.id), meetcore.Delivery)
        assert_type(client.webhooks.deliveries(hook.id, status="failed"), meetcore.Pages[meetcore.Delivery])
        assert_type(client.webhooks.resend(hook.id, "x").attempts, tuple[meetcore.Attempt, ...])
        assert_type(client.webhooks.recover(hook.id, since=at), meetcore.Recovery)
        client.webhooks.delete(hook.id)
        assert_type(client.events.list(type=EventKind.CREDIT_LOW, from_=day), meetcore.Pages[meetcore.Event])
        assert_type(client.events.get("x"), meetcore.Event)
        ledger = client.credits.transactions(kind=meetcore.TransferKind.TOPUP, from_=day, to=at)
        assert_type(ledger, meetcore.Pages[meetcore.Transaction])


def more(client: Client, file: IO[bytes]) -> None:
    assert_type(Client(), Client)
    assert_type(client.with_options(timeout_s=2, headers={"traceparent": "x"}), Client)
    assert_type(client.notes.wait("x", timeout_s=60), meetcore.Note)
    assert_type(client.recordings.download("x", Path("a.mp4")).paths, tuple[Path, ...])
    assert_type(client.recordings.download("x", file, part=1), meetcore.Download)
    response = client.with_response.meetings.get("x")
    assert_type(response, meetcore.Response[meetcore.Meeting])
    assert_type(response.request_id, str | None)
    for page in client.with_response.notes.list(meeting_id="x"):
        assert_type(page.result.data, tuple[meetcore.Note, ...])


async def more_awaited(client: AsyncClient) -> None:
    assert_type(await client.notes.wait(meeting_id="x"), meetcore.Note)
    assert_type(await client.recordings.download("x", "a.mp4"), meetcore.Download)
    assert_type(await client.with_response.me(), meetcore.Response[meetcore.Account])
    assert_type(client.with_options(max_attempts=1), AsyncClient)
    async for page in client.with_response.meetings.list():
        assert_type(page, meetcore.Response[meetcore.Page[meetcore.Meeting]])


async def awaited(day: date) -> None:
    async with AsyncClient("https://meet.example.com", "mk_live_") as client:
        assert_type(await client.me(), meetcore.Account)
        meeting = await client.meetings.create(
            title="A", date="2026-12-01", start_time="09:00", pricing_tier_id="standard-100"
        )
        assert_type(meeting, meetcore.Meeting)
        meetings = client.meetings.list(from_=day)
        assert_type(meetings, meetcore.AsyncPages[meetcore.Meeting])
        assert_type(meetings.pages(), AsyncIterator[meetcore.Page[meetcore.Meeting]])
        async for each in client.webhooks.deliveries("x"):
            assert_type(each, meetcore.Delivery)
        await client.webhooks.delete("x")


def mistakes(client: Client, at: datetime) -> None:
    client.meetings.get(7)  # type: ignore[arg-type]
    client.meetings.create(title="A")  # type: ignore[call-arg]
    client.credits.estimate_meeting(pricing_tier_id="x", sings=True)  # type: ignore[call-arg]
    client.credits.estimate_meeting(pricing_tier_id="x", mic_off="yes")  # type: ignore[arg-type]
    client.meetings.get("x", retries=3)  # type: ignore[call-arg]
    client.meetings.cancel("x").credits_refunded = 3  # type: ignore[misc]
    client.meetings.list(page_size="all")  # type: ignore[arg-type]
    client.webhooks.update("x", is_active=None)  # type: ignore[arg-type]
    Client(timeout_s="long")  # type: ignore[arg-type]
    client.with_options(retries=3)  # type: ignore[call-arg]
    client.with_response.notes.wait("x")  # type: ignore[arg-type]
    client.credits.transactions(since=at)  # type: ignore[call-arg]
    client.recordings.download("x", io.StringIO())  # type: ignore[arg-type]
    Client("https://meet.example.com", "mk_live_", 30.0)  # type: ignore[call-arg]


def verified(secret: str, headers: Mapping[str, str], raw_body: bytes) -> None:
    event = meetcore.verify_webhook([secret], headers, raw_body)
    assert_type(event.data, Mapping[str, Any])
    match event.record:
        case meetcore.Meeting() as meeting:
            assert_type(meeting.join_url, str | None)
        case meetcore.BalanceChange(available=available):
            assert_type(available, int)


def refused(error: meetcore.MeetcoreError) -> None:
    assert_type(error.request_id, str | None)
    assert_type(error.idempotency_key, str | None)
    match error:
        case meetcore.InsufficientCredits():
            assert_type(error.required, int | None)
        case meetcore.InvalidRequest():
            assert_type(error.fields, dict[str, tuple[str, ...]])
        case meetcore.ApiError():
            assert_type(error.code, str)
            assert_type(error.details, Mapping[str, object])
