"""The health of webhook endpoints on the dashboard, and the catalogue of events."""

from __future__ import annotations

import html
from datetime import UTC, datetime
from uuid import uuid4

from meetcore.domain.ids import uuid7
from meetcore.domain.members.roles import Role
from meetcore.domain.webhooks.events import EventKind
from tests.support.api_harness import ApiHarness, Customer
from tests.support.dashboard_fixtures import SignIn, browsers, sign_in

__all__ = ["browsers", "sign_in"]  # fixtures

_DELIVERY = """
INSERT INTO deliveries (account_id, id, endpoint_id, event_id, event_kind, status, created_at)
VALUES (%s, %s, %s, gen_random_uuid(), 'webhook.test', 'succeeded', now()) RETURNING id
"""
_ATTEMPT = """
INSERT INTO delivery_attempts (account_id, delivery_id, number, at, duration_ms, status_code, error)
SELECT account_id, id, %s, now(), %s, %s, %s FROM deliveries WHERE endpoint_id = %s RETURNING number
"""


async def test_an_endpoint_shows_how_its_attempts_went(
    harness: ApiHarness, customer: Customer, sign_in: SignIn
) -> None:
    webhook = await customer.make_webhook()
    browser, page = await sign_in(customer.account_id, Role.VIEWER), f"/dashboard/webhooks/{webhook['id']}"
    assert "of 0" in (await browser.get(page)).text
    id_ = uuid7(datetime.now(UTC), uuid4().bytes)
    await harness.query(_DELIVERY, customer.account_id, id_, webhook["id"])
    for number, (took_ms, status, error) in enumerate(
        [(1200, 500, "http_status"), (40, None, "connect_failed"), (30, 200, None), (20, 200, None)], start=1
    ):
        assert await harness.query(_ATTEMPT, number, took_ms, status, error, webhook["id"])
    for path in (page, "/dashboard/webhooks"):
        text = (await browser.get(path)).text
        assert "50%" in text
        assert "1,200 ms" in text
        assert "connect_failed" in text or "http_status" in text
    assert "of 4" in (await browser.get(page)).text


async def test_the_catalogue_has_an_example_of_each_event(customer: Customer, sign_in: SignIn) -> None:
    browser = await sign_in(customer.account_id, Role.VIEWER)
    page = html.unescape((await browser.get("/dashboard/webhooks/events")).text)
    for kind in set(EventKind) - {EventKind.WEBHOOK_TEST}:
        assert f'"type": "{kind.value}"' in page
    assert "/dashboard/webhooks/events" in (await browser.get("/dashboard/webhooks")).text
