"""Jitsi as the provider of the service: what a customer gets, and what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from attrs import evolve

from meetcore.adapters.jitsi import JitsiProvider
from meetcore.adapters.settings import Settings
from meetcore.composition.infrastructure import open_application
from meetcore.composition.ports import Part
from tests.support.api_contract import Contract
from tests.support.api_harness import ApiHarness, Customer, Funds, api_on, client_of, code_of

SERVER = "https://jitsi.example.test/rooms"


@pytest.fixture
async def jitsi_customer(
    harness: ApiHarness, customer: Customer, contract: Contract, service_settings: Settings
) -> AsyncIterator[Customer]:
    """A customer of a service whose provider is Jitsi."""
    settings = evolve(service_settings, provider="jitsi", jitsi_url=f"{SERVER}/")
    async with (
        open_application(settings, harness.network, [Part.API]) as application,
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


@pytest.mark.spec("3/cancel-before")
async def test_cancelling_returns_the_credits_though_the_room_can_be_opened(jitsi_customer: Customer) -> None:
    meeting = await jitsi_customer.make_meeting()
    answer = await jitsi_customer.delete(f"/meetings/{meeting['id']}")
    assert answer.json() == {"id": meeting["id"], "status": "cancelled", "credits_refunded": 10}
    assert await jitsi_customer.funds() == Funds(1000, 0, 3)


@pytest.mark.spec("7/422")
@pytest.mark.parametrize(
    "wanted",
    [
        {"with_recording": True},
        {"auto_notulen": True},
        {"password": "rahasia1"},
        {"must_login": True},
        {"email_notification": True},
    ],
)
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
