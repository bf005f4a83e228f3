"""Events and the results of deliveries, and requested deliveries, with a receiver on loopback (spec 6)."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import standardwebhooks

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks import signature
from meetcore.domain.webhooks.events import EVENTS_KEPT
from tests.http.delivery_harness import HOST, DeliveryHarness, Opened
from tests.http.test_webhook_operations import NO_ID, pages, without_secret
from tests.support.api_harness import Customer, code_of, fields_of, new_key, until

SIGNATURE = signature.SIGNATURE_HEADER.lower()
FIELDS = {"id", "event_id", "event_type", "status", "attempts", "next_attempt_at", "created_at"}
ATTEMPT_FIELDS = {"at", "duration_ms", "status_code", "error", "response_excerpt"}


async def settled(
    customer: Customer, webhook: dict[str, Any], status: str, count: int = 1
) -> list[dict[str, Any]]:
    """Wait until so many deliveries stand in a status, and give them."""

    async def look() -> list[dict[str, Any]] | None:
        answer = await customer.get(f"/webhooks/{webhook['id']}/deliveries?status={status}")
        found: list[dict[str, Any]] = answer.json()["data"]
        return found if len(found) >= count else None

    deliveries: list[dict[str, Any]] = await until(look)
    return deliveries


@pytest.mark.spec("6/7", "1/op/deliveries")
async def test_every_attempt_can_be_inspected(opened: Opened) -> None:
    async with opened("0") as office:
        customer, webhook = await office.subscriber("meeting.created")
        office.receiver.answers[:] = [503]
        meeting = await customer.make_meeting()
        sent = await office.next(2)
        [delivery] = await settled(customer, webhook, "succeeded")

        assert set(delivery) == FIELDS
        assert UUID(delivery["id"]).version == 7
        assert delivery["id"] == sent[0].headers["x-service-delivery"]
        assert delivery["event_id"] == sent[0].headers["webhook-id"]
        assert (delivery["event_type"], delivery["next_attempt_at"]) == ("meeting.created", None)
        assert delivery["created_at"] == json.loads(sent[0].body)["created_at"]
        refused, taken = delivery["attempts"]
        assert set(refused) == set(taken) == ATTEMPT_FIELDS
        assert (refused["status_code"], refused["error"]) == (503, "status_503")
        assert (taken["status_code"], taken["error"]) == (204, None)
        for attempt in (refused, taken):
            assert datetime.fromisoformat(attempt["at"]).utcoffset() is not None
            assert 0 <= attempt["duration_ms"] < 10_000

        path = f"/webhooks/{webhook['id']}/deliveries/{delivery['id']}"
        assert (await customer.get(path)).json() == delivery
        assert (await (await customer.another_key([Scope.WEBHOOKS_READ])).get(path)).json() == delivery
        assert json.loads(sent[0].body)["data"] == meeting | {"password": None}
        addresses = "delivery_attempts a JOIN deliveries d ON d.id = a.delivery_id"
        [row] = await office.harness.query(f"SELECT a.address, d.success_address FROM {addresses}")
        assert set(row.values()) == {"127.0.0.1"}
        assert "127.0.0.1" not in json.dumps(delivery), "the operator's secret"


@pytest.mark.spec("6/7", "1/op/deliveries", "3/pause")
async def test_deliveries_are_listed_newest_first_by_status_and_in_pages(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("credit.topup.succeeded")
    path = f"/webhooks/{webhook['id']}/deliveries"
    top_up = office.harness.administration.top_up
    for _ in range(3):
        await top_up(customer.account_id, 1)
    await settled(customer, webhook, "succeeded", 3)
    office.receiver.status = 410
    await top_up(customer.account_id, 1)
    [failed] = await settled(customer, webhook, "failed")
    await customer.patch(f"/webhooks/{webhook['id']}", {"is_active": False})
    await top_up(customer.account_id, 1)
    [held] = await settled(customer, webhook, "held")

    everything = (await customer.get(path)).json()["data"]
    ids = [delivery["id"] for delivery in everything]
    assert ids == sorted(ids, reverse=True)
    assert everything[:2] == [held, failed]
    assert [delivery["status"] for delivery in everything] == ["held", "failed"] + ["succeeded"] * 3
    assert (held["attempts"], held["next_attempt_at"]) == ([], None)
    assert failed["attempts"][0]["error"] == "status_410"
    assert await pages(customer, f"{path}?limit=2") == [everything[:2], everything[2:4], everything[4:]]
    assert await pages(customer, f"{path}?limit=2&status=succeeded") == [everything[2:4], everything[4:]]
    assert (await customer.get(f"{path}?status=expired")).json() == {"data": [], "next_cursor": None}


@pytest.mark.spec("6/kinds", "1/webhooks", "6/2", "5/9")
async def test_a_test_event_reaches_one_endpoint_subscribed_or_not(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("meeting.created")
    await customer.make_webhook(url=f"https://{HOST}/other", event_types=["webhook.test"])
    answer = await customer.post(f"/webhooks/{webhook['id']}/test", None)
    assert answer.status_code == 202
    delivery = answer.json()
    assert (delivery["status"], delivery["event_type"], delivery["attempts"]) == (
        "pending",
        "webhook.test",
        [],
    )
    assert delivery["next_attempt_at"] is not None

    [done] = await settled(customer, webhook, "succeeded")
    assert done | {"status": 0, "attempts": 0, "next_attempt_at": 0} == delivery | {
        "status": 0, "attempts": 0, "next_attempt_at": 0,
    }  # fmt: skip
    [sent] = await office.next()
    assert (sent.path, sent.headers["x-service-event"]) == ("/in?from=meetcore", "webhook.test")
    assert sent.headers["x-service-delivery"] == delivery["id"]
    payload = json.loads(sent.body)
    assert (payload["id"], payload["type"]) == (delivery["event_id"], "webhook.test")
    assert payload["data"] == without_secret(webhook)
    signature.verify([webhook["secret"]], sent.body, sent.headers[SIGNATURE], int(time.time()))


@pytest.mark.spec("6/7", "6/2", "6/3")
async def test_a_delivery_can_be_sent_again_as_the_same_event(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("meeting.created")
    office.receiver.answers[:] = [410]
    await customer.make_meeting()
    [first] = await office.next()
    [failed] = await settled(customer, webhook, "failed")
    path = f"/webhooks/{webhook['id']}/deliveries"

    answer = await customer.post(f"{path}/{failed['id']}/resend", None)
    assert answer.status_code == 202
    delivery = answer.json()
    assert set(delivery) == FIELDS
    assert delivery["id"] > failed["id"]
    assert (delivery["event_id"], delivery["event_type"]) == (failed["event_id"], "meeting.created")
    assert (delivery["status"], delivery["attempts"]) == ("pending", [])
    [second] = await office.next()
    assert (second.body, second.headers["webhook-id"]) == (first.body, first.headers["webhook-id"])
    assert second.headers["x-service-delivery"] == delivery["id"]
    signature.verify([webhook["secret"]], second.body, second.headers[SIGNATURE], int(time.time()))
    standardwebhooks.Webhook(webhook["secret"]).verify(second.body.decode(), second.headers)
    [done] = await settled(customer, webhook, "succeeded")
    assert (await customer.get(path)).json()["data"] == [done, failed], "the earlier one stays as it was"


@pytest.mark.spec("4/idem-replay", "4/idem-accepted")
async def test_a_request_repeated_under_one_key_is_sent_once(office: DeliveryHarness) -> None:
    customer, webhook = await office.subscriber("credit.low")
    path, key, other = f"/webhooks/{webhook['id']}", new_key(), new_key()
    tests = [await customer.post(f"{path}/test", None, idem=key) for _ in range(3)]
    assert len({answer.content for answer in tests}) == 1
    again = f"{path}/deliveries/{tests[0].json()['id']}/resend"
    resent = [await customer.post(again, None, idem=other) for _ in range(3)]
    assert len({answer.content for answer in resent}) == 1
    assert resent[2].headers["Idempotent-Replayed"] == "true"
    await settled(customer, webhook, "succeeded", 2)
    assert len(office.receiver.received) == 2
    assert len((await customer.get(f"{path}/deliveries")).json()["data"]) == 2


@pytest.mark.spec("4.3/3", "1/op/rotate-secret")
async def test_after_rotation_trio_carries_both_signatures_unless_overlap_is_nothing(
    opened: Opened,
) -> None:
    async with opened("1") as office:
        customer, webhook = await office.subscriber("credit.topup.succeeded")
        path = f"/webhooks/{webhook['id']}"
        secrets = [signature.new_secret(bytes(32)), webhook["secret"]]
        for query, signs in (("", 2), ("?overlap=24", 2), ("?overlap=0", 1)):
            secrets.append((await customer.post(f"{path}/rotate-secret{query}", None)).json()["secret"])
            await customer.post(f"{path}/test", None)
            [sent] = await office.next()
            assert len(sent.headers["webhook-signature"].split(" ")) == signs
            verifiers = [standardwebhooks.Webhook(secret) for secret in secrets[::-1]]
            for verifier in verifiers[:signs]:
                verifier.verify(sent.body.decode(), sent.headers)
            with pytest.raises(standardwebhooks.WebhookVerificationError):
                verifiers[signs].verify(sent.body.decode(), sent.headers)
            first = {**sent.headers, "webhook-signature": sent.headers["webhook-signature"].split(" ")[0]}
            verifiers[0].verify(sent.body.decode(), first)


@pytest.mark.spec("6/5", "1/op/deliveries")
async def test_what_failed_while_a_receiver_was_down_is_sent_again_by_one_request(
    office: DeliveryHarness,
) -> None:
    customer, webhook = await office.subscriber("credit.topup.succeeded")
    path = f"/webhooks/{webhook['id']}"
    office.receiver.answers[:] = [410, 410, 204]
    for _ in range(3):
        await office.harness.administration.top_up(customer.account_id, 5)
    sent = await office.next(3)
    failed = await until(lambda: _failed(customer, path, 2))
    since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    answer = await customer.post(f"{path}/recover", {"since": since})
    assert answer.status_code == 202
    assert (answer.json()["deliveries"], answer.json()["has_more"]) == (2, False)
    again = await office.next(2)
    assert {each.headers["x-service-delivery"] for each in again} == {one["id"] for one in failed}
    assert {each.body for each in again} <= {each.body for each in sent}
    assert (await customer.post(f"{path}/recover", {"since": since})).json()["deliveries"] == 0


async def _failed(customer: Customer, path: str, count: int) -> list[dict[str, Any]] | None:
    found: list[dict[str, Any]] = (await customer.get(f"{path}/deliveries?status=failed")).json()["data"]
    return found if len(found) == count else None


async def events(customer: Customer, query: str = "") -> list[dict[str, Any]]:
    answer = await customer.get(f"/events{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


@pytest.mark.spec("6/kinds", "5/8")
async def test_events_are_listed_newest_first_as_they_were_sent(customer: Customer) -> None:
    meeting = await customer.make_meeting()
    webhook = await customer.make_webhook()
    sent = (await customer.post(f"/webhooks/{webhook['id']}/test", None)).json()
    await (await customer.harness.customer()).make_meeting()
    tested, made, *earlier = await events(customer)
    assert {one["type"] for one in earlier} == {"credit.topup.succeeded"}, "no webhook was there"
    assert list(tested) == ["id", "type", "created_at", "api_version", "data"]
    assert (tested["id"], tested["type"], tested["api_version"]) == (sent["event_id"], "webhook.test", "v1")
    assert tested["data"] == {name: value for name, value in webhook.items() if name != "secret"}
    assert made["data"] == meeting | {"password": None}
    assert (await customer.get(f"/events/{made['id']}")).json() == made
    first = (await customer.get("/events?limit=2")).json()
    assert first["data"] == [tested, made]
    assert await events(customer, f"?cursor={first['next_cursor']}") == earlier


@pytest.mark.spec("7/400")
async def test_events_are_filtered_by_kind_and_time(customer: Customer) -> None:
    await customer.make_meeting()
    whole = await events(customer)
    assert await events(customer, "?type=meeting.created") == whole[:1]
    today = datetime.now(WIB).date()
    tomorrow, yesterday = today + timedelta(days=1), today - timedelta(days=1)
    assert await events(customer, f"?from={yesterday}&to={tomorrow}") == whole
    assert await events(customer, f"?from={tomorrow}") == await events(customer, f"?to={yesterday}") == []
    assert await events(customer, "?from=2000-01-01&type=note.failed") == []
    query = f"?type=tea.ready&from={tomorrow}&to={today}&kind=x"
    assert set(fields_of(await customer.get(f"/events{query}"))) == {"type", "from", "kind"}


@pytest.mark.spec("5/8", "7/404")
async def test_another_accounts_event_is_answered_as_an_unknown_one(customer: Customer) -> None:
    owner = await customer.harness.customer()
    await owner.make_meeting()
    [foreign, *_] = await events(owner)
    for id_ in (foreign["id"], NO_ID, "x"):
        answer = await customer.get(f"/events/{id_}")
        assert code_of(answer) == (404, "not_found")
        assert answer.json()["error"]["message"] == "No event with this id."


@pytest.mark.spec("5/4")
async def test_events_need_a_scope_of_webhooks(customer: Customer) -> None:
    for scope, status in ((Scope.WEBHOOKS_READ, 200), (Scope.WEBHOOKS_WRITE, 200), (Scope.CREDITS_READ, 403)):
        key = await customer.another_key([scope])
        assert (await key.get("/events")).status_code == status
        assert (await key.get(f"/events/{NO_ID}")).status_code == (404 if status == 200 else status)


async def test_an_event_past_its_retention_is_not_shown(customer: Customer) -> None:
    whole = await events(customer)
    for age, is_shown in (
        (EVENTS_KEPT - timedelta(minutes=1), True),
        (EVENTS_KEPT + timedelta(seconds=1), False),
    ):
        at = datetime.now(UTC) - age
        id_ = uuid7(at, bytes(RANDOM_BYTES))
        await customer.query(
            "INSERT INTO events SELECT account_id, %s, kind, payload, %s FROM events WHERE id = %s",
            id_, at, whole[0]["id"],
        )  # fmt: skip
        listed = [one["id"] for one in await events(customer, "?from=2000-01-01")]
        assert (str(id_) in listed) == is_shown
        assert (await customer.get(f"/events/{id_}")).status_code == (200 if is_shown else 404)
