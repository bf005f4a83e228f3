"""Webhooks from end to end (spec 3 and 6): a customer, a meeting, and a receiver on loopback."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest
import standardwebhooks

from meetcore.domain.webhooks import signature
from tests.http.delivery_harness import HOST, DeliveryHarness, Opened
from tests.support.sandbox_recordings import press

SIGNATURE = signature.SIGNATURE_HEADER.lower()


@pytest.mark.spec("6/1", "6/2", "6/3", "5/9", "1/webhooks", "4.3/3", "6/kinds")
async def test_a_delivery_is_signed_and_contains_the_record(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("meeting.created")
    meeting = await customer.make_meeting(title="Rapat 🎉")
    [sent] = await office.next()

    assert (sent.method, sent.path, sent.headers["host"]) == ("POST", "/in?from=meetcore", HOST)
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["x-service-event"] == "meeting.created"
    assert sent.headers["x-service-delivery"]
    assert "authorization" not in sent.headers
    secret = webhook["secret"]
    assert secret.encode() not in sent.body
    assert secret not in str(sent.headers)

    payload = json.loads(sent.body)
    assert set(payload) == {"id", "type", "created_at", "api_version", "data"}
    assert payload["id"] == sent.headers["webhook-id"]
    assert (payload["type"], payload["api_version"]) == ("meeting.created", "v1")
    assert datetime.fromisoformat(payload["created_at"]).utcoffset() is not None
    assert payload["data"] == meeting | {"password": None, "host_key": None}
    assert meeting["password"].encode() not in sent.body

    now, header = int(time.time()), sent.headers[SIGNATURE]
    assert header.startswith("t=")
    signature.verify([secret], sent.body, header, now)
    assert standardwebhooks.Webhook(secret).verify(sent.body.decode(), sent.headers) == payload

    reserialised = json.dumps(payload).encode()
    assert reserialised != sent.body
    with pytest.raises(signature.WrongSignature):
        signature.verify([secret], reserialised, header, now)
    with pytest.raises(signature.TimestampRejected):
        signature.verify([secret], sent.body, header, now + 306)
    with pytest.raises(signature.WrongSignature):
        signature.verify([secret.swapcase()], sent.body, header, now)
    await office.shown(customer, webhook, consecutive_failures=0, is_active=True)


async def test_a_suspended_account_gets_events_of_work_begun_before(office: DeliveryHarness) -> None:
    customer = await office.harness.customer()
    await office.register(customer, "meeting.created", "meeting.ended")
    meeting = await customer.make_meeting()
    await office.harness.administration.suspend_account(customer.account_id)
    [created] = await office.next()
    assert created.headers["x-service-event"] == "meeting.created"
    assert (await customer.get("/me")).status_code == 401
    for button in ("start", "end"):
        await press(customer, meeting, button)
    [ended] = await office.next()
    assert ended.headers["x-service-event"] == "meeting.ended"
    assert json.loads(ended.body)["data"]["id"] == meeting["id"]


@pytest.mark.spec("1/webhooks", "6/kinds", "4.3/event_types", "5/8")
async def test_only_subscribed_events_are_sent(office: DeliveryHarness) -> None:
    customer, other = await office.harness.customer(150), await office.harness.customer()
    await office.register(customer, "meeting.ended", "credit.low", "credit.topup.succeeded")
    await other.make_meeting()
    meeting = await customer.make_meeting(pricing_tier_id="large-500")
    [low] = await office.next()
    assert low.headers["x-service-event"] == "credit.low"
    assert json.loads(low.body)["data"]["balance"] == 70
    await office.harness.query(
        "INSERT INTO sandbox_meetings (provider_meeting_id, state) VALUES (%s, 'started')",
        meeting["provider_meeting_id"],
    )
    await customer.delete(f"/meetings/{meeting['id']}")
    [ended] = await office.next()
    event = json.loads(ended.body)
    assert event["type"] == "meeting.ended"
    assert event["data"] == meeting | {"status": "ended", "password": None, "host_key": None}
    await office.harness.administration.top_up(customer.account_id, 30)
    [topped] = await office.next()
    assert json.loads(topped.body)["data"]["balance"] == 100


@pytest.mark.spec("6/2", "6/4", "3/re-enable")
async def test_a_retry_brings_the_same_event(opened: Opened) -> None:
    async with opened("0,0") as office:
        customer, webhook = await office.subscriber("meeting.created")
        office.receiver.answers[:] = [500, 302]
        await customer.make_meeting()
        sent = await office.next(3)
        assert len({each.body for each in sent}) == 1
        assert len({each.headers["webhook-id"] for each in sent}) == 1
        for each in sent:
            signature.verify([webhook["secret"]], each.body, each.headers[SIGNATURE], int(time.time()))
        await office.shown(customer, webhook, consecutive_failures=0)
        kept = await office.harness.query(
            "SELECT request_headers, response_headers FROM delivery_attempts WHERE account_id = %s"
            " ORDER BY number",
            customer.account_id,
        )
        for attempt, post in zip(kept, sent[:2], strict=True):
            for name in ("webhook-id", "webhook-timestamp"):
                assert f"{name}: {post.headers[name]}" in attempt["request_headers"]
            assert post.headers["webhook-signature"] not in attempt["request_headers"]
            assert "Content-Length:" in attempt["response_headers"]


@pytest.mark.spec("3/pause")
async def test_what_a_paused_endpoint_missed_comes_when_it_resumes(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("meeting.created")
    path = f"/webhooks/{webhook['id']}"
    await customer.patch(path, {"is_active": False})
    meetings = [await customer.make_meeting() for _ in range(3)]
    other = await office.register(await office.harness.customer(), "meeting.created")
    assert other["is_active"] is True
    assert office.receiver.received == []
    await customer.patch(path, {"is_active": True})
    sent = await office.next(3)
    meeting_ids = [json.loads(each.body)["data"]["id"] for each in sent]
    assert sorted(meeting_ids) == sorted(meeting["id"] for meeting in meetings)


@pytest.mark.spec("3/disable-at-20", "3/re-enable", "4.4/2", "6/5")
async def test_twenty_failures_disable_and_a_patch_enables_again(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("credit.topup.succeeded")
    top_up = office.harness.administration.top_up
    path = f"/webhooks/{webhook['id']}"
    office.receiver.status = 500

    for _ in range(2):
        for _ in range(19):
            await top_up(customer.account_id, 1)
        shown = await office.shown(customer, webhook, consecutive_failures=19)
        assert (shown["is_active"], shown["disabled_at"]) == (True, None)
        await top_up(customer.account_id, 1)
        shown = await office.shown(customer, webhook, consecutive_failures=20)
        assert shown["is_active"] is False
        assert datetime.fromisoformat(shown["disabled_at"]).utcoffset() is not None
        assert len(await office.next(20)) == 20

        enabled = (await customer.patch(path, {"is_active": True})).json()
        assert enabled["is_active"] is True
        assert (enabled["consecutive_failures"], enabled["disabled_at"]) == (0, None)

    office.receiver.answers[:] = [500]
    await top_up(customer.account_id, 1)
    await office.shown(customer, webhook, consecutive_failures=1)
    await top_up(customer.account_id, 1)
    await office.shown(customer, webhook, consecutive_failures=2)
    office.receiver.status = 200
    await top_up(customer.account_id, 1)
    await office.shown(customer, webhook, consecutive_failures=0, is_active=True)
