"""Zoom as the provider of the service: what a customer gets, what is at Zoom, and what it costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import httpx
import pytest
import typed_settings
from attrs import evolve

from meetcore.adapters.settings import Settings
from meetcore.adapters.zoom.orders import reference_of
from meetcore.composition.application import Application
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from meetcore.composition.providers import provider_pages
from meetcore.domain.meetings.hosts import next_creation_day
from meetcore.testing.zoom_server import Fault, ZoomStandIn, zoom_stand_in
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, Funds, api_on, client_of, code_of


@pytest.fixture
async def zoom() -> AsyncIterator[ZoomStandIn]:
    async with zoom_stand_in() as stand_in:
        yield stand_in


@pytest.fixture
async def zoom_application(
    zoom: ZoomStandIn, harness: ApiHarness, service_settings: Settings
) -> AsyncIterator[Application]:
    """A service whose provider is Zoom."""
    # Zoom lets a host make a hundred meetings a day, and the other tests have made more.
    await harness.query("UPDATE hosts SET creations = 0")
    known = zoom.credentials
    settings = evolve(
        service_settings,
        provider="zoom",
        zoom_account_id=known.account_id,
        zoom_client_id=known.client_id,
        zoom_client_secret=typed_settings.SecretStr(known.client_secret),
        zoom_api_url=f"{zoom.api_url}/",
        zoom_oauth_url=zoom.oauth_url,
    )
    async with open_application(settings, harness.network, [Part.API]) as application:
        yield application


@pytest.fixture
async def zoom_customer(
    zoom_application: Application, customer: Customer, contract: Contract
) -> AsyncIterator[Customer]:
    """A customer of that service."""
    async with api_on(zoom_application) as api, client_of(api, contract) as http:
        assert provider_pages(zoom_application) == ()
        yield customer.at(http)


@pytest.mark.spec("1/meetings", "4.1/4")
async def test_a_meeting_is_made_at_zoom_and_paid_once(zoom_customer: Customer, zoom: ZoomStandIn) -> None:
    meeting = await zoom_customer.make_meeting(title="Rapat", password="Rk4-2026", with_recording=True)
    (made,) = zoom.meetings
    assert meeting["provider_meeting_id"] == str(made.number)
    assert meeting["join_url"].startswith("https://zoom.stand-in.example/j/")
    assert meeting["password"] == made.fields["password"] == "Rk4-2026"
    assert str(reference_of(made.fields["agenda"])) == meeting["id"]
    assert made.fields["settings"]["auto_recording"] == "cloud"
    assert await zoom_customer.funds() == Funds(985, 0, 2)


@pytest.mark.spec("3/cancel-before")
async def test_cancelling_deletes_it_there_and_returns_the_credits(
    zoom_customer: Customer, zoom: ZoomStandIn
) -> None:
    meeting = await zoom_customer.make_meeting()
    answer = await zoom_customer.delete(f"/meetings/{meeting['id']}")
    assert answer.json() == {"id": meeting["id"], "status": "cancelled", "credits_refunded": 10}
    assert zoom.meetings == []
    assert await zoom_customer.funds() == Funds(1000, 0, 3)


@pytest.mark.spec("7/502")
async def test_zooms_refusal_costs_nothing_and_its_text_is_not_shown(
    zoom_customer: Customer, harness: ApiHarness, zoom: ZoomStandIn
) -> None:
    zoom.faults.plan(Fault("missing_scope", "create"))
    answer = await zoom_customer.post("/meetings", harness.body())
    assert code_of(answer) == (502, "upstream_error")
    assert "scope" not in answer.text
    assert zoom.meetings == []
    assert await zoom_customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("4.1/3", "7/503")
async def test_creating_and_cancelling_leaves_creations_of_the_day_to_other_accounts(
    zoom_customer: Customer, harness: ApiHarness, zoom: ZoomStandIn
) -> None:
    await harness.query("UPDATE hosts SET creations = 100, creations_on = (now() AT TIME ZONE 'UTC')::date")
    await harness.query(
        """UPDATE hosts SET creations = 96, unavailable_until = NULL
            WHERE id = (SELECT id FROM hosts WHERE is_active ORDER BY capacity DESC, id LIMIT 1)"""
    )
    other, third = [(await harness.customer()).at(zoom_customer.http) for _ in range(2)]
    for customer, share in ((zoom_customer, 2), (other, 1), (third, 1)):
        for _ in range(share):
            meeting = await customer.make_meeting()
            assert (await customer.delete(f"/meetings/{meeting['id']}")).status_code == 200
        answer = await customer.post("/meetings", harness.body())
        assert code_of(answer) == (503, "service_unavailable")
        check_midnight(answer)
        assert await customer.balance() == 1000
        # To the third there is none left for anybody.
        assert ("share" in answer.json()["error"]["message"]) == (customer is not third)
    assert zoom.meetings == []


def check_midnight(answer: httpx.Response) -> None:
    """The refusal has the start of the next day of creations, and the delay until then."""
    now = datetime.now(UTC)
    midnight = next_creation_day(now)
    assert answer.json()["error"]["details"] == {"next_available_at": f"{midnight:%Y-%m-%dT%H:%M:%SZ}"}
    assert abs(int(answer.headers["Retry-After"]) - (midnight - now).total_seconds()) < 5


async def test_an_orphan_at_zoom_is_removed(
    zoom_customer: Customer, harness: ApiHarness, zoom: ZoomStandIn, zoom_application: Application
) -> None:
    zoom.faults.plan(Fault("answered", "create", doubles=1))
    meeting = await zoom_customer.make_meeting()
    assert len(zoom.meetings) == 2
    await harness.query(
        "UPDATE orphan_checks SET due_at = now(), since = now() - interval '1 hour' WHERE meeting_id = %s",
        meeting["id"],
    )
    assert await zoom_application.meetings.remove_orphans.sweep() >= 1
    assert [str(each.number) for each in zoom.meetings] == [meeting["provider_meeting_id"]]
