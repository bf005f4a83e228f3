"""Zoom and Jitsi as providers of the service: what a customer gets, and what it costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.adapters.settings import SecretStr, Settings
from meetcore.adapters.zoom.schemas import reference_of
from meetcore.composition.application import Application, Part
from meetcore.composition.infrastructure import open_application
from meetcore.composition.providers import provider_pages
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
        zoom_client_secret=SecretStr(known.client_secret),
        zoom_api_url=f"{zoom.api_url}/",
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


SERVER = "https://jitsi.example.test/rooms"


@pytest.fixture
async def jitsi_customer(
    customer: Customer, contract: Contract, service_settings: Settings
) -> AsyncIterator[Customer]:
    """A customer of a service whose provider is Jitsi."""
    settings = evolve(service_settings, provider="jitsi", jitsi_url=f"{SERVER}/")
    async with (
        open_application(settings, customer.harness.network, [Part.API]) as application,
        api_on(application) as api,
        client_of(api, contract) as http,
    ):
        assert isinstance(application.ports.provider, JitsiProvider)
        yield customer.at(http)


@pytest.mark.spec("1/meetings", "4.1/4")
async def test_a_meeting_has_a_link_and_null_for_what_a_room_has_not(jitsi_customer: Customer) -> None:
    meeting = await jitsi_customer.make_meeting(title="Rapat & “tim”", mic_off=True)
    address, _, options = meeting["join_url"].partition("#")
    assert address == f"{SERVER}/{meeting['provider_meeting_id']}"
    assert options.endswith("&config.startWithAudioMuted=true")
    assert meeting["password"] is meeting["host_key"] is meeting["capacity"] is None
    assert (await jitsi_customer.get(f"/meetings/{meeting['id']}")).json() == meeting
    assert await jitsi_customer.funds() == Funds(990, 0, 2)


@pytest.mark.spec("7/422")
@pytest.mark.parametrize(
    "wanted",
    [
        {"with_recording": True}, {"auto_notulen": True}, {"password": "rahasia1"}, {"must_login": True},
        {"email_notification": True},
    ],
)  # fmt: skip
async def test_what_a_room_has_not_is_refused_and_costs_nothing(
    jitsi_customer: Customer, harness: ApiHarness, wanted: dict[str, Any]
) -> None:
    answer = await jitsi_customer.post("/meetings", harness.body(**wanted))
    assert code_of(answer) == (422, "unprocessable_entity")
    assert next(iter(wanted)) in answer.json()["error"]["message"]
    assert answer.json()["error"]["details"]["fields"].keys() == wanted.keys()
    assert await jitsi_customer.funds() == Funds(1000, 0, 1)


@pytest.mark.spec("4.1/3")
async def test_meetings_at_one_time_need_no_host(jitsi_customer: Customer, harness: ApiHarness) -> None:
    body = harness.body()
    answers = [await jitsi_customer.post("/meetings", body) for _ in range(3)]  # the service has two hosts
    assert [answer.status_code for answer in answers] == [201] * 3
    assert len({answer.json()["join_url"] for answer in answers}) == 3
    assert await jitsi_customer.hosts_taken() == 0
