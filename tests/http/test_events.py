"""What happened, listed with the payloads that webhooks are sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from meetcore.domain.ids import RANDOM_BYTES, uuid7
from meetcore.domain.meetings.schedule import WIB
from meetcore.domain.requests.keys import Scope
from meetcore.domain.webhooks.events import EVENTS_KEPT
from tests.http.test_webhook_operations import NO_ID
from tests.support.api_harness import ApiHarness, Customer, code_of, fields_of


async def events(customer: Customer, query: str = "") -> list[dict[str, Any]]:
    answer = await customer.get(f"/events{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


@pytest.mark.spec("6/kinds", "5/8")
async def test_events_are_listed_newest_first_as_they_were_sent(
    harness: ApiHarness, customer: Customer
) -> None:
    meeting = await customer.make_meeting()
    webhook = await customer.make_webhook()
    sent = (await customer.post(f"/webhooks/{webhook['id']}/test", None)).json()
    await (await harness.customer()).make_meeting()
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
async def test_another_accounts_event_is_answered_as_an_unknown_one(
    harness: ApiHarness, customer: Customer
) -> None:
    owner = await harness.customer()
    await owner.make_meeting()
    [foreign, *_] = await events(owner)
    for id_ in (foreign["id"], NO_ID, "x"):
        answer = await customer.get(f"/events/{id_}")
        assert code_of(answer) == (404, "not_found")
        assert answer.json()["error"]["message"] == "No event with this id."


@pytest.mark.spec("5/4")
async def test_events_need_a_scope_of_webhooks(harness: ApiHarness, customer: Customer) -> None:
    for scope, status in ((Scope.WEBHOOKS_READ, 200), (Scope.WEBHOOKS_WRITE, 200), (Scope.CREDITS_READ, 403)):
        key = await harness.another_key(customer, [scope])
        assert (await key.get("/events")).status_code == status
        assert (await key.get(f"/events/{NO_ID}")).status_code == (404 if status == 200 else status)


async def test_an_event_past_its_retention_is_not_shown(harness: ApiHarness, customer: Customer) -> None:
    whole = await events(customer)
    for age, is_shown in (
        (EVENTS_KEPT - timedelta(minutes=1), True),
        (EVENTS_KEPT + timedelta(seconds=1), False),
    ):
        at = datetime.now(UTC) - age
        id_ = uuid7(at, bytes(RANDOM_BYTES))
        await harness.query(
            "INSERT INTO events SELECT account_id, %s, kind, payload, %s FROM events WHERE id = %s",
            id_, at, whole[0]["id"],
        )  # fmt: skip
        listed = [one["id"] for one in await events(customer, "?from=2000-01-01")]
        assert (str(id_) in listed) == is_shown
        assert (await customer.get(f"/events/{id_}")).status_code == (200 if is_shown else 404)
